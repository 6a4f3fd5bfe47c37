//! Limits of all processes of a session together, where the kernel lets us set them: cgroups of both versions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use belljar_engine::{GuestSpec, Limits};

use crate::plan;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Processes,
    Processor,
}

impl Controller {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Processes, Self::Processor];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Processor => "cpu",
        }
    }
}

/// Where a controller's cgroups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    controller: Controller,
    directory: PathBuf,
    version: u8,
}

/// Looks where this process's cgroups can be made, or says why they can't.
pub(crate) fn find(controller: Controller) -> Result<Place, String> {
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
    let place = locate(controller, &own, &mounts)?;
    check(&place)?;
    Ok(place)
}

/// Reads `/proc/self/cgroup` and `/proc/self/mounts`.
fn locate(controller: Controller, own: &str, mounts: &str) -> Result<Place, String> {
    let name = controller.name();
    let mount = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let fits = fields.get(2) == Some(&kind)
                && option.is_none_or(|option| {
                    fields.get(3).is_some_and(|options| options.split(',').any(|found| found == option))
                });
            fits.then(|| PathBuf::from(fields[1]))
        })
    };
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    if let Some(mount) = mount("cgroup", Some(name)) {
        let path =
            path_of(&|controllers| controllers.split(',').any(|found| found == name)).unwrap_or_default();
        return Ok(Place { controller, directory: mount.join(path), version: 1 });
    }
    if let Some(mount) = mount("cgroup2", None) {
        let path = path_of(&str::is_empty).unwrap_or_default();
        return Ok(Place { controller, directory: mount.join(path), version: 2 });
    }
    Err(format!("no cgroup file system has the controller `{name}`"))
}

fn check(place: &Place) -> Result<(), String> {
    let name = place.controller.name();
    if place.version == 2 {
        let controllers = fs::read_to_string(place.directory.join("cgroup.controllers")).unwrap_or_default();
        if !controllers.split_whitespace().any(|found| found == name) {
            return Err(format!("the controller `{name}` isn't given to {}", place.directory.display()));
        }
        let subtree = fs::read_to_string(place.directory.join("cgroup.subtree_control")).unwrap_or_default();
        if !subtree.split_whitespace().any(|found| found == name)
            && fs::write(place.directory.join("cgroup.subtree_control"), format!("+{name}")).is_err()
        {
            return Err(format!(
                "the controller `{name}` can't be turned on below {}",
                place.directory.display()
            ));
        }
    }
    let access = rustix::fs::access(&place.directory, rustix::fs::Access::WRITE_OK);
    access.map_err(|_| format!("{} can't be written to", place.directory.display()))
}

/// The cgroups of one jail, one directory per controller; sessions have theirs below.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hierarchy {
    places: Vec<Place>,
}

impl Hierarchy {
    /// Makes them where that is possible.
    pub(crate) fn make() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("belljar-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut places: Vec<Place> = Vec::new();
        for controller in Controller::ALL {
            let Ok(mut place) = find(controller) else { continue };
            sweep(&place.directory);
            place.directory.push(&name);
            let made = match fs::create_dir(&place.directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => place.version == 2,
                made => made.is_ok(),
            };
            if place.version == 2 && made {
                let control = place.directory.join("cgroup.subtree_control");
                let _ = fs::write(control, format!("+{}", place.controller.name()));
            }
            if made {
                places.push(place);
            }
        }
        Self { places }
    }

    /// The directories, which end with the jail.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = self.places.iter().map(|place| place.directory.clone()).collect();
        all.dedup();
        all
    }

    /// A session's cgroup, with its limits.
    pub(crate) fn session(&self, spec: &GuestSpec) -> io::Result<Group> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("session-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut group = Group { places: Vec::new() };
        for place in &self.places {
            let place = Place { directory: place.directory.join(&name), ..place.clone() };
            match fs::create_dir(&place.directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            // Pushed first, so that it is removed if its limits can't be set.
            group.places.push(place.clone());
            limit(&place, spec)?;
        }
        Ok(group)
    }
}

