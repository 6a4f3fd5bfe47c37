//! What time it is, and what nobody can guess.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    since_1970(SystemTime::now())
}

/// Milliseconds since 1970 at a time, such as a file's.
pub(crate) fn since_1970(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Bytes from the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Requests of up to 256 bytes are served whole once the system has booted. Should it fail all the same, the
    // names that are made of this may collide, and every use of them copes with that.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes
}

/// Sixteen hexadecimal digits that nobody has had.
pub(crate) fn random_name() -> String {
    format!("{:016x}", u64::from_le_bytes(random()))
}

/// RFC 3339 in UTC with milliseconds.
pub(crate) fn rfc3339(ms: u64) -> String {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let (year, month, day) = date(ms / DAY);
    let (hour, minute) = (ms / 3_600_000 % 24, ms / 60_000 % 60);
    let (second, rest) = (ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:03}Z")
}

/// The date that is so many days after the first of January 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    // The calendar repeats itself every 400 years.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_everybody_writes_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
        }
        // A clock that is far off is no reason to stop.
        assert!(rfc3339(u64::MAX).ends_with('Z'));
    }
}
