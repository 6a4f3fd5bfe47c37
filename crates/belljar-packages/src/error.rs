use std::path::{Path, PathBuf};

use belljar_runtime::{CacheError, MakeError};

/// Why there are no packages. What was installed before is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// A text is neither a requirement nor the path of something that is known.
    #[error("`{text}` isn't a requirement: {reason}, at character {position}")]
    Spec {
        /// What was asked for.
        text: String,
        /// What is wrong with it.
        reason: String,
        /// Where, counted from 1.
        position: usize,
    },
    /// A list of requirements, or a project, names something that can't be taken from there.
    #[error("{place}: {reason}")]
    List {
        /// The file, and the line if it is one.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// What was chosen has none of the hashes that a list gives for it.
    #[error("{package} has SHA-256 {found}, which isn't among its hashes in {}", list.display())]
    UnlistedHash {
        /// Name and version.
        package: String,
        /// The list.
        list: PathBuf,
        /// The hash of what was chosen.
        found: String,
    },
    /// What was asked for makes no sense to uv, or leads nowhere.
    #[error("{doing} failed, because of what was asked for:\n{reason}")]
    Input {
        /// What uv was to do.
        doing: String,
        /// What it said.
        reason: String,
    },
    /// A local file or directory isn't there, or can't be read.
    #[error("{path} can't be read: {reason}")]
    Unreadable {
        /// What was named.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A local file or directory isn't what was locked.
    #[error("{path} changed after {package} was locked")]
    Changed {
        /// The file or directory.
        path: PathBuf,
        /// The package that it is.
        package: String,
    },
    /// A text isn't a lock.
    #[error("this isn't a lock that Belljar can read: {reason}")]
    Lock {
        /// What is wrong.
        reason: String,
    },
    /// A lock holds a package in a form that can't be installed.
    #[error("{package} is locked {form}, which Belljar doesn't install")]
    Form {
        /// Name and version.
        package: String,
        /// How it is locked.
        form: &'static str,
    },
    /// A package has native code, and none for the guest.
    #[error("{package} has native code that can't run in WebAssembly ({what})")]
    Native {
        /// Name and version.
        package: String,
        /// The file, or the kinds of wheels that there are.
        what: String,
    },
    /// Several packages have native code, and none for the guest.
    #[error("these have native code that can't run in WebAssembly: {}", packages.join("; "))]
    Natives {
        /// Name, version and the kinds of wheels that there are, of each.
        packages: Vec<String>,
    },
    /// A package has no wheel for this version of Python.
    #[error(
        "there is no wheel of {package} for Python {python}: its wheels are for other versions of Python{}",
        after(reason)
    )]
    OtherPython {
        /// Its name.
        package: String,
        /// The version that is asked for.
        python: String,
        /// What uv said, if it was asked.
        reason: String,
    },
    /// A package has no wheel that this machine can load.
    #[error(
        "{package} has no wheel that runs here, with Python {python} and {library} on {machine} ({what})"
    )]
    NoWheel {
        /// Name and version.
        package: String,
        /// The version of Python.
        python: String,
        /// The C library, with its version.
        library: String,
        /// The processor.
        machine: String,
        /// The kinds of wheels that there are.
        what: String,
    },
    /// A lock was made for something else than what it is to be installed for.
    #[error("the lock is for {locked}, and is used for {used}")]
    OtherTarget {
        /// What it was made for.
        locked: String,
        /// What it is used for.
        used: String,
        /// Whether only the version of Python differs.
        same_engine: bool,
    },
    /// Something that only the `wasm` engine can use is asked for with the `native` one.
    #[error("{what} is for the wasm engine, and can't be had with the native one")]
    WasmOnly {
        /// What was asked for.
        what: String,
    },
    /// Something that only the `native` engine can run is asked for with the `wasm` one.
    #[error("{what} has native code, and needs the native engine")]
    NativeOnly {
        /// What was asked for.
        what: String,
    },
    /// A Python of this machine can't be used for the `native` engine.
    #[error("{} can't be used for the native engine: {reason}", path.display())]
    Interpreter {
        /// The program.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no Python on this machine that the `native` engine can use.
    #[error("there is no CPython 3.10 or newer on this machine{}", passed_over(passed))]
    NoInterpreter {
        /// Those that were found, and why they aren't used.
        passed: Vec<String>,
    },
    /// A package is only there as source.
    #[error("there are no wheels of {package}, only source, and building that would run its code:\n{reason}")]
    OnlySource {
        /// Its name.
        package: String,
        /// What uv said.
        reason: String,
    },
    /// The index has no such package, or no such version.
    #[error("the package index doesn't have {package}:\n{reason}")]
    NotFound {
        /// Its name, with the version that was asked for.
        package: String,
        /// What uv said.
        reason: String,
    },
    /// No choice of versions satisfies all.
    #[error("the requirements contradict each other:\n{reason}")]
    Conflict {
        /// What uv said.
        reason: String,
    },
    /// Something must be fetched, and that is forbidden.
    #[error("{what} isn't in the cache, and fetching is switched off")]
    Offline {
        /// What is missing.
        what: String,
    },
    /// The package index wasn't reached.
    #[error("the package index wasn't reached:\n{reason}")]
    Network {
        /// What uv said.
        reason: String,
    },
    /// uv failed otherwise.
    #[error("{doing} failed:\n{reason}")]
    Uv {
        /// What it was to do.
        doing: String,
        /// What it said.
        reason: String,
    },
    /// npm failed, or what it made can't be used.
    #[error("{doing} packages for Node failed:\n{reason}")]
    Npm {
        /// What it was to do.
        doing: String,
        /// What it said.
        reason: String,
    },
    /// A wheel, an archive or a directory is damaged, hostile or too large.
    #[error("{file} is refused: {reason}")]
    Refused {
        /// The file or directory.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file isn't the one that was locked.
    #[error("{file} has SHA-256 {found}, not {expected}")]
    Hash {
        /// The file or address.
        file: String,
        /// What was locked.
        expected: String,
        /// What came.
        found: String,
    },
    /// Two packages bring the same file with different contents.
    #[error("{first} and {second} both have {file}, and they differ")]
    Clash {
        /// Its path in site-packages.
        file: String,
        /// One package.
        first: String,
        /// The other.
        second: String,
    },
    /// uv, or the Python that fetches it, isn't there.
    #[error(transparent)]
    Tool(#[from] MakeError),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl PackageError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Spec { .. } => {
                "write it as `name`, `name==1.2` or `name @ https://…`, or give a path that starts with `./`"
                    .into()
            }
            Self::List { .. } => "name what is needed with --package instead".into(),
            Self::UnlistedHash { .. } => {
                "somebody changed the package, or the list lacks the hash of this wheel: look which, then add it".into()
            }
            Self::Input { .. } => "look at the spelling of names, versions and addresses".into(),
            Self::Unreadable { .. } => {
                "look at the path; relative ones are taken from where they are named".into()
            }
            Self::Changed { .. } => "lock again, or put back what was locked".into(),
            Self::Lock { .. } => "lock again from the requirements".into(),
            Self::Form { .. } => "lock a wheel of it; `uv pip wheel` makes one of source".into(),
            Self::Native { .. } | Self::Natives { .. } => {
                "ask for a version that is pure Python; or give a wheel that was built for WASI \
                (`cp314-cp314-wasi_0_0_wasm32`); or run with `--engine native`"
                    .into()
            }
            Self::OtherPython { python, .. } => format!(
                "ask for a version that has a wheel for Python {python} or for all; newer ones often have"
            ),
            Self::NoWheel { .. } => "ask for another version; or name another Python with --python".into(),
            Self::OtherTarget { same_engine: true, .. } => {
                "name the Python that it was made for with --python, or lock again".into()
            }
            Self::OtherTarget { .. } => {
                "use it with the engine that it was made for (`--engine`), or lock again".into()
            }
            Self::WasmOnly { .. } => "leave it out, or run with `--engine wasm`".into(),
            Self::NativeOnly { .. } => "run with `--engine native`".into(),
            Self::Interpreter { .. } => {
                "name a CPython 3.10 or newer with --python, such as /usr/bin/python3".into()
            }
            Self::NoInterpreter { .. } => {
                "install one (a package of the system, or `uv python install 3.13`), or name it with --python".into()
            }
            Self::OnlySource { package, .. } => {
                let name = package.split(['=', '<', '>', '!', '~']).next().unwrap_or(package);
                format!(
                    "ask for a version that has a wheel; or, if it is pure Python, fetch its source and give that \
                     (`--package ./{name}.tar.gz`), which builds nothing; or, if you trust it, build a wheel (`uv build \
                     --wheel` in the source of {name}) and give the file"
                )
            }
            Self::NotFound { .. } => "look at the spelling; a private index is set with UV_INDEX".into(),
            Self::Conflict { .. } => "loosen one of the versions".into(),
            Self::Offline { .. } => "allow fetching once; what was fetched is kept".into(),
            Self::Network { .. } => {
                "look at the network and the proxy, or set UV_INDEX_URL to an index that you can reach".into()
            }
            Self::Uv { .. } | Self::Npm { .. } => return None,
            Self::Refused { .. } => "fetch or build it anew; if it comes from others, don't trust it".into(),
            Self::Hash { .. } => {
                "somebody changed the file after it was locked: don't use it, or lock again if that was you"
                    .into()
            }
            Self::Clash { .. } => "leave one of the two out".into(),
            Self::Tool(error) => error.hint(),
            Self::Cache(error) => error.hint().into(),
        };
        Some(hint)
    }

    pub(crate) fn unreadable(path: &Path, error: impl ToString) -> Self {
        Self::Unreadable { path: path.to_owned(), reason: error.to_string() }
    }

    pub(crate) fn refused(file: &Path, reason: impl Into<String>) -> Self {
        Self::Refused { file: file.to_owned(), reason: reason.into() }
    }

    /// A failure to write below the cache.
    pub(crate) fn write(path: &Path, error: std::io::Error) -> Self {
        Self::Cache(CacheError::io(path, error))
    }
}

fn passed_over(passed: &[String]) -> String {
    match passed.is_empty() {
        true => String::new(),
        false => format!(" ({})", passed.join("; ")),
    }
}

/// On lines of its own, if there is any.
fn after(reason: &str) -> String {
    match reason.is_empty() {
        true => String::new(),
        false => format!(":\n{reason}"),
    }
}
