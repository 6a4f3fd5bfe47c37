//! Which wheels a CPython on Linux can load, by their tags, and which is best.

use super::{Platform, minor};
use crate::file_name::WheelName;

/// How a wheel fits a CPython on Linux: the smaller the better, in the order that installers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    class: Class,
    /// How many versions of Python older than this one.
    age: u32,
    /// How much older than this machine's the C library may be. The nearest knows most of the machine.
    library: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// `cp311-cp311-manylinux…`
    Own,
    /// `cp311-abi3-manylinux…`
    Stable,
    /// `cp311-none-manylinux…`
    Plain,
    /// `cp38-abi3-manylinux…`
    OlderStable,
    /// `py3-none-manylinux…`
    AnyPython,
    /// `cp311-none-any`
    OwnAnywhere,
    /// `py3-none-any`
    Anywhere,
}

/// After all that name a C library: nobody says what those were built with.
const UNKNOWN_LIBRARY: u32 = 1000;

/// The best that the tags of a wheel allow; `None` if it can't be loaded.
pub(super) fn rank(wheel: &WheelName, platform: &Platform) -> Option<Rank> {
    let libraries: Vec<u32> = wheel.platforms.iter().filter_map(|tag| library(tag, platform)).collect();
    let library = libraries.into_iter().min();
    let anywhere = wheel.platforms.iter().any(|tag| tag == "any");
    let mut best = None;
    for python in &wheel.pythons {
        for abi in &wheel.abis {
            let on_linux =
                library.and_then(|library| Some(classify(python, abi, platform, false)?.with(library)));
            let on_any = anywhere.then(|| Some(classify(python, abi, platform, true)?.with(0))).flatten();
            best = [best, on_linux, on_any].into_iter().flatten().min();
        }
    }
    best
}

struct Classified(Class, u32);

impl Classified {
    fn with(self, library: u32) -> Rank {
        Rank { class: self.0, age: self.1, library }
    }
}

fn classify(python: &str, abi: &str, platform: &Platform, anywhere: bool) -> Option<Classified> {
    let built_for = minor(python, platform.minor)?;
    let own = python == format!("cp3{}", platform.minor);
    // A wheel for all of Python 3 comes before one for an older version.
    let age = match python {
        "py3" | "cp3" => 1,
        _ => (platform.minor - built_for) * 2,
    };
    let class = match (abi, anywhere) {
        (abi, false) if own && abi == format!("cp3{}", platform.minor) => Class::Own,
        ("abi3", false) if own => Class::Stable,
        ("abi3", false) if python.starts_with("cp3") => Class::OlderStable,
        ("none", false) if own => Class::Plain,
        ("none", false) if python.starts_with("py3") => Class::AnyPython,
        ("none", true) if own => Class::OwnAnywhere,
        ("none", true) if python.starts_with("py3") => Class::Anywhere,
        _ => return None,
    };
    Some(Classified(class, age))
}

/// How much older a platform's C library is than this one's; `None` if it is newer, or another platform altogether.
/// Libraries for musl can't be loaded beside glibc.
fn library(tag: &str, platform: &Platform) -> Option<u32> {
    let kind = tag.strip_suffix(&platform.machine)?.strip_suffix('_')?;
    let (2, newest) = platform.glibc else { return None };
    let needed: u32 = match kind {
        "linux" => return Some(UNKNOWN_LIBRARY),
        "manylinux1" => 5,
        "manylinux2010" => 12,
        "manylinux2014" => 17,
        kind => kind.strip_prefix("manylinux_2_")?.parse().ok()?,
    };
    newest.checked_sub(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(minor: u32, glibc: u32) -> Platform {
        Platform { minor, version: format!("3.{minor}.4"), machine: "x86_64".into(), glibc: (2, glibc) }
    }

    fn ranked(tags: &str, platform: &Platform) -> Option<Rank> {
        rank(&WheelName::parse(&format!("a-1-{tags}.whl")).expect(tags), platform)
    }

    #[test]
    fn the_best_tags_come_first() {
        let here = platform(11, 36);
        let order = [
            "cp311-cp311-manylinux_2_34_x86_64",
            "cp311-cp311-manylinux_2_28_x86_64",
            "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64",
            "cp311-cp311-manylinux1_x86_64",
            "cp311-cp311-linux_x86_64",
            "cp311-abi3-manylinux_2_17_x86_64",
            "cp311-none-manylinux_2_17_x86_64",
            "cp310-abi3-manylinux_2_17_x86_64",
            "cp38-abi3-manylinux_2_28_x86_64",
            "py311-none-manylinux_2_17_x86_64",
            "py2.py3-none-manylinux_2_17_x86_64",
            "py38-none-manylinux_2_17_x86_64",
            "cp311-none-any",
            "py311-none-any",
            "py2.py3-none-any",
            "py310-none-any",
        ];
        let ranks: Vec<Rank> = order.iter().map(|tags| ranked(tags, &here).expect(tags)).collect();
        assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]), "{ranks:#?}");
    }

    #[test]
    fn wheels_that_cannot_be_loaded() {
        for tags in [
            "cp311-cp311-manylinux_2_37_x86_64",
            "cp311-cp311-musllinux_1_2_x86_64",
            "cp311-cp311-manylinux_2_17_aarch64",
            "cp311-cp311-macosx_11_0_arm64",
            "cp311-cp311-win_amd64",
            "cp312-cp312-manylinux_2_17_x86_64",
            "cp310-cp310-manylinux_2_17_x86_64",
            "cp312-abi3-manylinux_2_17_x86_64",
            "cp311-cp311t-manylinux_2_17_x86_64",
            "cp310-none-any",
            "py2-none-any",
            "py312-none-any",
            "pp311-pypy311_pp73-manylinux_2_17_x86_64",
            "cp311-cp311-wasi_0_0_wasm32",
            "cp311-abi3-any",
        ] {
            assert_eq!(ranked(tags, &platform(11, 36)), None, "{tags}");
        }
        let older = platform(11, 17);
        assert_eq!(ranked("cp311-cp311-manylinux_2_28_x86_64", &older), None);
        assert!(ranked("cp311-cp311-manylinux_2_28_x86_64.manylinux2014_x86_64", &older).is_some());
    }
}
