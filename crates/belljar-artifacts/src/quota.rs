//! How much room there is.

use crate::artifact::Refusal;
use crate::settings::StoreLimits;

/// Bytes and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

/// What is held now, and how much it may become.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    limits: StoreLimits,
    pub(crate) session: Held,
    pub(crate) tenant: Held,
    /// Bytes are those that are stored.
    pub(crate) total: Held,
}

impl Quota {
    pub(crate) fn new(limits: &StoreLimits, session: Held, tenant: Held, total: Held) -> Self {
        Self { limits: limits.clone(), session, tenant, total }
    }

    /// Why there is no room for a file, of which so many bytes would have to be stored.
    pub(crate) fn refuses(&self, size: u64, stored: u64) -> Option<(Refusal, String)> {
        let limits = &self.limits;
        let scopes = [
            (
                Refusal::SessionQuota,
                "the session",
                limits.session_bytes,
                limits.session_count,
                self.session,
                size,
            ),
            (Refusal::TenantQuota, "the tenant", limits.tenant_bytes, limits.tenant_count, self.tenant, size),
            (Refusal::StoreQuota, "the store", limits.total_bytes, limits.total_count, self.total, stored),
        ];
        for (why, who, most_bytes, most_files, held, size) in scopes {
            if let Some(most) = most_files
                && held.files >= most
            {
                let reason = format!("{who} may keep {} files, and has {}", number(most), number(held.files));
                return Some((why, reason));
            }
            if let Some(most) = most_bytes
                && held.bytes.saturating_add(size) > most
            {
                let (most, has, this) = (bytes(most), bytes(held.bytes), bytes(size));
                return Some((why, format!("{who} may keep {most}, has {has}, and this is {this}")));
            }
        }
        None
    }

    /// Counts a file.
    pub(crate) fn add(&mut self, size: u64, stored: u64) {
        for (held, bytes) in [(&mut self.session, size), (&mut self.tenant, size), (&mut self.total, stored)]
        {
            held.bytes = held.bytes.saturating_add(bytes);
            held.files = held.files.saturating_add(1);
        }
    }

    /// How many bytes a file may have, as far as is known before it is read.
    pub(crate) fn room(&self) -> u64 {
        let room =
            |most: Option<u64>, held: Held| most.map_or(u64::MAX, |most| most.saturating_sub(held.bytes));
        room(self.limits.session_bytes, self.session).min(room(self.limits.tenant_bytes, self.tenant))
    }

    /// How many bytes can be written.
    pub(crate) fn room_in_all(&self) -> u64 {
        self.limits.total_bytes.map_or(u64::MAX, |most| most.saturating_sub(self.total.bytes))
    }
}

/// A number of bytes, for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") };
    }
    let unit = (count.ilog2() / 10) as usize;
    let tenths = (u128::from(count) * 10) >> (10 * unit);
    let (whole, tenth) = ((tenths / 10) as u64, tenths % 10);
    let fraction = if tenth == 0 { String::new() } else { format!(".{tenth}") };
    format!("{}{fraction} {}", number(whole), UNITS[unit - 1])
}

/// A number with commas.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        for (count, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1020 << 20, "1,020 MiB"),
            (1 << 30, "1 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(
            (number(7), number(1_000), number(1_234_567)),
            ("7".into(), "1,000".into(), "1,234,567".into())
        );
    }

    #[test]
    fn room_is_refused_with_figures() {
        let limits = StoreLimits { session_count: Some(2), ..StoreLimits::default() };
        let held = Held { bytes: 1020 << 20, files: 1 };
        let mut quota = Quota::new(&limits, held, held, Held::default());
        let (why, reason) = quota.refuses(10 << 20, 0).expect("it is too much");
        assert_eq!(why, Refusal::SessionQuota);
        assert_eq!(reason, "the session may keep 1 GiB, has 1,020 MiB, and this is 10 MiB");
        assert_eq!(quota.refuses(4 << 20, 4 << 20), None);
        quota.add(1, 1);
        assert_eq!(
            quota.refuses(0, 0),
            Some((Refusal::SessionQuota, "the session may keep 2 files, and has 2".into()))
        );
        assert!(quota.refuses(u64::MAX, u64::MAX).is_some());
    }
}
