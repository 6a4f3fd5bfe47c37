//! Native code in packages, told by its contents.

use std::{fs::File, io::Read, path::Path};

use crate::target;

/// What a library file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    /// A module that the guest can import.
    Extension,
    /// A WebAssembly library, but none that this Python imports.
    OtherWasm,
    /// Machine code.
    Machine,
    /// Named like a module that the guest can import, and nothing of the kind.
    Fake,
}

/// What a file is, if it is a library at all. `path` is its path in site-packages.
pub(crate) fn of(path: &str, file: &Path) -> std::io::Result<Option<Native>> {
    if !is_named_so(path) {
        return Ok(None);
    }
    let mut start = [0; 4];
    let mut read = 0;
    let mut opened = File::open(file)?;
    while read < start.len() {
        match opened.read(&mut start[read..])? {
            0 => break,
            more => read += more,
        }
    }
    Ok(kind(path, &start[..read]))
}

/// What a library with this name and these first bytes is.
pub(crate) fn kind(path: &str, start: &[u8]) -> Option<Native> {
    match start {
        [0, b'a', b's', b'm'] => Some(match is_extension(path) {
            true => Native::Extension,
            false => Native::OtherWasm,
        }),
        [0x7f, b'E', b'L', b'F'] | [b'M', b'Z', ..] => Some(Native::Machine),
        // Mach-O, in both byte orders and widths, and for several processors at once.
        [0xfe, 0xed, 0xfa, 0xce | 0xcf]
        | [0xce | 0xcf, 0xfa, 0xed, 0xfe]
        | [0xca, 0xfe, 0xba, 0xbe | 0xbf] => Some(Native::Machine),
        _ => is_extension(path).then_some(Native::Fake),
    }
}

fn is_extension(path: &str) -> bool {
    target::EXTENSIONS.iter().any(|ending| path.ends_with(ending))
}

fn is_named_so(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [".so", ".pyd", ".dylib", ".dll"].iter().any(|ending| name.ends_with(ending)) || name.contains(".so.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_their_contents() {
        let extension = "p/m.cpython-314-wasm32-wasi.so";
        assert_eq!(kind(extension, b"\0asm"), Some(Native::Extension));
        assert_eq!(kind("p/m.abi3.so", b"\0asm"), Some(Native::Extension));
        assert_eq!(kind("p/m.cpython-312-wasm32-wasi.so", b"\0asm"), Some(Native::OtherWasm));
        assert_eq!(kind(extension, b"\x7fELF"), Some(Native::Machine));
        assert_eq!(kind("p/m.pyd", b"MZ\x90\0"), Some(Native::Machine));
        assert_eq!(kind("p/m.dylib", &[0xcf, 0xfa, 0xed, 0xfe]), Some(Native::Machine));
        assert_eq!(kind("p/m.so", b"text"), None);
        assert_eq!(kind(extension, b"text"), Some(Native::Fake));
        assert_eq!(kind("p/m.abi3.so", b""), Some(Native::Fake));
    }
}
