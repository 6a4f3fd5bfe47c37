//! What packages are for, and which wheels fit it.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::LazyLock};

use pep508_rs::{
    MarkerEnvironment, MarkerEnvironmentBuilder, MarkerTree, Requirement, VerbatimUrl, VersionOrUrl,
    pep440_rs::{Version, VersionSpecifiers},
};
use serde::{Deserialize, Serialize};

pub(crate) use self::tags::Rank;
use crate::file_name::WheelName;

mod tags;

/// What packages are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The guest of the `wasm` engine: CPython 3.14 on WASI.
    #[default]
    Wasm,
    /// A CPython of this machine, which the `native` engine runs.
    Native(Platform),
}

/// A CPython on Linux, as far as packages care.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The minor version of Python 3.
    pub minor: u32,
    /// The whole version: `3.11.7`.
    pub version: String,
    /// The processor: `x86_64` or `aarch64`.
    pub machine: String,
    /// The version of glibc.
    pub glibc: (u32, u32),
}

/// The guest's Python, as `--python-version` has it.
pub(crate) const PYTHON: &str = "3.14";
const FULL: &str = "3.14.0";
const MINOR: u32 = 14;

/// The endings of native modules that the guest imports.
pub(crate) const EXTENSIONS: [&str; 2] = [".cpython-314-wasm32-wasi.so", ".abi3.so"];

const OPTIONAL: &str = include_str!("optional-native.toml");

static OPTIONAL_NATIVE: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| toml_edit::de::from_str(OPTIONAL).unwrap_or_default());

static ENVIRONMENT: LazyLock<Option<MarkerEnvironment>> = LazyLock::new(|| {
    let builder = MarkerEnvironmentBuilder {
        implementation_name: "cpython",
        implementation_version: FULL,
        os_name: "posix",
        platform_machine: "wasm32",
        platform_python_implementation: "CPython",
        platform_release: "",
        platform_system: "",
        platform_version: "",
        python_full_version: FULL,
        python_version: PYTHON,
        sys_platform: "wasi",
    };
    builder.try_into().ok()
});

/// Whether the native parts of a package can be left out. The name is normalised.
pub(crate) fn native_is_optional(name: &str) -> bool {
    OPTIONAL_NATIVE.contains_key(name)
}

/// How deep a marker may nest: the parser recurses. None that makes sense comes near.
const DEEPEST: usize = 50;
/// How long a requirement may be.
const LONGEST: usize = 8 << 10;

/// Whether something may be fetched from there. It comes from packages and locks, and goes to other programs: no
/// spaces and control characters, which end it; no variables, which they would replace; nothing but the web.
pub(crate) fn is_address(url: &str) -> bool {
    let scheme = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    let odd = |character: char| character.is_whitespace() || character.is_control() || character == '\\';
    scheme && !url.contains(odd) && !url.contains("${") && url.len() <= LONGEST
}

