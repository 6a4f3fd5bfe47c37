//! What the jail is told: plain ordered data, made without privileges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use belljar_engine::{ALIASES, GuestSpec, Mount, MountAccess, Storage};
use belljar_jail::{Beneath, Launch, Maps, SessionPlan, Step, USER};
use serde_json::{Value, json};

use crate::NativeEnvironment;

/// Where the kernel's own files are in the jail.
pub(crate) const GUEST: &str = "/belljar";
/// Where an interpreter is that isn't below `/usr`.
const PYTHON: &str = "/opt/python";
/// Where packages are.
pub(crate) const PACKAGES: &str = "/data/site-packages";
/// The workspace that has a place in everyone's root.
const WORKSPACE: &str = ALIASES[0];
/// Where a node is that isn't the machine's own.
const NODE: &str = "/opt/node";
/// Where a session's own files are while it is furnished.
const OWN: &str = "/own";
/// Where a session finds the engine's own sockets.
const RUN: &str = "/run/belljar";
/// Where a session's root is built if it differs from the others'.
const FRESH: &str = "/fresh";

/// Who starts the jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Starter {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Ids that exist here, from 0 on.
    pub(crate) ids: u32,
}

impl Starter {
    pub(crate) fn is_root(self) -> bool {
        self.user == 0
    }

    /// The id on the host that sessions of root have: one that nobody is.
    pub(crate) fn owner(self) -> Option<u32> {
        const NOBODY: u32 = 200_000;
        self.is_root().then(|| NOBODY.min(self.ids.saturating_sub(2)))
    }
}

/// What is shown of the host.
#[derive(Clone, Debug)]
pub(crate) struct Furniture {
    /// The kernel's own files on the host.
    pub(crate) guest: PathBuf,
    /// Directories of the host's root that are links, such as `/lib`.
    pub(crate) links: Vec<(String, String)>,
    /// Those that are directories.
    pub(crate) directories: Vec<String>,
    /// A directory of the host that the root is built on.
    pub(crate) stage: String,
    /// Where a node of the cache is, or will be.
    pub(crate) node: Option<PathBuf>,
}

/// Whether sessions see a node of the machine's own.
pub fn sees_node() -> bool {
    ["/usr/bin/node", "/usr/local/bin/node"].iter().any(|path| Path::new(path).exists())
}

impl Furniture {
    /// Looks at the host.
    pub(crate) fn of_host(guest: PathBuf, environment: &NativeEnvironment) -> Self {
        let (mut links, mut directories) = (Vec::new(), Vec::new());
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            let path = Path::new("/").join(name);
            match std::fs::read_link(&path) {
                Ok(target) => links.push((name.to_owned(), target.to_string_lossy().into_owned())),
                Err(_) if path.is_dir() => directories.push(name.to_owned()),
                Err(_) => {}
            }
        }
        let sources = [Some(&guest), Some(&environment.prefix), environment.packages.as_ref()];
        let free = |stage: &&str| {
            let stage = Path::new(stage);
            stage.is_dir() && !sources.iter().flatten().any(|source| source.starts_with(stage))
        };
        let stage =
            ["/mnt", "/media", "/srv", "/run", "/var", "/tmp"].into_iter().find(free).unwrap_or("/mnt");
        Self { guest, links, directories, stage: stage.to_owned(), node: None }
    }

    /// Shows the cache's node, if the machine has none: also one that is fetched while sessions are there.
    pub(crate) fn with_node(mut self, cache: &Path) -> Self {
        let directory = cache.join("node");
        let wanted = !sees_node() && std::fs::create_dir_all(&directory).is_ok();
        self.node = wanted.then_some(directory);
        self
    }
}

/// Where the jail sees the interpreter.
pub(crate) fn interpreter(environment: &NativeEnvironment) -> String {
    let executable = environment.executable.to_string_lossy();
    match environment.prefix.starts_with("/usr") {
        true => format!("{}/{executable}", environment.prefix.display()),
        false => format!("{PYTHON}/{executable}"),
    }
}

