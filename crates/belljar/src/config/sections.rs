//! The tables of a `belljar.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_engine::{Mount, MountAccess, Rollback};
use belljar_packages::{Spec, read_text};

use super::error::{ConfigError, Place};
use super::reader::{Entry, Section};
use crate::{EngineKind, Policy, StorageKind};

/// The only Python that the wasm engine has.
const PYTHON: &str = "3.14";

/// All tables with keys of their own, and those.
pub(super) const TABLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "engine",
            "python_version",
            "cache_dir",
            "environment",
            "policy",
            "mounts",
            "workspace",
            "artifacts",
            "datasets",
        ],
    ),
    (
        "environment",
        &["packages", "preload", "setup", "setup_file", "lock", "name", "stdlib", "inject_setup"],
    ),
    (
        "policy",
        &[
            "timeout",
            "memory",
            "output",
            "files",
            "file_bytes",
            "file_count",
            "tool_calls",
            "tool_timeout",
            "tool_bytes",
            "display_bytes",
            "steps",
            "rollback",
            "undo",
            "seed",
            "env",
            "cpus",
            "processes",
            "cpu_time",
            "require",
            "spill_frames",
            "spill_arrays",
            "install",
        ],
    ),
    ("workspace", &["storage", "quota", "files", "root", "path", "skills", "user", "ticket"]),
    (
        "artifacts",
        &[
            "keep",
            "leave",
            "displays",
            "read",
            "seeded",
            "max_size",
            "max_count",
            "allow",
            "deny",
            "database",
            "blobs",
            "url_base",
            "link_life",
            "session_quota",
            "session_count",
            "tenant_quota",
            "tenant_count",
            "total_quota",
            "total_count",
            "max_age",
        ],
    ),
    (
        "datasets",
        &["access", "directory", "allow", "cache_lists", "max_size", "attempts", "timeout", "allow_private"],
    ),
];

type Result<T> = std::result::Result<T, ConfigError>;

/// What stands before the tables.
pub(super) struct Head {
    pub(super) cache_dir: Option<PathBuf>,
    pub(super) engine: Option<(EngineKind, Place)>,
    pub(super) python_version: Option<(String, Place)>,
}

/// `[environment]`.
#[derive(Clone, Debug, Default)]
pub(super) struct EnvironmentSection {
    pub(super) name: Option<String>,
    /// As they were written, and as they are understood.
    pub(super) packages: Vec<(String, Spec)>,
    pub(super) lock: Option<PathBuf>,
    pub(super) preload: Vec<String>,
    pub(super) setup: String,
    pub(super) stdlib: Option<PathBuf>,
    pub(super) inject_setup: Option<bool>,
}

/// `[policy]`: what it says, and nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicySection {
    timeout: Option<Option<Duration>>,
    memory: Option<u64>,
    output: Option<u64>,
    file_bytes: Option<u64>,
    file_count: Option<u64>,
    tool_calls: Option<u64>,
    tool_timeout: Option<Duration>,
    tool_bytes: Option<u64>,
    display_bytes: Option<u64>,
    steps: Option<u64>,
    rollback: Option<Rollback>,
    undo: Option<usize>,
    seed: Option<u64>,
    env: BTreeMap<String, String>,
    cpus: Option<f64>,
    processes: Option<u64>,
    cpu_time: Option<Option<Duration>>,
    require: Vec<String>,
    spill_frames: Option<u64>,
    spill_arrays: Option<u64>,
    install: Option<bool>,
}

impl Head {
    pub(super) fn read(root: &Section<'_>) -> Result<Self> {
        let engine = optional(root.entry("engine")?, |entry| Ok((engine(&entry)?, entry.place())))?;
        let native = matches!(engine, Some((EngineKind::Native, _)));
        let python_version = optional(root.entry("python_version")?, |entry| python_version(&entry, native))?;
        let cache_dir = optional(root.entry("cache_dir")?, |entry| {
            // Compiled code is loaded from there: whoever fills it runs what they like, outside of any sandbox.
            entry.trusted("it names a cache, which can hold any program")?;
            entry.path()
        })?;
        Ok(Self { cache_dir, engine, python_version })
    }
}

