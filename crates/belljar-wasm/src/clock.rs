//! A guest's time.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use belljar_engine::Clock;
use belljar_files::Timestamp;
use serde::{Deserialize, Serialize};

static PROCESS_START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The clock of one guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClockState {
    clock: Clock,
    /// Looks at a fixed clock so far.
    ticks: u64,
    /// Added to the host's monotonic clock, so that it goes on where it stood when a guest moves to
    /// another process.
    offset: u64,
}

impl ClockState {
    pub(crate) fn new(clock: Clock) -> Self {
        // Guests never see the time since the host booted.
        Self { clock, ticks: 0, offset: 1_000_000_000 }
    }

    /// Nanoseconds of a clock that never goes back.
    pub(crate) fn monotonic(&mut self) -> u64 {
        match self.clock {
            Clock::Host => self.offset + PROCESS_START.elapsed().as_nanos() as u64,
            Clock::Fixed(_) => self.tick(),
        }
    }

    /// Time since 1970.
    pub(crate) fn wall(&mut self) -> Timestamp {
        match self.clock {
            Clock::Host => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_nanoseconds(now.as_nanos() as i128)
            }
            Clock::Fixed(start) => Timestamp::from_nanoseconds(i128::from(start) + i128::from(self.tick())),
        }
    }

    /// The host's instant at which the guest's monotonic clock will show `nanoseconds`; a fixed
    /// clock is moved there instead, and nobody waits.
    pub(crate) fn instant(&mut self, nanoseconds: u64) -> Instant {
        match self.clock {
            Clock::Host => {
                let since_start = nanoseconds.saturating_sub(self.offset);
                PROCESS_START
                    .checked_add(Duration::from_nanos(since_start))
                    .unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400 * 365))
            }
            Clock::Fixed(_) => {
                self.ticks = self.ticks.max(nanoseconds / 1000);
                Instant::now()
            }
        }
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks.saturating_mul(1000)
    }
}
