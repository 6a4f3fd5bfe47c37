//! Files by their blocks: copied, compared and named without what is only holes. A file of a terabyte with nothing in it
//! costs nothing.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, ioctl_ficlone, seek};

/// What names contents.
pub(super) type Digest = [u8; 32];

const BLOCK: u64 = 64 << 10;

/// Copies contents into an empty file, sharing blocks if the file system can. Returns the bytes that were copied, 0 if
/// they are shared. More than `most` is an error.
pub(super) fn copy(from: &File, to: &File, size: u64, most: u64) -> io::Result<u64> {
    if size > 0 && ioctl_ficlone(to, from).is_ok() {
        // It may have grown since its size was looked at.
        to.set_len(size)?;
        return Ok(0);
    }
    to.set_len(size)?;
    let mut copied = 0;
    each(from, size, |offset, block| {
        copied += block.len() as u64;
        if copied > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        to.write_all_at(block, offset)
    })?;
    Ok(copied)
}

/// Copies contents into an empty file, and returns the digest of what is in it.
pub(super) fn copy_checked(from: &File, to: &File, size: u64) -> io::Result<Digest> {
    if from.metadata()?.len() != size {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has another size than it should have"));
    }
    if size > 0 && ioctl_ficlone(to, from).is_ok() {
        return digest(to, size);
    }
    to.set_len(size)?;
    let mut hasher = Hasher::new(size);
    each(from, size, |offset, block| {
        hasher.block(offset, block);
        to.write_all_at(block, offset)
    })?;
    Ok(hasher.finish())
}

pub(super) fn digest(file: &File, size: u64) -> io::Result<Digest> {
    let mut hasher = Hasher::new(size);
    each(file, size, |offset, block| {
        hasher.block(offset, block);
        Ok(())
    })?;
    Ok(hasher.finish())
}

pub(super) fn digest_bytes(bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::new(bytes.len() as u64);
    for (number, block) in bytes.chunks(BLOCK as usize).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            hasher.block(number as u64 * BLOCK, block);
        }
    }
    hasher.finish()
}

/// Whether two files of one size have the same contents.
pub(super) fn are_same(one: &File, other: &File, size: u64) -> io::Result<bool> {
    let mut same = true;
    let mut offset = 0;
    let (mut left, mut right) = (vec![0; BLOCK as usize], vec![0; BLOCK as usize]);
    while same && offset < size {
        // Both have a hole until the next data of either.
        let next = next_data(one, offset, size)?.min(next_data(other, offset, size)?);
        offset = next - next % BLOCK;
        if offset >= size || next >= size {
            break;
        }
        let length = (size - offset).min(BLOCK) as usize;
        one.read_exact_at(&mut left[..length], offset)?;
        other.read_exact_at(&mut right[..length], offset)?;
        same = left[..length] == right[..length];
        offset += BLOCK;
    }
    Ok(same)
}

/// Goes through the blocks of a file in which there is something. It must not be shorter than is said.
fn each(file: &File, size: u64, mut block: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK.min(size) as usize];
    let mut offset = 0;
    loop {
        let next = next_data(file, offset, size)?;
        if next >= size {
            break;
        }
        offset = next - next % BLOCK;
        let length = (size - offset).min(BLOCK) as usize;
        file.read_exact_at(&mut buffer[..length], offset)?;
        if buffer[..length].iter().any(|byte| *byte != 0) {
            block(offset, &buffer[..length])?;
        }
        offset += BLOCK;
    }
    // A hole at the end is one only if the file goes on so far.
    match file.metadata()?.len() >= size {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Where data comes next; the size if none does.
fn next_data(file: &File, offset: u64, size: u64) -> io::Result<u64> {
    if offset >= size {
        return Ok(size);
    }
    match seek(file.as_fd(), SeekFrom::Data(offset)) {
        Ok(next) => Ok(next.min(size)),
        Err(rustix::io::Errno::NXIO) => Ok(size),
        // A file system that doesn't know holes.
        Err(rustix::io::Errno::INVAL) => Ok(offset),
        Err(error) => Err(error.into()),
    }
}

/// Names contents, whether they have holes or zeros.
struct Hasher {
    hasher: blake3::Hasher,
    size: u64,
}

impl Hasher {
    fn new(size: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"belljar file 1\n");
        hasher.update(&size.to_le_bytes());
        Self { hasher, size }
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) {
        // The place of a block and the size of the file say how long the block is.
        debug_assert_eq!(bytes.len() as u64, (self.size - offset).min(BLOCK));
        self.hasher.update(&offset.to_le_bytes());
        self.hasher.update(bytes);
    }

    fn finish(self) -> Digest {
        *self.hasher.finalize().as_bytes()
    }
}
