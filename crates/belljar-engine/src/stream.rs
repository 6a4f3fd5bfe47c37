//! An output stream of a cell, kept within bounds.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// What is kept of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedStream {
    /// The text: all of it, or its beginning and its end with a line between them that says how
    /// much is missing.
    pub text: String,
    /// Bytes that the guest wrote.
    pub total_bytes: u64,
    /// Bytes of these that `text` lacks.
    pub cut_bytes: u64,
    /// Guest path of a file with the whole stream, where it was cut and there was room.
    pub rest: Option<String>,
}

/// Collects a stream: its beginning (three quarters of the limit) and its end (one quarter).
#[derive(Debug)]
pub struct StreamCapture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl StreamCapture {
    /// A capture that keeps at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tail_limit = limit / 4;
        Self { head: Vec::new(), tail: VecDeque::new(), head_limit: limit - tail_limit, tail_limit, total: 0 }
    }

    /// Takes what the guest wrote; returns how many of these bytes, from the start, are to be
    /// streamed on (the rest exceeds the limit).
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        self.total += bytes.len() as u64;
        let fits = bytes.len().min(self.head_limit - self.head.len());
        self.head.extend_from_slice(&bytes[..fits]);
        let mut rest = &bytes[fits..];
        if rest.len() > self.tail_limit {
            rest = &rest[rest.len() - self.tail_limit..];
            self.tail.clear();
        }
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(rest);
        fits
    }

    /// Bytes written so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether more was written than is kept.
    pub fn is_cut(&self) -> bool {
        self.cut_bytes() > 0
    }

    /// The beginning, up to its limit.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// What comes after the beginning: the end, and before it how much is missing.
    pub fn end(&self) -> Vec<u8> {
        let mut end = match self.cut_bytes() {
            0 => Vec::new(),
            cut => format!("\n… {cut} bytes cut …\n").into_bytes(),
        };
        end.extend(self.tail.iter());
        end
    }

    fn cut_bytes(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// What was kept, as text.
    pub fn finish(mut self, rest: Option<String>) -> CapturedStream {
        let cut_bytes = self.cut_bytes();
        let end = self.end();
        self.head.extend(end);
        let text = match String::from_utf8(self.head) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        CapturedStream { text, total_bytes: self.total, cut_bytes, rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_everything_that_fits() {
        let mut capture = StreamCapture::new(8);
        assert_eq!(capture.push(b"abcd"), 4);
        assert_eq!(capture.push(b"efgh"), 2);
        let kept = capture.finish(None);
        assert_eq!((kept.text.as_str(), kept.cut_bytes), ("abcdefgh", 0));
    }

    #[test]
    fn keeps_beginning_and_end() {
        let mut capture = StreamCapture::new(8);
        for byte in b'a'..=b'z' {
            capture.push(&[byte]);
        }
        let kept = capture.finish(None);
        assert_eq!(kept.text, "abcdef\n… 18 bytes cut …\nyz");
        assert_eq!((kept.total_bytes, kept.cut_bytes), (26, 18));
    }

    #[test]
    fn one_huge_write_keeps_its_end() {
        let mut capture = StreamCapture::new(8);
        capture.push(&[b'x'; 1000]);
        capture.push(b"yz");
        assert!(capture.finish(None).text.ends_with("yz"));
    }

    #[test]
    fn a_limit_of_nothing_keeps_nothing() {
        let mut capture = StreamCapture::new(0);
        assert_eq!(capture.push(b"abc"), 0);
        assert_eq!(capture.finish(None).cut_bytes, 3);
    }
}
