//! A guest's randomness.

use belljar_engine::Entropy;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

/// The source of one guest's randomness.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EntropyState {
    entropy: Entropy,
    /// Bytes that a seeded source has given.
    position: u64,
}

impl EntropyState {
    pub(crate) fn new(entropy: Entropy) -> Self {
        Self { entropy, position: 0 }
    }

    /// The source of a child, which repeats nothing of its parent's or its siblings'.
    pub(crate) fn branch(&self, child: u64) -> Self {
        match self.entropy {
            Entropy::Host => self.clone(),
            Entropy::Seeded(seed) => {
                let mut hasher = blake3::Hasher::new_derive_key("belljar 2026-11 seeded child");
                for number in [seed, self.position, child] {
                    hasher.update(&number.to_le_bytes());
                }
                let mut seed = [0; 8];
                hasher.finalize_xof().fill(&mut seed);
                Self::new(Entropy::Seeded(u64::from_le_bytes(seed)))
            }
        }
    }

    /// Fills the buffer.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        match self.entropy {
            Entropy::Host => {
                let mut filled = 0;
                while filled < buffer.len() {
                    filled += getrandom(&mut buffer[filled..], GetRandomFlags::empty())?;
                }
            }
            Entropy::Seeded(seed) => {
                let mut output = blake3::Hasher::new_derive_key("belljar 2026-11 seeded entropy")
                    .update(&seed.to_le_bytes())
                    .finalize_xof();
                output.set_position(self.position);
                output.fill(buffer);
                self.position = self.position.wrapping_add(buffer.len() as u64);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_goes_on() {
        let mut whole = [0; 64];
        EntropyState::new(Entropy::Seeded(7)).fill(&mut whole).unwrap();
        let mut source = EntropyState::new(Entropy::Seeded(7));
        let mut parts = [0; 64];
        source.fill(&mut parts[..10]).unwrap();
        source.fill(&mut parts[10..]).unwrap();
        assert_eq!(whole, parts);
        assert_ne!(whole[..32], whole[32..]);
    }
}