/// Variables of a session's interpreter and commands, where the policy says nothing else.
pub(crate) fn surroundings(environment: &NativeEnvironment, spec: &GuestSpec) -> BTreeMap<String, String> {
    let home = &spec.workspace;
    let interpreter = interpreter(environment);
    let (directory, name) = interpreter.rsplit_once('/').unwrap_or(("", &interpreter));
    let mut modules = vec![format!("{GUEST}/shims"), format!("{home}/.venv/lib/{name}/site-packages")];
    if spec.inject_setup && environment.packages.is_some() {
        modules.push(PACKAGES.to_owned());
    }
    let path = format!(
        "{home}/.venv/bin:{home}/node_modules/.bin:{GUEST}/bin:{directory}:/usr/local/bin:/usr/bin:/bin:{GUEST}/fallback"
    );
    let variables = [
        ("HOME", home.clone()),
        ("PWD", home.clone()),
        ("PATH", path),
        ("LANG", "C.UTF-8".to_owned()),
        ("USER", "user".to_owned()),
        ("SHELL", "/bin/bash".to_owned()),
        ("TMPDIR", "/tmp".to_owned()),
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ("PYTHONPATH", modules.join(":")),
        ("MPLBACKEND", "Agg".to_owned()),
        ("MPLCONFIGDIR", "/tmp/.matplotlib".to_owned()),
        ("OMP_NUM_THREADS", "1".to_owned()),
        ("OPENBLAS_NUM_THREADS", "1".to_owned()),
        ("VIRTUAL_ENV", format!("{home}/.venv")),
    ];
    let libraries = interpreter.starts_with(PYTHON).then(|| ("LD_LIBRARY_PATH", format!("{PYTHON}/lib")));
    variables.into_iter().chain(libraries).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The whole jail.
pub(crate) fn launch(
    environment: &NativeEnvironment,
    furniture: &Furniture,
    starter: Starter,
    cgroups: Vec<PathBuf>,
) -> Launch {
    let Starter { user, group, ids } = starter;
    let (outer, inner) = match starter.owner() {
        // Root's files can be reached in the outer namespace; in the inner one there is nobody but a stranger.
        Some(owner) => {
            let all = format!("0 0 {ids}");
            let stranger = format!("0 {owner} 1");
            (
                Maps { users: all.clone(), groups: all, deny_groups: false },
                Maps { users: stranger.clone(), groups: stranger, deny_groups: true },
            )
        }
        None => (
            Maps { users: format!("0 {user} 1"), groups: format!("0 {group} 1"), deny_groups: true },
            Maps { users: "0 0 1".to_owned(), groups: "0 0 1".to_owned(), deny_groups: true },
        ),
    };
    Launch {
        outer,
        inner,
        root: root(environment, furniture),
        gate: vec![
            Step::Processes("/".to_owned()),
            memory("/tmp", 256 << 20, 10_000, true),
            memory("/dev/shm", 64 << 20, 1_000, false),
        ],
        cgroups,
        owner: starter.owner(),
    }
}

fn memory(target: &str, bytes: u64, files: u64, execute: bool) -> Step {
    Step::Memory { target: target.to_owned(), bytes, files, execute }
}

/// The root that everything sees: the system's programs and libraries, the interpreter, packages, and nothing else.
fn root(environment: &NativeEnvironment, furniture: &Furniture) -> Vec<Step> {
    let stage = &furniture.stage;
    let at = |path: &str| format!("{stage}{path}");
    let show = |source: &Path, target: &str| Step::Show { source: source.to_owned(), target: at(target) };
    let maybe = |path: &str| Step::ShowIfPresent { source: path.into(), target: at(path) };
    let made = |path: &str, contents: &str| Step::File { path: at(path), contents: contents.to_owned() };
    let mut steps = vec![memory(stage, 16 << 20, 10_000, false), show(Path::new("/usr"), "/usr")];
    for (name, target) in &furniture.links {
        steps.push(Step::Link { path: at(&format!("/{name}")), target: target.clone() });
    }
    for name in &furniture.directories {
        steps.push(show(&Path::new("/").join(name), &format!("/{name}")));
    }
    if !environment.prefix.starts_with("/usr") {
        steps.push(show(&environment.prefix, PYTHON));
    }
    steps.push(show(&furniture.guest, GUEST));
    if let Some(node) = &furniture.node {
        steps.push(show(node, NODE));
    }
    match &environment.packages {
        Some(packages) => steps.push(show(packages, PACKAGES)),
        None => steps.push(Step::Directory(at(PACKAGES))),
    }
    for alias in ALIASES.iter().filter(|alias| **alias != WORKSPACE) {
        steps.push(Step::Link { path: at(alias), target: WORKSPACE.to_owned() });
    }
    for empty in [WORKSPACE, "/tmp", "/dev/shm", "/proc", OWN, FRESH, "/root", "/home", "/var/tmp", RUN] {
        steps.push(Step::Directory(at(empty)));
    }
    steps.extend([
        made("/etc/passwd", &users(WORKSPACE)),
        made("/etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"),
        made("/etc/hosts", "127.0.0.1 localhost belljar\n::1 localhost\n"),
        made("/etc/hostname", "belljar\n"),
        made("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        made("/etc/resolv.conf", ""),
        made("/etc/machine-id", ""),
    ]);
    for shared in [
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/alternatives",
        "/etc/fonts",
        "/etc/localtime",
        "/etc/mime.types",
    ] {
        steps.push(maybe(shared));
    }
    for device in ["null", "zero", "full", "random", "urandom"] {
        steps.push(Step::Device(at(&format!("/dev/{device}"))));
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        steps.push(Step::Link { path: at(&format!("/dev/{name}")), target: target.to_owned() });
    }
    // Before the root changes: only where one is seen already can another be mounted.
    steps.push(Step::Processes(stage.clone()));
    steps.push(Step::Root(stage.clone()));
    steps.push(Step::Seal("/".to_owned()));
    steps.push(Step::Host("belljar".to_owned()));
    steps
}

/// `/etc/passwd`.
fn users(home: &str) -> String {
    format!(
        "root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:{USER}:{USER}:user:{home}:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
}

/// One session's own surroundings. The descriptors that go with it are the mounts, in the order of the spec, and then
/// the workspace if it is on disk.
pub(crate) fn session(spec: &GuestSpec, furniture: &Furniture, with_python: bool) -> SessionPlan {
    let fresh = needs_root(spec);
    let at = |path: &str| if fresh { format!("{FRESH}{path}") } else { path.to_owned() };
    let again = |source: String, target: String| Step::Again { source, target };
    let mut steps = vec![
        memory(OWN, memory_bytes(spec).clamp(4096, 1 << 50), spec.limits.file_count.clamp(8, 1 << 30), true),
        Step::Directory(format!("{OWN}/tmp")),
        again(format!("{OWN}/tmp"), "/tmp".to_owned()),
        memory("/dev/shm", shared_memory(spec), 10_000, false),
        Step::Processes("/".to_owned()),
    ];
    if spec.workspace != WORKSPACE {
        steps.extend([
            Step::File { path: format!("{OWN}/passwd"), contents: users(&spec.workspace) },
            again(format!("{OWN}/passwd"), "/etc/passwd".to_owned()),
            Step::Seal("/etc/passwd".to_owned()),
        ]);
    }
    if spec.install {
        steps.extend([
            memory(RUN, 4096, 8, false),
            Step::Listen(format!("{RUN}/install")),
            Step::Seal(RUN.to_owned()),
        ]);
    }
    if fresh {
        steps.extend(fresh_root(spec, furniture, with_python));
    }
    let workspace = at(&spec.workspace);
    match spec.storage {
        Storage::Memory => {
            let own = format!("{OWN}{}", spec.workspace);
            steps.extend([Step::Directory(own.clone()), again(own, workspace.clone())]);
        }
        Storage::Disk(_) => {
            let descriptor = spec.mounts.len();
            steps.push(Step::Attach { descriptor, target: workspace.clone(), make: true });
        }
    }
    steps.push(Step::Forget(OWN.to_owned()));
    for path in &spec.directories {
        steps.push(Step::Make { base: workspace.clone(), path: path.clone() });
    }
    steps.extend(mounts(spec, at));
    if fresh {
        steps.extend([Step::Root(FRESH.to_owned()), Step::Seal("/".to_owned())]);
    }
    steps.extend([
        Step::Host("belljar".to_owned()),
        Step::Loopback,
        Step::User(USER),
        Step::NoUserNamespaces,
        Step::Enter("/".to_owned()),
    ]);
    let mut write: Vec<String> =
        [spec.workspace.as_str(), "/tmp", "/dev"].iter().map(|path| (*path).to_owned()).collect();
    write.extend(
        spec.mounts
            .iter()
            .filter(|mount| mount.access == MountAccess::ReadWrite)
            .map(|mount| mount.guest.clone()),
    );
    let limit = |(which, most)| match which {
        libc::RLIMIT_FSIZE => Step::Limit { which, most: file_size(spec, most) },
        which => Step::Limit { which, most },
    };
    let mut lockdown: Vec<Step> = limits(spec, 0).into_iter().map(limit).collect();
    lockdown.extend([Step::DropCapabilities, Step::NoNewPrivileges, Step::Landlock, Step::Seccomp]);
    SessionPlan {
        steps,
        lockdown,
        landlock: Some(Beneath { read: vec!["/".to_owned()], write }),
        filters: format!("{GUEST}/seccomp.bpf"),
    }
}

/// `/dev/shm` has a part of the memory.
fn shared_memory(spec: &GuestSpec) -> u64 {
    (spec.limits.memory / 4).clamp(1 << 20, 1 << 30)
}

/// Bytes of a session's files that are in memory.
pub(crate) fn memory_bytes(spec: &GuestSpec) -> u64 {
    /// For `/tmp` alone.
    const MOST_TEMPORARY: u64 = 1 << 30;
    match spec.storage {
        Storage::Memory => spec.limits.file_bytes,
        Storage::Disk(_) => spec.limits.file_bytes.min(MOST_TEMPORARY),
    }
}

/// Whether it is an absolute path without detours.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && is_inner(path.trim_start_matches('/').trim_end_matches('/'))
}

/// Whether it is a path that goes down only.
pub(crate) fn is_inner(path: &str) -> bool {
    let odd = |name: &str| ["", ".", ".."].contains(&name) || name.len() > 255 || name.contains('\0');
    path.len() < 4096 && !path.split('/').any(odd)
}

/// Whether a path is free of all these: neither in one of them, nor around one.
fn is_free(path: &str, taken: &[&str]) -> bool {
    let path = Path::new(path);
    !taken.iter().any(|taken| path.starts_with(taken) || Path::new(taken).starts_with(path))
}

/// What the jail needs itself.
const TAKEN: [&str; 13] = [
    "/proc", "/dev", GUEST, "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", PYTHON,
    NODE,
];

/// Whether a host directory can be shown there: an absolute path without detours, and none that the jail needs.
pub(crate) fn is_mount_point(guest: &str) -> bool {
    is_plain(guest) && is_free(guest, &TAKEN)
}

/// Why the workspace can't be where it is to be.
pub(crate) fn workspace_trouble(spec: &GuestSpec) -> Option<String> {
    let path = spec.workspace.as_str();
    let refuse = |why: String| Some(format!("the workspace can't be at {path:?}: {why}"));
    if !is_plain(path) || path.ends_with('/') {
        return refuse("it must be an absolute path without `.`, `..` and empty names".to_owned());
    }
    if path.contains([':', '\n']) {
        return refuse("`PATH` and /etc/passwd can't have `:` or a line break in it".to_owned());
    }
    for taken in TAKEN.into_iter().chain([PACKAGES, "/tmp", RUN, OWN, FRESH]) {
        if !is_free(path, &[taken]) {
            return refuse(format!("the jail needs {taken}; choose another path, such as {WORKSPACE}"));
        }
    }
    let around = |mount: &&Mount| mount.guest != path && Path::new(path).starts_with(&mount.guest);
    if let Some(mount) = spec.mounts.iter().find(around) {
        return refuse(format!("{} is mounted around it", mount.guest));
    }
    let odd = spec.directories.iter().find(|directory| !is_inner(directory))?;
    Some(format!("{odd:?} can't be made in the workspace: it must be a relative path that goes down only"))
}

/// The path of a mount below the workspace, if it is there.
pub(crate) fn below_workspace<'m>(spec: &GuestSpec, mount: &'m Mount) -> Option<&'m str> {
    let path = mount.guest.trim_end_matches('/').strip_prefix(spec.workspace.as_str())?;
    path.strip_prefix('/').filter(|path| !path.is_empty())
}

