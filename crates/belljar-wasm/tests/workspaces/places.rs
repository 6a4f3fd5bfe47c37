//! Where the workspace is, and by which other names it is found.

use super::*;

const WHERE: &str =
    "import os\n(os.getcwd(), os.environ['HOME'], os.environ['PWD'], os.path.expanduser('~'))";

#[test]
fn the_workspace_is_wherever_the_spec_says() {
    for workspace in [
        "/workspace",
        "/mnt/r2/bucket/threads/abc123",
        "/app",
        "/session",
        "/workspace/threads/a",
        "/tmp",
        "/a",
    ] {
        for disk in [false, true] {
            let directory = TempDir::new().unwrap();
            let base = if disk { on_disk(&directory) } else { GuestSpec::default() };
            let mut guest = boot(GuestSpec { workspace: workspace.to_owned(), ..base });
            let guest = guest.as_mut();
            assert_eq!(
                text(guest, WHERE),
                format!("('{workspace}', '{workspace}', '{workspace}', '{workspace}')")
            );
            assert_eq!(text(guest, "open('here', 'w').write('x')\nsorted(os.listdir('.'))"), "['here']");
            for alias in
                ["/workspace", "/session", "/app"].iter().filter(|alias| !workspace.starts_with(**alias))
            {
                let code = format!(
                    "open('{alias}/here').read(), os.path.realpath('{alias}'), os.listdir('{alias}/')"
                );
                assert_eq!(text(guest, &code), format!("('x', '{workspace}', ['here'])"), "{alias}");
            }
            let on_host = tree(directory.path());
            assert_eq!(on_host.contains_key("here"), disk, "{on_host:?}");
        }
    }
}

#[test]
fn a_workspace_that_is_no_place_is_refused() {
    for workspace in ["", "/", "workspace", "/a/../b", "/a//b", "/./a", "/a\0b", "/python/x"] {
        let spec = GuestSpec { workspace: workspace.to_owned(), ..GuestSpec::default() };
        assert!(engine().boot(Arc::new(spec)).is_err(), "{workspace:?}");
    }
}

#[test]
fn the_root_lists_what_is_there() {
    let mut guest = boot(GuestSpec::default());
    let listed = "import os\nsorted(os.listdir('/')), sorted(os.listdir('.'))";
    assert_eq!(
        text(guest.as_mut(), listed),
        "(['app', 'data', 'python', 'session', 'tmp', 'usr', 'workspace'], [])"
    );
}

#[test]
fn a_name_that_is_mounted_over_is_the_mount() {
    let host = TempDir::new().unwrap();
    std::fs::write(host.path().join("f"), "mounted").unwrap();
    for guest_path in ["/app", "/session", "/app/inner/deep"] {
        let mounts = vec![mount(host.path(), guest_path)];
        let mut guest = boot(GuestSpec { mounts, ..GuestSpec::default() });
        let code = format!("open('{guest_path}/f').read()");
        assert_eq!(text(guest.as_mut(), &code), "'mounted'");
        let other = if guest_path == "/session" { "/app" } else { "/session" };
        let code = format!("open('x', 'w').close()\n__import__('os').listdir('{other}')");
        assert_eq!(text(guest.as_mut(), &code), "['x']");
    }
}

#[test]
fn directories_are_made_in_memory_and_are_not_changes() {
    let directories = vec!["artifacts".to_owned(), "data/deep".to_owned()];
    let mut guest = boot(GuestSpec { directories, ..GuestSpec::default() });
    let report = run(guest.as_mut(), "import os\nsorted(os.listdir('.')), os.listdir('data')");
    assert_eq!(report.value.unwrap().text(), "(['artifacts', 'data'], ['deep'])");
    assert_eq!(report.changes, belljar_engine::Changes::default());
}

#[test]
fn ready_guests_have_their_workspace_too() {
    let spec = Arc::new(GuestSpec { workspace: "/mnt/threads/t".to_owned(), ..GuestSpec::default() });
    engine().warm(&spec, 1);
    let mut guest = engine().boot(Arc::clone(&spec)).unwrap();
    assert_eq!(text(guest.as_mut(), "import os\nos.getcwd()"), "'/mnt/threads/t'");
    engine().warm(&spec, 0);
}

#[test]
fn a_cell_that_is_taken_back_leaves_the_workspace_where_it_was() {
    let mut guest = boot(GuestSpec { workspace: "/mnt/x".to_owned(), ..GuestSpec::default() });
    let report = run(guest.as_mut(), "open('a', 'w').write('1')\nimport os\nos._exit(3)");
    assert_eq!(report.status, Status::Exited);
    assert_eq!(text(guest.as_mut(), "import os\n(os.getcwd(), os.listdir('/app'))"), "('/mnt/x', [])");
}