impl EnvironmentSection {
    pub(super) fn read(section: &Section<'_>, base: &Path) -> Result<Self> {
        for other in ["packages", "preload", "setup", "setup_file", "lock", "stdlib"] {
            let advice = "a named environment is complete: `belljar env create` makes another one";
            section.exclude("name", other, advice)?;
        }
        section.exclude("setup", "setup_file", "keep one of them")?;
        let mut packages = Vec::new();
        for entry in optional(section.entry("packages")?, |entry| entry.elements())?.unwrap_or_default() {
            let text = entry.text()?;
            let refused =
                |error: belljar_packages::PackageError| entry.invalid(error.to_string(), error.hint());
            let spec = Spec::parse(text, base).map_err(refused)?;
            if matches!(spec, Spec::Requirement(_)) && text.contains('@') {
                entry.trusted("it names an address")?;
            }
            for path in spec.files(&|path| entry.may_read(path)).map_err(refused)? {
                entry.confine(path)?;
            }
            packages.push((text.to_owned(), spec));
        }
        let setup = match section.entry("setup_file")? {
            Some(entry) => {
                let path = entry.path()?;
                read_text(&path).map_err(|source| ConfigError::Read { path, source })?
            }
            None => text(section, "setup")?.unwrap_or_default(),
        };
        Ok(Self {
            name: text(section, "name")?,
            packages,
            lock: optional(section.entry("lock")?, |entry| entry.path())?,
            preload: optional(section.entry("preload")?, |entry| entry.texts())?.unwrap_or_default(),
            setup,
            stdlib: optional(section.entry("stdlib")?, |entry| entry.path())?,
            inject_setup: optional(section.entry("inject_setup")?, |entry| entry.flag())?,
        })
    }
}

impl PolicySection {
    pub(super) fn read(section: &Section<'_>) -> Result<Self> {
        section.exclude("files", "file_bytes", "they are the same; keep one of them")?;
        let number = |key| optional(section.entry(key)?, |entry| entry.number());
        let size = |key| optional(section.entry(key)?, |entry| entry.size());
        let mut env = BTreeMap::new();
        if let Some(variables) = section.section("env")? {
            for name in variables.keys() {
                env.extend(text(&variables, name)?.map(|value| (name.to_owned(), value)));
            }
        }
        Ok(Self {
            timeout: optional(section.entry("timeout")?, |entry| entry.seconds())?,
            memory: size("memory")?,
            output: size("output")?,
            file_bytes: size("file_bytes")?.or(size("files")?),
            file_count: number("file_count")?,
            tool_calls: number("tool_calls")?,
            tool_timeout: optional(section.entry("tool_timeout")?, |entry| {
                entry.seconds()?.ok_or_else(|| entry.wrong("a number of seconds"))
            })?,
            tool_bytes: size("tool_bytes")?,
            display_bytes: size("display_bytes")?,
            steps: number("steps")?,
            rollback: optional(section.entry("rollback")?, rollback)?,
            undo: number("undo")?.map(|undo| usize::try_from(undo).unwrap_or(usize::MAX)),
            seed: number("seed")?,
            env,
            cpus: optional(section.entry("cpus")?, |entry| entry.fraction())?,
            processes: number("processes")?,
            cpu_time: optional(section.entry("cpu_time")?, |entry| entry.seconds())?,
            require: optional(section.entry("require")?, |entry| entry.texts())?.unwrap_or_default(),
            spill_frames: size("spill_frames")?,
            spill_arrays: size("spill_arrays")?,
            install: optional(section.entry("install")?, install)?,
        })
    }

    pub(super) fn change(&self, policy: &mut Policy) {
        policy.timeout = self.timeout.unwrap_or(policy.timeout);
        policy.memory = self.memory.unwrap_or(policy.memory);
        policy.output = self.output.unwrap_or(policy.output);
        policy.file_bytes = self.file_bytes.unwrap_or(policy.file_bytes);
        policy.file_count = self.file_count.unwrap_or(policy.file_count);
        policy.tool_calls = self.tool_calls.unwrap_or(policy.tool_calls);
        policy.tool_timeout = self.tool_timeout.unwrap_or(policy.tool_timeout);
        policy.tool_bytes = self.tool_bytes.unwrap_or(policy.tool_bytes);
        policy.display_bytes = self.display_bytes.unwrap_or(policy.display_bytes);
        policy.steps = self.steps.or(policy.steps);
        policy.rollback = self.rollback.unwrap_or(policy.rollback);
        policy.undo = self.undo.unwrap_or(policy.undo);
        policy.env.extend(self.env.clone());
        policy.cpus = self.cpus.unwrap_or(policy.cpus);
        policy.processes = self.processes.unwrap_or(policy.processes);
        policy.cpu_time = self.cpu_time.unwrap_or(policy.cpu_time);
        policy.require.extend(self.require.iter().cloned());
        policy.spill.frame_bytes = self.spill_frames.unwrap_or(policy.spill.frame_bytes);
        policy.spill.array_bytes = self.spill_arrays.unwrap_or(policy.spill.array_bytes);
        policy.install = self.install.unwrap_or(policy.install);
        if let Some(seed) = self.seed {
            policy.repeat(seed);
        }
    }
}

/// `[workspace]`: what it says, and nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkspaceSection {
    storage: Option<StorageKind>,
    quota: Option<u64>,
    files: Option<u64>,
    root: Option<PathBuf>,
    path: Option<String>,
    skills: Option<Option<String>>,
    user: Option<String>,
    ticket: Option<String>,
}

