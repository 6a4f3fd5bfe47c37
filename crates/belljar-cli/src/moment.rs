//! Times and durations, for people.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment in milliseconds since 1970, shown as how long ago it was.
pub(crate) struct Ago(pub(crate) u64);

/// A moment in milliseconds since 1970, shown as date and time of day; machines differ in their time zones, so it is
/// UTC.
pub(crate) struct Moment(pub(crate) u64);

impl fmt::Display for Ago {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = now.saturating_sub(Duration::from_millis(self.0)).as_secs();
        formatter.write_str(&ago(seconds))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(formatter, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

/// Reads `90s`, `15m`, `12h` or `7d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number with s, m, h or d, e.g. 90s, 15m, 12h, 7d".to_owned();
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let factor: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds = number.parse().ok().and_then(|number: u64| number.checked_mul(factor));
    seconds.map(Duration::from_secs).ok_or_else(|| "that is longer than a clock can tell".to_owned())
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..2 => "now".to_owned(),
        2..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Year, month and day of a day since 1970. The year is counted from March, so that the leap day is its last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("12h", 43_200), ("7d", 604_800), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
        }
        for wrong in ["", "s", "7", "-1d", "+1d", "1.5h", "1w", "7 d", "7ä", "99999999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments() {
        assert_eq!(Moment(0).to_string(), "1970-01-01 00:00:00 UTC");
        assert_eq!(Moment(951_827_696_789).to_string(), "2000-02-29 12:34:56 UTC");
        assert_eq!(Moment(1_577_836_799_999).to_string(), "2019-12-31 23:59:59 UTC");
        assert_eq!(Moment(1_577_836_800_000).to_string(), "2020-01-01 00:00:00 UTC");
    }

    #[test]
    fn ages() {
        let told: Vec<String> = [0, 59, 60, 7199, 172_800].map(ago).to_vec();
        assert_eq!(told, ["now", "59 s ago", "1 min ago", "1 h ago", "2 days ago"]);
    }
}
