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
    offset: i64,
}

impl ClockState {
    pub(crate) fn new(clock: Clock) -> Self {
        // Guests never see the time since the host booted.
        Self { clock, ticks: 0, offset: 1_000_000_000 }
    }

    /// For keeping: what the clock shows stands still.
    pub(crate) fn stopped(&self) -> Self {
        Self { offset: self.offset.saturating_add(since_start()), ..self.clone() }
    }

    /// What was kept goes on from where it stood.
    pub(crate) fn started(self) -> Self {
        Self { offset: self.offset.clamp(0, i64::MAX / 2) - since_start(), ..self }
    }

    /// Nanoseconds of a clock that never goes back.
    pub(crate) fn monotonic(&mut self) -> u64 {
        match self.clock {
            Clock::Host => self.offset.saturating_add(since_start()).max(0) as u64,
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
                let since_start =
                    i64::try_from(nanoseconds).unwrap_or(i64::MAX).saturating_sub(self.offset).max(0) as u64;
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
        self.ticks = self.ticks.saturating_add(1);
        self.ticks.saturating_mul(1000)
    }
}

fn since_start() -> i64 {
    i64::try_from(PROCESS_START.elapsed().as_nanos()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_stood_goes_on() {
        let mut clock = ClockState::new(Clock::Host);
        let before = clock.monotonic();
        let kept = clock.stopped();
        std::thread::sleep(Duration::from_millis(30));
        let mut again = kept.clone().started();
        let after = again.monotonic();
        assert!(after >= before && after < clock.monotonic());
        assert!(ClockState { offset: i64::MIN, ..kept.clone() }.started().monotonic() < 1_000_000_000);
        ClockState { offset: i64::MAX, ticks: u64::MAX, ..kept }.started().monotonic();
    }
}
