//! What the machine has to offer.

use std::fs;
use std::thread;

use rustix::process::{Resource, getrlimit};

use super::check::Check;
use crate::size::Size;

/// A session reserves all that 32 bits can address, and as much again for the way back.
const ADDRESS_SPACE_OF_A_SESSION: u64 = 9 << 30;
/// What a session needs of everything else, generously.
const LEAST_MEMORY: u64 = 256 << 20;
const LEAST_FILES: u64 = 256;
/// The kernel's own default.
const LEAST_MAPS: u64 = 65_530;

pub(crate) fn check(tell: &mut dyn FnMut(Check)) {
    tell(processor());
    tell(address_space());
    tell(open_files());
    // Only Linux has these.
    for check in [memory(), maps(), overcommit()].into_iter().flatten() {
        tell(check);
    }
}

fn processor() -> Check {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let found = format!("{}, {cores} cores{}", std::env::consts::ARCH, features());
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        Check::good("processor", found)
    } else {
        Check::poor("processor", found, "only x86-64 and ARM64 are tested")
    }
}

/// Those that make compiled guest code faster. It is compiled for what is there.
#[cfg(target_arch = "x86_64")]
fn features() -> String {
    let known = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("lzcnt", is_x86_feature_detected!("lzcnt")),
        ("avx512", is_x86_feature_detected!("avx512f")),
    ];
    let there: Vec<_> = known.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    if there.is_empty() { String::new() } else { format!(" with {}", there.join(", ")) }
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> String {
    String::new()
}

fn address_space() -> Check {
    let name = "address space";
    match getrlimit(Resource::As).current {
        None => Check::good(name, "not limited"),
        Some(limit) => {
            let found = format!("limited to {} (ulimit -v)", Size(limit));
            match limit / ADDRESS_SPACE_OF_A_SESSION {
                0 => Check::bad(
                    name,
                    found,
                    "run `ulimit -v unlimited` first: a session reserves 9 GiB, and uses little of it",
                ),
                sessions => Check::poor(
                    name,
                    found,
                    format!("that is enough for about {sessions} sessions at once; `ulimit -v unlimited`"),
                ),
            }
        }
    }
}

fn open_files() -> Check {
    let name = "open files";
    match getrlimit(Resource::Nofile).current {
        None => Check::good(name, "not limited"),
        Some(limit) if limit < LEAST_FILES => {
            Check::poor(name, format!("at most {limit}"), "many sessions need more: `ulimit -n 1024`")
        }
        Some(limit) => Check::good(name, format!("at most {limit}")),
    }
}

fn memory() -> Option<Check> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10;
    let found = format!("{} available", Size(available));
    Some(if available < LEAST_MEMORY {
        Check::poor("memory", found, "a cell may use 256 MiB: end other programs, or use --memory 64MiB")
    } else {
        Check::good("memory", found)
    })
}

fn maps() -> Option<Check> {
    let count: u64 = setting("/proc/sys/vm/max_map_count")?;
    let found = format!("at most {count} (vm.max_map_count)");
    Some(if count < LEAST_MAPS {
        Check::poor("memory maps", found, "many sessions need more: `sysctl vm.max_map_count=65530`")
    } else {
        Check::good("memory maps", found)
    })
}

fn overcommit() -> Option<Check> {
    let name = "overcommit";
    Some(match setting("/proc/sys/vm/overcommit_memory")? {
        2_u8 => Check::poor(
            name,
            "refused (vm.overcommit_memory=2)",
            "sessions reserve more than they use: `sysctl vm.overcommit_memory=0`, or few sessions at once",
        ),
        mode => Check::good(name, format!("allowed (vm.overcommit_memory={mode})")),
    })
}

fn setting<T: std::str::FromStr>(path: &str) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