/// Mount points in the workspace, and the directories above them, which stay where they are as long as it runs.
pub(crate) fn held(spec: &GuestSpec) -> BTreeSet<String> {
    let mut held = BTreeSet::new();
    for path in spec.mounts.iter().filter_map(|mount| below_workspace(spec, mount)) {
        held.extend(path.match_indices('/').map(|(end, _)| path[..end].to_owned()));
        held.insert(path.to_owned());
    }
    held
}

/// Other names of the workspace, where nothing else has them.
pub(crate) fn aliases(spec: &GuestSpec) -> impl Iterator<Item = &'static str> {
    let outside = spec.mounts.iter().filter(|mount| below_workspace(spec, mount).is_none());
    let mut used: Vec<&str> = outside.map(|mount| mount.guest.as_str()).collect();
    used.push(&spec.workspace);
    ALIASES.into_iter().filter(move |alias| is_free(alias, &used))
}

/// Whether a session can't do with the root that all others have: its workspace is elsewhere, or mounts are outside of it.
fn needs_root(spec: &GuestSpec) -> bool {
    let outside = |mount: &Mount| mount.guest != spec.workspace && below_workspace(spec, mount).is_none();
    spec.workspace != WORKSPACE || spec.mounts.iter().any(outside)
}

/// A root of its own, with the same in it. The mount points of others don't have those that it needs.
fn fresh_root(spec: &GuestSpec, furniture: &Furniture, with_python: bool) -> Vec<Step> {
    let at = |path: &str| format!("{FRESH}{path}");
    let mut steps = vec![memory(FRESH, 1 << 20, 10_000, false)];
    for (name, target) in &furniture.links {
        steps.push(Step::Link { path: at(&format!("/{name}")), target: target.clone() });
    }
    let mut same: BTreeSet<String> = furniture.directories.iter().map(|name| format!("/{name}")).collect();
    same.extend(["/usr", "/etc", "/dev", "/proc", "/tmp", GUEST, PACKAGES].map(str::to_owned));
    if spec.install {
        same.insert(RUN.to_owned());
    }
    if with_python {
        same.insert(PYTHON.to_owned());
    }
    if furniture.node.is_some() {
        same.insert(NODE.to_owned());
    }
    for path in same {
        steps.push(Step::Again { source: path.clone(), target: at(&path) });
    }
    for empty in ["/root", "/home", "/var/tmp", "/run"] {
        steps.push(Step::Directory(at(empty)));
    }
    for alias in aliases(spec) {
        steps.push(Step::Link { path: at(alias), target: spec.workspace.clone() });
    }
    steps
}