/// Removes cgroups of processes that were killed together with their stewards. Those in use can't be removed.
fn sweep(directory: &Path) {
    for found in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = found.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("belljar-")?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            for session in fs::read_dir(found.path()).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(session.path());
            }
            let _ = fs::remove_dir(found.path());
        }
    }
}

/// Memory that a session may have beyond the interpreter's own limit: kernel structures, buffers, and the difference
/// between an exception and being killed.
const SLACK: u64 = 64 << 20;

fn limit(place: &Place, spec: &GuestSpec) -> io::Result<()> {
    let limits = &spec.limits;
    let write = |name: &str, value: String| fs::write(place.directory.join(name), value);
    match (place.controller, place.version) {
        (Controller::Memory, version) => {
            let most = limits.memory.saturating_add(plan::memory_bytes(spec)).saturating_add(SLACK);
            let name = if version == 1 { "memory.limit_in_bytes" } else { "memory.max" };
            write(name, most.to_string())?;
            if version == 2 {
                let _ = write("memory.swap.max", "0".to_owned());
                let _ = write("memory.oom.group", "0".to_owned());
            }
            Ok(())
        }
        (Controller::Processes, _) => write("pids.max", plan::processes(spec).to_string()),
        (Controller::Processor, 1) => {
            write("cpu.cfs_period_us", "100000".to_owned())?;
            write("cpu.cfs_quota_us", quota(limits).to_string())?;
            // What was saved up may be used at once: shadows come and go beside the interpreter.
            let _ = write("cpu.cfs_burst_us", quota(limits).to_string());
            Ok(())
        }
        (Controller::Processor, _) => {
            write("cpu.max", format!("{} 100000", quota(limits)))?;
            let _ = write("cpu.max.burst", quota(limits).to_string());
            Ok(())
        }
    }
}

fn quota(limits: &Limits) -> u64 {
    ((limits.cpus * 100_000.0) as u64).max(1000)
}

/// A session's cgroup. Dropping it removes it, as soon as its processes have ended.
#[derive(Debug, Default)]
pub(crate) struct Group {
    places: Vec<Place>,
}

impl Group {
    /// Takes a process in.
    pub(crate) fn add(&self, pid: i32) -> io::Result<()> {
        let mut done: Vec<&Path> = Vec::new();
        for place in &self.places {
            if done.contains(&place.directory.as_path()) {
                continue;
            }
            fs::write(place.directory.join("cgroup.procs"), pid.to_string())?;
            done.push(&place.directory);
        }
        Ok(())
    }

    /// How often the kernel has ended a process for want of memory.
    pub(crate) fn memory_kills(&self) -> u64 {
        let place = self.places.iter().find(|place| place.controller == Controller::Memory);
        let Some(place) = place else { return 0 };
        let name = if place.version == 1 { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(place.directory.join(name)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for place in &self.places {
            // Processes may still be ending; the steward removes what is left.
            for _ in 0..50 {
                match fs::remove_dir(&place.directory) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                    _ => break,
                }
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let own = "5:memory:/a\n4:cpu,cpuacct:/b\n0::/c\n";
        let old = "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup2 /cg/unified cgroup2 rw 0 0\n";
        let place = |controller| locate(controller, own, old).map(|place| (place.directory, place.version));
        assert_eq!(place(Controller::Memory).unwrap(), ("/cg/memory/a".into(), 1));
        assert_eq!(place(Controller::Processor).unwrap(), ("/cg/cpu/b".into(), 1));
        assert_eq!(place(Controller::Processes).unwrap(), ("/cg/unified/c".into(), 2));
        let new = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let found = locate(Controller::Memory, "0::/user.slice/x\n", new).unwrap();
        assert_eq!((found.directory, found.version), ("/sys/fs/cgroup/user.slice/x".into(), 2));
        assert!(locate(Controller::Memory, own, "").is_err());
    }
}