/// Why a requirement can't be given to other programs, whoever wrote it.
pub(crate) fn is_dangerous(requirement: &str) -> Option<&'static str> {
    if requirement.len() > LONGEST {
        return Some("it is too long");
    }
    if requirement.contains(char::is_control) {
        return Some("it has control characters");
    }
    if requirement.contains("${") {
        return Some("it names a variable");
    }
    let depths = requirement.chars().scan(0_usize, |depth, character| {
        match character {
            '(' => *depth += 1,
            ')' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    (depths.max().unwrap_or(0) > DEEPEST).then_some("its marker nests too deep")
}

/// Whether a line is a requirement for the index or for a file on the web, and nothing else.
pub(crate) fn is_requirement(line: &str) -> bool {
    if is_dangerous(line).is_some() || line.starts_with(['-', '#']) || line.ends_with('\\') {
        return false;
    }
    let Ok(parsed) = Requirement::<VerbatimUrl>::from_str(line) else { return false };
    match parsed.version_or_url {
        Some(VersionOrUrl::Url(url)) => is_address(&url.to_string()),
        _ => true,
    }
}

impl Target {
    /// Whether its packages may have machine code.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self, Self::Native(_))
    }

    /// The version of Python, with its minor number: `3.14`.
    pub fn python(&self) -> String {
        match self {
            Self::Wasm => PYTHON.to_owned(),
            Self::Native(platform) => platform.python(),
        }
    }

    /// The version of Python, as exactly as it is known.
    pub(crate) fn full_python(&self) -> &str {
        match self {
            Self::Wasm => FULL,
            Self::Native(platform) => &platform.version,
        }
    }

    /// Names it where locks and caches are told apart.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Wasm => PYTHON.to_owned(),
            Self::Native(Platform { version, machine, glibc: (major, minor), .. }) => {
                format!("native {version} {machine} glibc {major}.{minor}")
            }
        }
    }

    /// Whether a marker holds there.
    pub(crate) fn holds(&self, marker: &str) -> Result<bool, String> {
        if let Some(reason) = is_dangerous(marker) {
            return Err(format!("the marker: {reason}"));
        }
        let tree = MarkerTree::parse_str::<VerbatimUrl>(marker)
            .map_err(|error| format!("the marker `{marker}`: {}", error.message))?;
        Ok(self.environment().is_some_and(|environment| tree.evaluate(&environment, &[])))
    }

    /// Whether a requirement is one there, when no extra is asked for.
    pub(crate) fn applies(&self, requirement: &str) -> Result<bool, String> {
        if let Some(reason) = is_dangerous(requirement) {
            return Err(format!("a requirement of it: {reason}"));
        }
        let parsed = Requirement::<VerbatimUrl>::from_str(requirement)
            .map_err(|error| format!("it requires `{requirement}`: {}", error.message))?;
        Ok(self.environment().is_some_and(|environment| parsed.evaluate_markers(&environment, &[])))
    }

    /// Whether `requires-python` admits its Python.
    pub(crate) fn admits(&self, requires_python: &str) -> Result<bool, String> {
        let specifiers: VersionSpecifiers =
            requires_python.parse().map_err(|_| format!("`{requires_python}` isn't a range of versions"))?;
        Ok(self.full_python().parse::<Version>().is_ok_and(|version| specifiers.contains(&version)))
    }

    /// How a wheel fits; `None` if nothing in it is of use.
    pub(crate) fn fit(&self, wheel: &WheelName) -> Option<Fit> {
        match self {
            Self::Wasm => fit(wheel),
            Self::Native(platform) => tags::rank(wheel, platform).map(Fit::Native),
        }
    }

    /// Whether its version of Python is one that a wheel is for, on whatever platform.
    pub(crate) fn is_python_of(&self, wheel: &WheelName) -> bool {
        let newest = match self {
            Self::Wasm => MINOR,
            Self::Native(platform) => platform.minor,
        };
        let known = wheel.pythons.iter().any(|tag| minor(tag, newest).is_some());
        let own = format!("cp3{newest}");
        known && wheel.abis.iter().any(|abi| ["abi3", "none", &own].contains(&abi.as_str()))
    }

    fn environment(&self) -> Option<MarkerEnvironment> {
        match self {
            Self::Wasm => ENVIRONMENT.clone(),
            Self::Native(platform) => platform.environment(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wasm => write!(formatter, "the wasm engine"),
            Self::Native(platform) => {
                write!(
                    formatter,
                    "the native engine with Python {} on {}",
                    platform.python(),
                    platform.machine
                )
            }
        }
    }
}

impl Platform {
    /// The version of Python, with its minor number: `3.11`.
    pub fn python(&self) -> String {
        format!("3.{}", self.minor)
    }

    /// What uv calls it: the newest that it knows and that isn't newer than this.
    pub(crate) fn for_uv(&self) -> String {
        let library = match self.glibc {
            (2, minor) if minor >= 31 => minor.min(40),
            (2, 28..) => 28,
            _ => 17,
        };
        format!("{}-manylinux_2_{library}", self.machine)
    }

    fn environment(&self) -> Option<MarkerEnvironment> {
        let python = self.python();
        let builder = MarkerEnvironmentBuilder {
            implementation_name: "cpython",
            implementation_version: &self.version,
            os_name: "posix",
            platform_machine: &self.machine,
            platform_python_implementation: "CPython",
            platform_release: "",
            platform_system: "Linux",
            platform_version: "",
            python_full_version: &self.version,
            python_version: &python,
            sys_platform: "linux",
        };
        builder.try_into().ok()
    }
}

/// How a wheel fits. The smaller the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// Python only.
    Pure,
    /// Built for WASI.
    Wasi,
    /// Built for Linux and this minor version of Python. Only its Python files can be used.
    Foreign {
        /// How far that version is from the guest's.
        distance: u32,
        minor: u32,
    },
    /// For a CPython of this machine.
    Native(Rank),
}

/// How it fits the guest; `None` if nothing in the wheel is of use.
fn fit(wheel: &WheelName) -> Option<Fit> {
    let python = wheel.pythons.iter().filter_map(|tag| minor(tag, MINOR)).max();
    let stable = wheel.abis.iter().any(|abi| abi == "abi3");
    let plain = wheel.abis.iter().any(|abi| abi == "none");
    let own = wheel.pythons.iter().any(|tag| tag == "cp314") && wheel.abis.iter().any(|abi| abi == "cp314");
    let any = wheel.platforms.iter().any(|platform| platform == "any");
    let wasi = wheel.platforms.iter().any(|platform| platform.starts_with("wasi"));
    let linux = |platform: &String| platform.contains("linux") && platform.ends_with("_x86_64");
    match python {
        Some(_) if any && plain => Some(Fit::Pure),
        Some(_) if wasi && (own || stable || plain) => Some(Fit::Wasi),
        Some(minor) if wheel.platforms.iter().any(linux) && !free_threaded(wheel) => {
            let distance = match stable || plain || own {
                true => 0,
                false => MINOR - minor,
            };
            Some(Fit::Foreign { distance, minor })
        }
        _ => None,
    }
}