/// Attaches host directories, those further out first.
fn mounts(spec: &GuestSpec, at: impl Fn(&str) -> String) -> Vec<Step> {
    let mut ordered: Vec<(usize, &Mount)> = spec.mounts.iter().enumerate().collect();
    ordered.sort_by_key(|(_, mount)| mount.guest.len());
    let base = at(&spec.workspace);
    // On the host nothing is made.
    let is_made = |mount: &Mount| {
        let inside =
            |outer: &str| mount.guest.len() > outer.len() && Path::new(&mount.guest).starts_with(outer);
        !spec.mounts.iter().any(|outer| inside(&outer.guest))
    };
    let mut above = BTreeSet::new();
    for (_, mount) in ordered.iter().filter(|(_, mount)| is_made(mount)) {
        let path = below_workspace(spec, mount).unwrap_or_default();
        above.extend(path.match_indices('/').map(|(end, _)| &path[..end]));
    }
    // In this order the outer ones come first.
    let mut steps: Vec<Step> =
        above.into_iter().map(|path| Step::Hold { base: base.clone(), path: path.to_owned() }).collect();
    for (descriptor, mount) in ordered {
        let make = is_made(mount);
        steps.push(match below_workspace(spec, mount) {
            Some(path) => Step::AttachInside { descriptor, base: base.clone(), path: path.to_owned(), make },
            None => Step::Attach { descriptor, target: at(&mount.guest), make },
        });
    }
    steps
}

