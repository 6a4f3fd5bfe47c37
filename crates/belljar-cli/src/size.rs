//! A number of bytes, for people.

use std::fmt;

pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1024 => return write!(formatter, "{} B", self.0),
            1024..1_048_576 => (1_u64 << 10, "KiB"),
            1_048_576..1_073_741_824 => (1 << 20, "MiB"),
            _ => (1 << 30, "GiB"),
        };
        if self.0.is_multiple_of(unit) {
            write!(formatter, "{} {name}", self.0 / unit)
        } else {
            write!(formatter, "{:.1} {name}", self.0 as f64 / unit as f64)
        }
    }
}
