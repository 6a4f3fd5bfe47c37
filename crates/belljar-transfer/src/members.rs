//! The members of a tar file, one after the other. Nothing is believed but what the options allow.

use std::io::{self, Read};

use tar::{EntryType, Header, PaxExtensions};

use crate::names::text;

const BLOCK: usize = 512;
/// Bytes of a long name, or of a member's extensions, at most.
const LONGEST: u64 = 64 << 10;
/// Extensions before one member, at most.
const MOST_EXTENSIONS: usize = 16;

/// Why a tar file can't be read further.
pub(crate) struct Damage(pub(crate) String);

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self("it is cut short".to_owned()),
            _ => Self(error.to_string()),
        }
    }
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
    /// Another name of a member before it.
    HardLink,
    /// Anything else, in words.
    Other(&'static str),
}

/// A member, before its contents.
pub(crate) struct Member {
    /// As it was written; if it isn't UTF-8, as it can be printed.
    pub(crate) path: Result<String, String>,
    pub(crate) kind: Kind,
    pub(crate) target: Result<String, String>,
    pub(crate) executable: bool,
    pub(crate) modified_ns: Option<i64>,
    pub(crate) size: u64,
}

/// Reads members.
pub(crate) struct Members<R> {
    reader: R,
    /// Bytes of the current member that weren't read yet, and what fills its last block.
    left: u64,
    padding: u64,
}

#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
    modified_ns: Option<i64>,
    sparse: bool,
}

impl<R: Read> Members<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, left: 0, padding: 0 }
    }

    /// The next one. What wasn't read of the one before is passed by.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, Damage> {
        let mut extensions = Extensions::default();
        for _ in 0..=MOST_EXTENSIONS {
            self.pass()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = header.entry_size().map_err(|_| Damage("a size is no number".to_owned()))?;
            let kind = header.entry_type();
            match kind {
                EntryType::GNULongName => extensions.path = Some(self.long(size)?),
                EntryType::GNULongLink => extensions.target = Some(self.long(size)?),
                EntryType::XHeader => extensions.read(&self.small(size)?)?,
                // What holds for all members is of no interest here.
                EntryType::XGlobalHeader => drop(self.small(size)?),
                EntryType::GNUSparse => {
                    return Err(Damage("it has a member with holes (GNU sparse)".to_owned()));
                }
                _ => return self.member(&header, extensions, size).map(Some),
            }
        }
        Err(Damage("a member has too many extensions".to_owned()))
    }

    /// The next bytes of the current member; none at its end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Damage> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let mut filled = 0;
        while filled < most {
            match self.reader.read(&mut buffer[filled..most]) {
                Ok(0) => return Err(Damage("it is cut short".to_owned())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.left -= filled as u64;
        Ok(filled)
    }

    /// Reads what follows the end, so that checksums of the compression are looked at.
    pub(crate) fn finish(&mut self) -> Result<(), Damage> {
        const MOST: u64 = 1 << 20;
        io::copy(&mut self.reader.by_ref().take(MOST), &mut io::sink())?;
        Ok(())
    }

    fn member(&mut self, header: &Header, extensions: Extensions, size: u64) -> Result<Member, Damage> {
        let kind = match header.entry_type() {
            _ if extensions.sparse => Kind::Other("it is a file with holes, in a form that isn't known here"),
            EntryType::Regular | EntryType::Continuous if header.path_bytes().ends_with(b"/") => {
                Kind::Directory
            }
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Link,
            EntryType::Link => Kind::HardLink,
            EntryType::Char | EntryType::Block => Kind::Other("it is a device"),
            EntryType::Fifo => Kind::Other("it is a pipe"),
            _ => Kind::Other("it is of a kind that isn't known here"),
        };
        let size = extensions.size.unwrap_or(size);
        // Links and directories have no contents, whatever their size says; others are passed by.
        let none = matches!(header.entry_type(), EntryType::Directory | EntryType::Symlink | EntryType::Link);
        let size = if none { 0 } else { size };
        self.contents(size);
        let path = extensions.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let target = extensions.target.or_else(|| header.link_name_bytes().map(|name| name.into_owned()));
        let seconds = header.mtime().ok().and_then(|seconds| i64::try_from(seconds).ok());
        Ok(Member {
            path: text(&path),
            kind,
            target: text(&target.unwrap_or_default()),
            executable: header.mode().unwrap_or(0) & 0o100 != 0,
            modified_ns: extensions
                .modified_ns
                .or_else(|| seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000))),
            size,
        })
    }

    /// The next header; nothing at the end.
    fn header(&mut self) -> Result<Option<Header>, Damage> {
        let mut block = [0; BLOCK];
        self.reader.read_exact(&mut block)?;
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum: u32 =
            block[..148].iter().chain(&block[156..]).map(|&byte| u32::from(byte)).sum::<u32>() + 8 * 32;
        if header.cksum().ok() != Some(sum) {
            return Err(Damage("the checksum of a header is wrong, or it is no tar file".to_owned()));
        }
        Ok(Some(header))
    }

    fn contents(&mut self, size: u64) {
        self.left = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
    }

    fn pass(&mut self) -> Result<(), Damage> {
        let count = self.left.saturating_add(std::mem::take(&mut self.padding));
        self.left = 0;
        let passed = io::copy(&mut self.reader.by_ref().take(count), &mut io::sink())?;
        if passed < count { Err(Damage("it is cut short".to_owned())) } else { Ok(()) }
    }

    fn small(&mut self, size: u64) -> Result<Vec<u8>, Damage> {
        if size > LONGEST {
            return Err(Damage(format!(
                "the extensions of a member have {size} bytes, and may have {LONGEST}"
            )));
        }
        self.contents(size);
        let mut bytes = vec![0; size as usize];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    fn long(&mut self, size: u64) -> Result<Vec<u8>, Damage> {
        let mut name = self.small(size)?;
        if let Some(end) = name.iter().position(|&byte| byte == 0) {
            name.truncate(end);
        }
        Ok(name)
    }
}

impl Extensions {
    fn read(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        for extension in PaxExtensions::new(bytes) {
            let extension = extension.map_err(|_| Damage("an extension makes no sense".to_owned()))?;
            let value = extension.value_bytes();
            match extension.key_bytes() {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.target = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    self.size = Some(size.ok_or_else(|| Damage("a size is no number".to_owned()))?);
                }
                b"mtime" => self.modified_ns = std::str::from_utf8(value).ok().and_then(nanoseconds),
                key if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                _ => {}
            }
        }
        Ok(())
    }
}

/// `-12.5` seconds as nanoseconds.
fn nanoseconds(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let part: i64 = format!("{part:0<9}").get(..9)?.parse().ok()?;
    let part = if whole.starts_with('-') { -part } else { part };
    seconds.checked_mul(1_000_000_000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_of_extensions_are_decimal_fractions() {
        assert_eq!(super::nanoseconds("12.5"), Some(12_500_000_000));
        assert_eq!(super::nanoseconds("-1.25"), Some(-1_250_000_000));
        assert_eq!(super::nanoseconds("7"), Some(7_000_000_000));
        assert_eq!(super::nanoseconds("1.0000000019"), Some(1_000_000_001));
        assert_eq!(super::nanoseconds("99999999999999999999"), None);
        assert_eq!(super::nanoseconds("x"), None);
    }
}