/// Resource limits of every process of a session, beyond what the interpreter has when it is forked.
fn limits(spec: &GuestSpec, inherited: u64) -> Vec<(u32, u64)> {
    let memory = spec.limits.memory;
    vec![
        (libc::RLIMIT_CORE, 0),
        // Descriptors under way between processes are counted per user, and compared with this.
        (libc::RLIMIT_NOFILE, 512),
        // Files in memory have a file system of their own; this is for what it is asked to write elsewhere.
        (libc::RLIMIT_FSIZE, spec.limits.file_bytes.max(memory).saturating_add(1 << 30)),
        (libc::RLIMIT_MEMLOCK, 64 << 10),
        (libc::RLIMIT_MSGQUEUE, 64 << 10),
        (libc::RLIMIT_SIGPENDING, 1024),
        (libc::RLIMIT_NPROC, processes(spec)),
        (libc::RLIMIT_DATA, memory.saturating_add(inherited)),
        // What RLIMIT_DATA doesn't count: memory that is shared between processes.
        (libc::RLIMIT_AS, memory.saturating_mul(2).saturating_add(inherited).saturating_add(8 << 30)),
    ]
}

/// The size of one file that code writes to. Of a quota on disk only others know how much is used; one write at least
/// can't go far beyond it.
fn file_size(spec: &GuestSpec, most: u64) -> u64 {
    match spec.storage {
        Storage::Memory => most,
        Storage::Disk(_) => spec.limits.file_bytes.clamp(1 << 20, most),
    }
}