fn free_threaded(wheel: &WheelName) -> bool {
    wheel.abis.iter().all(|abi| abi.ends_with('t') && abi.starts_with("cp"))
}

/// The minor version up to the newest that a Python tag stands for.
fn minor(tag: &str, newest: u32) -> Option<u32> {
    match tag {
        "py3" | "cp3" => Some(0),
        tag => {
            let minor = tag.strip_prefix("py3").or_else(|| tag.strip_prefix("cp3"))?.parse().ok()?;
            (minor <= newest).then_some(minor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(file: &str) -> Option<Fit> {
        fit(&WheelName::parse(file).expect(file))
    }

    #[test]
    fn pure_wheels_fit_best_then_wasi_then_linux() {
        assert_eq!(fits("a-1-py3-none-any.whl"), Some(Fit::Pure));
        assert_eq!(fits("a-1-py2.py3-none-any.whl"), Some(Fit::Pure));
        assert_eq!(fits("a-1-1-cp314-none-any.whl"), Some(Fit::Pure));
        assert_eq!(fits("a-1-cp314-cp314-wasi_0_0_wasm32.whl"), Some(Fit::Wasi));
        assert_eq!(fits("a-1-cp39-abi3-wasi_0_0_wasm32.whl"), Some(Fit::Wasi));
        let linux = fits("a-1-cp314-cp314-manylinux2014_x86_64.manylinux_2_17_x86_64.whl");
        assert_eq!(linux, Some(Fit::Foreign { distance: 0, minor: 14 }));
        assert!(fits("a-1-cp312-cp312-manylinux_2_17_x86_64.whl") > linux);
        assert!(Some(Fit::Pure) < Some(Fit::Wasi) && Some(Fit::Wasi) < linux);
    }

    #[test]
    fn wheels_of_no_use() {
        for file in [
            "a-1-py2-none-any.whl",
            "a-1-cp315-none-any.whl",
            "a-1-cp314-cp314t-manylinux_2_17_x86_64.whl",
            "a-1-cp314-cp314-win_amd64.whl",
            "a-1-cp313-cp313-wasi_0_0_wasm32.whl",
        ] {
            assert_eq!(fits(file), None, "{file}");
        }
    }

    #[test]
    fn markers_are_those_of_the_guest() {
        let holds = |marker: &str| Target::Wasm.holds(marker);
        let admits = |range: &str| Target::Wasm.admits(range);
        assert_eq!(holds("sys_platform == 'wasi' and python_version >= '3.14'"), Ok(true));
        assert_eq!(holds("sys_platform == 'win32' or platform_machine == 'x86_64'"), Ok(false));
        assert_eq!(holds("python_full_version < '3.14.1'"), Ok(true));
        assert!(holds("'dev' in dependency_groups").is_err());
        assert_eq!(admits(">=3.9"), Ok(true));
        assert_eq!(admits("<3.14"), Ok(false));
    }

    #[test]
    fn markers_are_those_of_linux_for_native() {
        let platform =
            Platform { minor: 11, version: "3.11.7".into(), machine: "x86_64".into(), glibc: (2, 36) };
        assert_eq!(platform.for_uv(), "x86_64-manylinux_2_36");
        assert_eq!(Platform { glibc: (2, 30), ..platform.clone() }.for_uv(), "x86_64-manylinux_2_28");
        let target = Target::Native(platform);
        assert_eq!(target.holds("sys_platform == 'linux' and platform_machine == 'x86_64'"), Ok(true));
        assert_eq!(target.holds("python_full_version >= '3.11.7' and platform_system == 'Linux'"), Ok(true));
        assert_eq!(target.holds("sys_platform == 'wasi' or python_version < '3.11'"), Ok(false));
        assert_eq!(target.applies("tomli; python_version < '3.11'"), Ok(false));
        assert_eq!(target.admits("==3.11.*"), Ok(true));
        assert_eq!(target.admits(">=3.12"), Ok(false));
    }

    #[test]
    fn the_list_of_optional_parts_is_read() {
        assert!(native_is_optional("markupsafe"));
        assert!(!native_is_optional("numpy"));
        assert!(OPTIONAL_NATIVE.keys().all(|name| *name == crate::file_name::normalised(name)));
    }
}
