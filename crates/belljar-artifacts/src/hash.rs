//! SHA-256, in hexadecimal digits.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// The hash of something that is in memory.
pub(crate) fn of(bytes: &[u8]) -> String {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

/// Takes the bytes piece by piece.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(64);
        for byte in self.0.finalize() {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }
}

/// The hash of all that a reader gives, in hexadecimal digits, and how many bytes that is.
///
/// # Errors
/// If it can't be read.
pub fn hash_contents(mut contents: impl Read) -> io::Result<(String, u64)> {
    let (mut hasher, mut size) = (Hasher::default(), 0);
    let mut buffer = vec![0; 256 << 10];
    loop {
        match contents.read(&mut buffer)? {
            0 => return Ok((hasher.finish(), size)),
            length => {
                hasher.update(&buffer[..length]);
                size += length as u64;
            }
        }
    }
}

/// Whether it is 64 small hexadecimal digits.
pub(crate) fn is_one(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