/// Processes of a session, with those that the engine adds: init, and the shadows of the interpreter.
pub(crate) fn processes(spec: &GuestSpec) -> u64 {
    spec.limits.processes.saturating_add(spec.undo as u64 + 6)
}

/// What a kernel does between its fork and its first cell. Descriptors are those of the zygote's request: 3 is the
/// session's init, 4 the Landlock ruleset.
pub(crate) fn lockdown(spec: &GuestSpec, inherited: u64, landlock: bool) -> Vec<Value> {
    let others = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    let mut steps = vec![
        json!(["setns", 3, libc::CLONE_NEWPID]),
        json!(["setns", 3, others]),
        json!(["setresgid", USER]),
        json!(["setresuid", USER]),
        json!(["setsid"]),
    ];
    for (which, most) in limits(spec, inherited) {
        // It writes its variables when it is asked to; then this one is raised.
        let soft = if which == libc::RLIMIT_FSIZE { file_size(spec, most) } else { most };
        steps.push(json!(["rlimit", which, soft, most]));
    }
    steps.push(json!(["oom_score", 500]));
    steps.extend([json!(["drop_bounding"]), json!(["drop_capabilities"]), json!(["no_new_privs"])]);
    if landlock {
        steps.push(json!(["landlock", 4]));
    }
    steps.extend([json!(["dumpable", 1]), json!(["seccomp"])]);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_engine::Mount;

    fn environment() -> NativeEnvironment {
        NativeEnvironment {
            id: "id".to_owned(),
            prefix: "/somewhere/python".into(),
            executable: "bin/python3.12".into(),
            packages: Some("/cache/packages/site".into()),
            preload: Vec::new(),
            setup: String::new(),
        }
    }

    fn furniture() -> Furniture {
        Furniture {
            guest: "/cache/jail/guest".into(),
            links: vec![("bin".to_owned(), "usr/bin".to_owned()), ("lib".to_owned(), "usr/lib".to_owned())],
            directories: vec!["lib64".to_owned()],
            stage: "/mnt".to_owned(),
            node: None,
        }
    }

    #[test]
    fn the_jail_of_root() {
        let starter = Starter { user: 0, group: 0, ids: u32::MAX };
        insta::assert_json_snapshot!(launch(&environment(), &furniture(), starter, vec!["/cg/x".into()]));
    }

    #[test]
    fn the_jail_of_an_ordinary_user_differs_in_its_maps_only() {
        let starter = |user| Starter { user, group: user, ids: u32::MAX };
        let (root, other) = (
            launch(&environment(), &furniture(), starter(0), Vec::new()),
            launch(&environment(), &furniture(), starter(1000), Vec::new()),
        );
        assert_eq!((&root.root, &root.gate), (&other.root, &other.gate));
        assert_eq!((other.outer.users.as_str(), other.inner.users.as_str()), ("0 1000 1", "0 0 1"));
        assert!(other.outer.deny_groups && other.inner.deny_groups && other.owner.is_none());
    }

    #[test]
    fn a_session() {
        insta::assert_json_snapshot!(session(&GuestSpec::default(), &furniture(), true));
    }

    #[test]
    fn a_session_with_mounts_has_a_root_of_its_own() {
        let mount = |guest: &str, access| Mount { host: "/host".into(), guest: guest.to_owned(), access };
        let mounts =
            vec![mount("/data/in/deep", MountAccess::ReadOnly), mount("/data/in", MountAccess::ReadWrite)];
        let spec = GuestSpec { mounts, ..GuestSpec::default() };
        insta::assert_json_snapshot!(session(&spec, &furniture(), true));
    }

    #[test]
    fn mounts_in_the_workspace_need_no_root_of_their_own() {
        let mount = |guest: &str| Mount {
            host: "/host".into(),
            guest: guest.to_owned(),
            access: MountAccess::ReadOnly,
        };
        let spec = GuestSpec {
            mounts: vec![
                mount("/workspace/.skills/user"),
                mount("/workspace/.skills/system"),
                mount("/workspace/.ticket"),
            ],
            directories: vec!["artifacts".to_owned()],
            ..GuestSpec::default()
        };
        let steps = session(&spec, &furniture(), true).steps;
        assert!(!steps.iter().any(|step| matches!(step, Step::Root(_))), "{steps:?}");
        let own: Vec<&Step> = steps
            .iter()
            .filter(|step| matches!(step, Step::Make { .. } | Step::Hold { .. } | Step::AttachInside { .. }))
            .collect();
        insta::assert_json_snapshot!(own);
        let held: Vec<String> = held(&spec).into_iter().collect();
        assert_eq!(held, [".skills", ".skills/system", ".skills/user", ".ticket"]);
    }

    #[test]
    fn a_workspace_on_disk_elsewhere() {
        let spec = GuestSpec {
            workspace: "/mnt/r2/bucket/threads/abc".to_owned(),
            storage: Storage::Disk("/host/threads/abc".into()),
            ..GuestSpec::default()
        };
        assert_eq!(workspace_trouble(&spec), None);
        insta::assert_json_snapshot!(session(&spec, &furniture(), true));
    }

    #[test]
    fn where_no_workspace_can_be() {
        let at =
            |path: &str| workspace_trouble(&GuestSpec { workspace: path.to_owned(), ..GuestSpec::default() });
        for taken in [
            "/",
            "",
            "relative",
            "/a/../b",
            "/a//b",
            "/a/",
            "/proc/x",
            "/dev",
            "/usr/x",
            "/opt",
            "/belljar",
            "/etc/x",
            "/tmp",
            "/tmp/x",
            "/data",
            "/data/site-packages/x",
            "/own",
            "/fresh/x",
            "/run",
            "/run/belljar",
            "/a:b",
            "/a\nb",
        ] {
            assert!(at(taken).is_some(), "{taken}");
        }
        for free in [
            "/workspace",
            "/session",
            "/app",
            "/app/x",
            "/mnt/r2/bucket/threads/abc123",
            "/home/user",
            "/data/x",
            "/a",
        ] {
            assert_eq!(at(free), None, "{free}");
        }
        let spec = GuestSpec { directories: vec!["../x".to_owned()], ..GuestSpec::default() };
        assert!(workspace_trouble(&spec).is_some());
    }

    #[test]
    fn a_node_of_the_cache_is_shown_to_all_sessions() {
        let furniture = Furniture { node: Some("/cache/node".into()), ..furniture() };
        let starter = Starter { user: 0, group: 0, ids: u32::MAX };
        let root = launch(&environment(), &furniture, starter, Vec::new()).root;
        let shown = Step::Show { source: "/cache/node".into(), target: "/mnt/opt/node".to_owned() };
        assert!(json!(root).as_array().is_some_and(|steps| steps.contains(&json!(shown))));
        let (host, guest) = ("/host".into(), "/data/in".to_owned());
        let mounts = vec![Mount { host, guest, access: MountAccess::ReadOnly }];
        let plan = session(&GuestSpec { mounts, ..GuestSpec::default() }, &furniture, true);
        assert!(json!(plan.steps).to_string().contains("/fresh/opt/node"));
    }

    #[test]
    fn the_lock_down_of_an_interpreter() {
        insta::assert_json_snapshot!(lockdown(&GuestSpec::default(), 100 << 20, true));
    }

    #[test]
    fn where_nothing_can_be_mounted() {
        for taken in
            ["/", "relative", "/a/../b", "/a//b", "/proc/x", "/dev", "/usr/lib", "/opt", "/belljar", "/etc/x"]
        {
            assert!(!is_mount_point(taken), "{taken}");
        }
        for free in ["/data/in", "/mnt/r2/bucket", "/workspace/data", "/home/user", "/a"] {
            assert!(is_mount_point(free), "{free}");
        }
    }
}
