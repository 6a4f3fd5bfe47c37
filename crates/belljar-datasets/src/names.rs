//! Names that come from elsewhere.

use crate::error::{DatasetError, Result};

/// Characters of a name, at most.
const LONGEST: usize = 128;
/// Bytes of a file's name on a shelf, at most.
const LONGEST_FILE: usize = 200;
/// Names of our own on a shelf begin so.
pub(crate) const UNFINISHED: &str = ".belljar-";

/// A name of a dataset, a version, a tenant, a fetcher: safe as a file's name.
pub(crate) fn check(what: &'static str, name: &str) -> Result<()> {
    check_length(what, name, LONGEST)
}

/// The same of a dataset's file, which has an ending as well.
pub(crate) fn check_file(name: &str) -> Result<()> {
    check_length("a file's name", name, LONGEST_FILE)
}

fn check_length(what: &'static str, name: &str, longest: usize) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > longest {
        "it is too long"
    } else if !name.as_bytes()[0].is_ascii_alphanumeric() {
        "it begins with something other than a letter or a digit"
    } else if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        "it has something other than letters, digits, '.', '_' and '-' in it"
    } else if name.contains("..") {
        "it has '..' in it"
    } else {
        return Ok(());
    };
    Err(invalid(what, name, reason))
}

/// 64 hexadecimal digits, in lower case afterwards.
pub(crate) fn check_hash(hash: &str) -> Result<String> {
    if hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(hash.to_ascii_lowercase());
    }
    Err(invalid("a SHA-256", hash, "it isn't 64 hexadecimal digits"))
}

pub(crate) fn invalid(what: &'static str, given: &str, reason: impl Into<String>) -> DatasetError {
    let given = given.chars().take(200).collect();
    DatasetError::Invalid { what, given, reason: reason.into() }
}

/// What is left of a name that anybody may have chosen: one component that is neither hidden, nor one of ours, nor
/// too long, and has nothing in it that a terminal or a shell would take for something else.
pub(crate) fn tame(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).find(|part| !part.trim_matches(['.', ' ']).is_empty()).unwrap_or("");
    let tame: String = last
        .chars()
        .map(|letter| if letter.is_control() || "\"'`$<>|*?:;&".contains(letter) { '_' } else { letter })
        .collect();
    let tame = tame.trim_start_matches(['.', ' ', '-']).trim_end_matches([' ', '.']);
    if tame.is_empty() {
        return "file".to_owned();
    }
    if tame.len() <= LONGEST_FILE {
        return tame.to_owned();
    }
    // What it ends with says what it is.
    let ending = tame.rfind('.').map(|at| &tame[at..]).filter(|ending| ending.len() <= 16).unwrap_or("");
    let mut end = LONGEST_FILE - ending.len();
    while !tame.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ending}", &tame[..end])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_letters_digits_and_little_else() {
        for name in ["a", "7", "sales_2024.v1-b", &"x".repeat(128)] {
            check("a dataset's name", name).unwrap();
        }
        for name in
            ["", ".", "..", ".a", "-a", "a..b", "a/b", "../x", "a b", "ä", "a\n", "a\0", &"x".repeat(129)]
        {
            assert!(check("a dataset's name", name).is_err(), "{name:?}");
        }
        assert_eq!(check_hash(&"AB".repeat(32)).unwrap(), "ab".repeat(32));
        assert!(check_hash("abc").is_err());
        assert!(check_hash(&"é".repeat(32)).is_err());
    }

    #[test]
    fn strange_file_names_become_ordinary_ones() {
        for (name, tamed) in [
            ("plot.png", "plot.png"),
            ("../../etc/passwd", "passwd"),
            ("a/b/../..", "b"),
            ("..", "file"),
            ("", "file"),
            ("\u{1b}[31m\n", "_[31m_"),
            (".bashrc", "bashrc"),
            (".belljar-x", "belljar-x"),
            ("-rf", "rf"),
            ("CON", "CON"),
            ("😀.csv", "😀.csv"),
            ("C:\\x\\y.txt", "y.txt"),
        ] {
            assert_eq!(tame(name), tamed, "{name:?}");
        }
        let long = tame(&format!("{}.parquet", "ö".repeat(300)));
        assert!(long.len() <= 200 && long.ends_with(".parquet"), "{long}");
    }

    proptest! {
        #[test]
        fn whatever_a_file_is_called_it_stays_in_its_directory(name in any::<String>()) {
            let tamed = tame(&name);
            prop_assert!(!tamed.is_empty() && tamed.len() <= 200);
            prop_assert!(!tamed.contains(['/', '\\', '\0', '\n']) && !tamed.starts_with('.'));
        }
    }
}
