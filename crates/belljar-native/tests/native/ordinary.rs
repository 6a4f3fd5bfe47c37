//! All of it again without privileges.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const AGAIN: &str = "BELLJAR_TEST_ORDINARY";

/// Root has cgroups, and ids to spare; others have neither.
#[test]
fn the_same_holds_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() || std::env::var_os(AGAIN).is_some() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("native");
    let home = directory.path().join("home");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    fs::create_dir(&home).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (&binary, 0o755), (&home, 0o777)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let output = Command::new("setpriv")
        .args(["--reuid=1234", "--regid=1234", "--clear-groups"])
        .arg(&binary)
        .args(["--test-threads=2", "--skip", "the_same_holds_for_an_ordinary_user"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .env(AGAIN, "1")
        .current_dir(&home)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