impl WorkspaceSection {
    pub(super) fn read(section: &Section<'_>) -> Result<Self> {
        Ok(Self {
            storage: optional(section.entry("storage")?, storage)?,
            quota: optional(section.entry("quota")?, |entry| entry.size())?,
            files: optional(section.entry("files")?, |entry| entry.number())?,
            root: optional(section.entry("root")?, |entry| entry.path())?,
            path: text(section, "path")?,
            skills: text(section, "skills")?.map(|at| Some(at).filter(|at| !at.is_empty())),
            user: text(section, "user")?,
            ticket: text(section, "ticket")?,
        })
    }

    pub(super) fn change(&self, policy: &mut Policy) {
        policy.file_bytes = self.quota.unwrap_or(policy.file_bytes);
        policy.file_count = self.files.unwrap_or(policy.file_count);
        let workspace = &mut policy.workspace;
        workspace.storage = self.storage.unwrap_or(workspace.storage);
        workspace.root = self.root.clone().or(workspace.root.take());
        workspace.path = self.path.clone().unwrap_or_else(|| workspace.path.clone());
        workspace.skills = self.skills.clone().unwrap_or_else(|| workspace.skills.clone());
        workspace.user = self.user.clone().or(workspace.user.take());
        workspace.ticket = self.ticket.clone().or(workspace.ticket.take());
    }
}

fn storage(entry: Entry<'_>) -> Result<StorageKind> {
    match entry.text()? {
        "memory" => Ok(StorageKind::Memory),
        "disk" => Ok(StorageKind::Disk),
        _ => Err(entry.wrong("\"memory\" or \"disk\"")),
    }
}

/// `[mounts]`: guest paths, and what is seen there.
pub(super) fn mounts(section: &Section<'_>) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for guest in section.keys() {
        let written = section.section(guest).ok().flatten();
        let (host, access) = match written {
            Some(table) => {
                let table = table.knows(&["host", "access"])?;
                let host = table.entry("host")?;
                (host, optional(table.entry("access")?, access)?.unwrap_or(MountAccess::ReadOnly))
            }
            None => (section.entry(guest)?, MountAccess::ReadOnly),
        };
        let advice =
            "write \"/data\" = \"./data\", or \"/out\" = { host = \"./out\", access = \"read-write\" }";
        let Some(host) = host else {
            return Err(section.problem(guest, format!("the mount {guest} has no `host`"), advice));
        };
        if !guest.starts_with('/') {
            return Err(section.problem(
                guest,
                format!("{guest:?} is no absolute path of the guest"),
                advice,
            ));
        }
        mounts.push(Mount { host: host.path()?, guest: guest.to_owned(), access });
    }
    Ok(mounts)
}

fn access(entry: Entry<'_>) -> Result<MountAccess> {
    match entry.text()? {
        "read-only" | "ro" => Ok(MountAccess::ReadOnly),
        "read-write" | "rw" => Ok(MountAccess::ReadWrite),
        _ => Err(entry.wrong("\"read-only\" or \"read-write\"")),
    }
}

fn rollback(entry: Entry<'_>) -> Result<Rollback> {
    match entry.text()? {
        "on-kill" => Ok(Rollback::OnKill),
        "on-error" => Ok(Rollback::OnError),
        "never" => Ok(Rollback::Never),
        _ => Err(entry.wrong("\"on-kill\", \"on-error\" or \"never\"")),
    }
}

fn engine(entry: &Entry<'_>) -> Result<EngineKind> {
    entry.text()?.parse().map_err(|_| entry.wrong("\"wasm\" or \"native\""))
}

/// The native engine runs what the machine has; the other one has one Python.
fn python_version(entry: &Entry<'_>, native: bool) -> Result<(String, Place)> {
    let version = entry.text()?;
    let minor = version.strip_prefix("3.").filter(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()));
    match (native, minor) {
        (true, None | Some("")) => Err(entry.wrong("a version such as \"3.12\"")),
        (false, _) if version != PYTHON => {
            let problem = format!("there is no Python {version}, only {PYTHON}");
            let advice = format!(
                "write python_version = \"{PYTHON}\"; with engine = \"native\" it can be any that the machine has"
            );
            Err(entry.invalid(problem, Some(advice)))
        }
        _ => Ok((version.to_owned(), entry.place())),
    }
}

/// What is installed is fetched: nobody allows himself that.
fn install(entry: Entry<'_>) -> Result<bool> {
    let install = entry.flag()?;
    if install {
        entry.trusted("it lets code install packages")?;
    }
    Ok(install)
}

fn text(section: &Section<'_>, key: &str) -> Result<Option<String>> {
    optional(section.entry(key)?, |entry| entry.text().map(str::to_owned))
}

pub(super) fn optional<'t, T>(
    entry: Option<Entry<'t>>,
    read: impl FnOnce(Entry<'t>) -> Result<T>,
) -> Result<Option<T>> {
    entry.map(read).transpose()
}
