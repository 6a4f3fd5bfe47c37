/// How large a package may be when it is unpacked. Counted while unpacking: what headers say isn't believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files and directories.
    pub entries: u64,
    /// All files together.
    pub bytes: u64,
    /// One file.
    pub file_bytes: u64,
    /// Directories within directories.
    pub depth: usize,
}

impl Default for Limits {
    /// 100,000 entries, 2 GiB, 512 MiB a file, 64 levels.
    fn default() -> Self {
        Self { entries: 100_000, bytes: 2 << 30, file_bytes: 512 << 20, depth: 64 }
    }
}
