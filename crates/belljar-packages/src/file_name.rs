//! Names: of packages, of wheels, and of files in archives.

use std::path::PathBuf;

/// Longer names can't be written on the usual file systems.
const LONGEST: usize = 255;

/// The one spelling of a package's name: `Foo.Bar_baz` is `foo-bar-baz`.
pub(crate) fn normalised(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// What the name of a wheel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WheelName {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) pythons: Vec<String>,
    pub(crate) abis: Vec<String>,
    pub(crate) platforms: Vec<String>,
}

impl WheelName {
    /// `None` if it isn't the name of a wheel.
    pub(crate) fn parse(file: &str) -> Option<Self> {
        let parts: Vec<&str> = file.strip_suffix(".whl")?.split('-').collect();
        let (name, version, tags) = match parts.as_slice() {
            [name, version, tags @ ..] if tags.len() == 3 => (name, version, tags),
            [name, version, _build, tags @ ..] if tags.len() == 3 => (name, version, tags),
            _ => return None,
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+!%".contains(&byte);
        if name.is_empty() || version.is_empty() || !name.bytes().chain(version.bytes()).all(plain) {
            return None;
        }
        let set = |tags: &str| tags.split('.').map(str::to_owned).collect();
        Some(Self {
            name: normalised(name),
            version: version.replace("%2B", "+").replace('_', "-"),
            pythons: set(tags[0]),
            abis: set(tags[1]),
            platforms: set(tags[2]),
        })
    }
}

/// The path of a file in an archive, if it is harmless: relative, without `..`, and writable everywhere.
pub(crate) fn inside(name: &str, depth: usize) -> Result<PathBuf, &'static str> {
    if name.starts_with('/') {
        return Err("is an absolute path");
    }
    if name.contains(['\\', '\0']) || name.chars().any(char::is_control) {
        return Err("has characters that no file name should have");
    }
    let mut path = PathBuf::new();
    let mut levels = 0;
    for part in name.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            return Err("leads outside");
        }
        // `C:` is a drive, not a name.
        if levels == 0 && part.ends_with(':') {
            return Err("is an absolute path");
        }
        if part.len() > LONGEST {
            return Err("is too long");
        }
        path.push(part);
        levels += 1;
    }
    match levels {
        0 => Err("is no name"),
        _ if levels > depth => Err("is nested too deeply"),
        _ => Ok(path),
    }
}

/// A path in the address of a file, as it is on the disk.
pub(crate) fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_one_spelling() {
        assert_eq!(normalised("Foo.Bar__baz"), "foo-bar-baz");
        assert_eq!(WheelName::parse("Foo_Bar-1.0+cpu-2-py3-none-any.whl").expect("a wheel").name, "foo-bar");
        assert_eq!(WheelName::parse("a-1.whl"), None);
        assert_eq!(WheelName::parse("a b-1-py3-none-any.whl"), None);
    }

    #[test]
    fn bad_paths_are_refused() {
        let long = "x".repeat(256);
        let deep = "d/".repeat(65);
        for name in
            ["/etc/passwd", "../x", "a/../../x", "a\\b", "a\0b", "C:/x", "", ".", "a/\n", &long, &deep]
        {
            assert!(inside(name, 64).is_err(), "{name:?}");
        }
        assert_eq!(inside("./a//b.py", 64), Ok("a/b.py".into()));
    }

    proptest! {
        #[test]
        fn accepted_paths_stay_inside(name in ".{0,40}|[./a\\\\:]{0,20}") {
            if let Ok(path) = inside(&name, 64) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
                prop_assert!(path.components().count() >= 1);
            }
        }
    }
}
