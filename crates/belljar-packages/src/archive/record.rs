use std::collections::HashMap;

/// The text of a wheel's `RECORD`: a path, a hash and a size on each line.
pub(super) struct Record<'t>(pub(super) &'t str);

impl Record<'_> {
    /// Compares the hashes with those of the files that were unpacked.
    pub(super) fn check(&self, found: &HashMap<String, [u8; 32]>) -> Result<(), String> {
        for line in self.0.lines().filter(|line| !line.trim().is_empty()) {
            let mut fields = line.rsplitn(3, ',');
            let (_size, hash, path) =
                (fields.next(), fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            let path = unquoted(path);
            let (Some(expected), Some(hash)) = (hash.strip_prefix("sha256="), found.get(&path)) else {
                continue;
            };
            if expected.trim_end_matches('=') != base64(hash) {
                return Err(format!("`{path}` isn't what its RECORD says"));
            }
        }
        Ok(())
    }
}

fn unquoted(field: &str) -> String {
    match field.strip_prefix('"').and_then(|field| field.strip_suffix('"')) {
        Some(field) => field.replace("\"\"", "\""),
        None => field.to_owned(),
    }
}

/// The alphabet for addresses, without padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(char::from(ALPHABET[index as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_addresses() {
        assert_eq!(base64(b"\xfb\xff\xfe"), "-__-");
        assert_eq!(base64(b"a"), "YQ");
        assert_eq!(base64(b"ab"), "YWI");
    }

    #[test]
    fn another_hash_is_found() {
        let found = HashMap::from([("a,b.py".to_owned(), [0; 32])]);
        let good = format!("\"a,b.py\",sha256={},5\nd/RECORD,,\n", base64(&[0; 32]));
        assert_eq!(Record(&good).check(&found), Ok(()));
        let bad = format!("\"a,b.py\",sha256={},5\n", base64(&[1; 32]));
        assert!(Record(&bad).check(&found).expect_err("differs").contains("a,b.py"));
    }
}
