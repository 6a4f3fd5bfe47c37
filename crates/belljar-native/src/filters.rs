//! The system calls that sessions may make: `seccomp.json`, compiled.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, TargetArch};
use serde_json::Value;

use crate::NativeError;

/// The list, with the reason for each group.
const LIST: &str = include_str!("seccomp.json");

/// The filters in the form that the jail and the interpreter read: a count, then for each the number of its
/// instructions and these, eight bytes each.
pub(crate) fn compile() -> Result<Vec<u8>, NativeError> {
    let architecture = std::env::consts::ARCH;
    let list: BTreeMap<String, Value> = serde_json::from_str(LIST).map_err(|error| broken(&error))?;
    let mut allowed = list.get("common").cloned().unwrap_or_default();
    if let (Some(extra), Some(rules)) = (
        list.get(architecture).and_then(|extra| extra["filter"].as_array()),
        allowed["filter"].as_array_mut(),
    ) {
        rules.extend(extra.iter().cloned());
    }
    let mut absent = list.get("absent").cloned().unwrap_or_default();
    let older = format!("absent on {architecture}");
    if let (Some(extra), Some(rules)) =
        (list.get(&older).and_then(|extra| extra["filter"].as_array()), absent["filter"].as_array_mut())
    {
        rules.extend(extra.iter().cloned());
    }
    let target: TargetArch = architecture.try_into().map_err(|error| broken(&error))?;
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for filter in [absent, allowed] {
        let text = serde_json::json!({ "filter": filter }).to_string();
        let mut compiled =
            seccompiler::compile_from_json(text.as_bytes(), target).map_err(|error| broken(&error))?;
        let program: BpfProgram = compiled.remove("filter").unwrap_or_default();
        bytes.extend((program.len() as u32).to_le_bytes());
        for instruction in program {
            bytes.extend(instruction.code.to_le_bytes());
            bytes.extend([instruction.jt, instruction.jf]);
            bytes.extend(instruction.k.to_le_bytes());
        }
    }
    Ok(bytes)
}

fn broken(error: &dyn std::fmt::Display) -> NativeError {
    NativeError::Io(format!("the list of system calls cannot be compiled: {error}"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
mod tests {
    use super::*;

    #[test]
    fn the_list_compiles_and_fits_the_kernel() {
        let bytes = compile().unwrap();
        let count = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(count, 2);
        // The kernel takes 4096 instructions.
        assert!(bytes.len() < 4096 * 8, "{}", bytes.len());
    }

    #[test]
    fn nothing_that_leads_out_is_on_the_list() {
        let list: Value = serde_json::from_str(LIST).unwrap();
        let names: Vec<&str> = ["common", "x86_64"]
            .iter()
            .flat_map(|group| list[group]["filter"].as_array().unwrap())
            .filter_map(|rule| rule["syscall"].as_str())
            .collect();
        for name in [
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "setns",
            "unshare",
            "ptrace",
            "process_vm_readv",
            "process_vm_writev",
            "bpf",
            "perf_event_open",
            "userfaultfd",
            "io_uring_setup",
            "keyctl",
            "add_key",
            "request_key",
            "open_by_handle_at",
            "kexec_load",
            "init_module",
            "finit_module",
            "reboot",
            "swapon",
            "move_mount",
            "open_tree",
            "fsopen",
            "fsmount",
            "mount_setattr",
            "pidfd_getfd",
            "memfd_create",
            "shmget",
            "acct",
            "settimeofday",
            "clock_settime",
            "iopl",
            "ioperm",
            "syslog",
            "quotactl",
            "fanotify_init",
            "process_madvise",
            "kcmp",
            "lookup_dcookie",
            "vmsplice",
            "memfd_secret",
        ] {
            assert!(!names.contains(&name), "{name}");
        }
    }
}
