//! Names and versions, as the registry knows them. Whatever npm might take for something else is refused here.

/// Characters of a name, as the registry has it.
const LONGEST_NAME: usize = 214;
const LONGEST_RANGE: usize = 200;

/// `left-pad` or `@types/node`. Nothing that begins with a dot, a dash or an underscore, so neither `..` nor `__proto__`.
pub(super) fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-~".contains(letter))
            && !["node_modules", "favicon.ico"].contains(&part.to_ascii_lowercase().as_str())
    };
    let plain = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    };
    plain && name.len() <= LONGEST_NAME
}

/// A range, a version or a tag of the registry, perhaps of a package with another name (`npm:other@1`). Neither an
/// address, nor a repository, nor a file.
pub(super) fn is_range(range: &str) -> bool {
    if let Some(alias) = range.strip_prefix("npm:") {
        let (name, range) = match alias.char_indices().skip(1).find(|(_, letter)| *letter == '@') {
            Some((place, _)) => (&alias[..place], &alias[place + 1..]),
            None => (alias, ""),
        };
        return is_name(name) && !range.starts_with("npm:") && is_range(range);
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || " ._-+^~<>=|*".contains(letter);
    let lower = range.to_ascii_lowercase();
    let file = [".tgz", ".tar", ".gz"].iter().any(|ending| lower.ends_with(ending));
    range.len() <= LONGEST_RANGE && range.chars().all(allowed) && !range.starts_with(['.', '-', '_']) && !file
}

/// A single version.
pub(super) fn is_version(version: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || ".-+".contains(letter);
    version.len() <= LONGEST_RANGE
        && version.starts_with(|first: char| first.is_ascii_digit())
        && version.chars().all(allowed)
}

/// Hashes, as the registry writes them.
pub(super) fn is_integrity(text: &str) -> bool {
    let one = |hash: &str| {
        hash.split_once('-').is_some_and(|(kind, digest)| {
            ["sha1", "sha256", "sha384", "sha512"].contains(&kind)
                && !digest.is_empty()
                && digest.chars().all(|letter| letter.is_ascii_alphanumeric() || "+/=".contains(letter))
        })
    };
    text.len() <= 1000 && !text.is_empty() && text.split(' ').all(one)
}

/// Where a package is in a project: `node_modules/a` or `node_modules/@s/a/node_modules/b`.
pub(super) fn is_place(path: &str) -> bool {
    let Some(inside) = path.strip_prefix("node_modules/") else { return false };
    let names = inside.split("/node_modules/");
    path.len() <= 2000 && names.clone().count() <= 32 && names.clone().all(is_name)
}

/// A file of a package: a path that goes down only.
pub(super) fn is_inner(path: &str) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    let odd = |part: &str| {
        part.is_empty() || part == "." || part == ".." || part.chars().any(|letter| letter.is_control())
    };
    path.len() <= 1000 && !path.contains('\\') && !path.split('/').any(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_registry() {
        for good in ["left-pad", "JSONStream", "@types/node", "a", "lodash.get", "7zip-min", "constructor"] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/a",
            "@a",
            "@/a",
            "@a/",
            "@a/b/c",
            "@../b",
            "@a/..",
            "__proto__",
            "_x",
            "-x",
            "--prefix=/",
            "a b",
            "a\nb",
            "a\0",
            "node_modules",
            "NODE_MODULES",
            "@a/node_modules",
            "a@1",
            "a:b",
            "ä",
            "C:\\x",
            "~/x",
            "~x",
            &long,
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn ranges_of_the_registry() {
        for good in [
            "",
            "*",
            "latest",
            "next-11",
            "1",
            "1.2.3",
            "^1.2",
            "~1",
            ">=1 <2",
            "1.x || >=2.5.0 || 5.0.0 - 7.2.3",
            "=1",
            "1.0.0-beta.1+x",
            "npm:left-pad@^1",
            "npm:@types/node",
            "npm:@types/node@20",
        ] {
            assert!(is_range(good), "{good}");
        }
        let long = "1".repeat(LONGEST_RANGE + 1);
        for bad in [
            "git+ssh://x",
            "git://x",
            "https://x/y.tgz",
            "file:../../x",
            "file:x",
            "link:x",
            "workspace:*",
            "user/repo",
            "github:user/repo",
            "./x",
            "../x",
            "..",
            ".",
            "/etc",
            "~/x",
            "x.tgz",
            "x.TAR.GZ",
            "x.tar",
            "--prefix=/",
            "-g",
            "1\n2",
            "1\0",
            "npm:../x",
            "npm:npm:x",
            "npm:a@npm:b",
            "npm:a@git://x",
            "npm:",
            "$x",
            "a@b",
            "${HOME}",
            &long,
        ] {
            assert!(!is_range(bad), "{bad:?}");
        }
    }

    #[test]
    fn places_in_a_project() {
        for good in ["node_modules/a", "node_modules/@s/a", "node_modules/a/node_modules/@s/b"] {
            assert!(is_place(good), "{good}");
        }
        let deep = vec!["node_modules/a"; 33].join("/");
        for bad in [
            "",
            "a",
            "node_modules",
            "node_modules/",
            "node_modules/..",
            "node_modules/../../x",
            "../node_modules/a",
            "/node_modules/a",
            "node_modules/a/b",
            "node_modules//a",
            "node_modules/.bin",
            "packages/a",
            "node_modules/a/node_modules",
            "node_modules/a/node_modules/..",
            &deep,
        ] {
            assert!(!is_place(bad), "{bad:?}");
        }
        for (path, good) in [
            ("cli.js", true),
            ("./bin/x", true),
            ("../x", false),
            ("/x", false),
            ("a/../b", false),
            ("", false),
            ("a//b", false),
            ("a\\b", false),
            ("a\nb", false),
        ] {
            assert_eq!(is_inner(path), good, "{path:?}");
        }
    }

    #[test]
    fn hashes_and_versions() {
        assert!(is_integrity("sha512-zbB9rCJAT1rbjiVDb2hqKFHNYLxgtk8=") && is_integrity("sha1-a sha512-b"));
        for bad in ["", "sha512", "sha512-", "md5-a", "sha512-a b", "sha512-ä", "sha512-a\n"] {
            assert!(!is_integrity(bad), "{bad:?}");
        }
        assert!(is_version("1.0.0-rc.1+x"));
        for bad in ["", "v1", "latest", "1/2", "1 2", "file:x", "1\n"] {
            assert!(!is_version(bad), "{bad:?}");
        }
    }
}
