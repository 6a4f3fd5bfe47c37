//! A workspace that is a directory of the host.

use std::os::unix::fs::symlink;

use belljar_engine::{Changes, Descent};

use super::*;

#[test]
fn files_are_the_hosts_and_changes_are_told() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("old"), "old").unwrap();
    std::fs::write(directory.path().join("gone"), "gone").unwrap();
    let mut guest = boot(on_disk(&directory));
    let code = "import os\nos.makedirs('d/e')\nopen('d/e/new', 'w').write('new')\nopen('old', 'a').write('er')\n\
                os.remove('gone')\nopen('/tmp/t', 'w').write('t')\nopen('old').read()";
    let report = run(guest.as_mut(), code);
    assert_eq!(report.value.unwrap().text(), "'older'");
    let expected = Changes {
        created: vec!["/tmp/t".to_owned(), "/workspace/d/e/new".to_owned()],
        modified: vec!["/workspace/old".to_owned()],
        deleted: vec!["/workspace/gone".to_owned()],
        truncated: false,
    };
    assert_eq!(report.changes, expected);
    let found = tree(directory.path());
    assert_eq!(found["d/e/new"], "new");
    assert_eq!(found["old"], "older");
    assert_eq!(found.len(), 4);
}

#[test]
fn skills_are_mounted_inside_without_a_trace_on_the_host() {
    let (directory, skills) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    std::fs::write(skills.path().join("SKILL.md"), "how").unwrap();
    for inside in [".skills/system", ".solven/skills/system", "s", "a/b/c/d/e"] {
        let mounts = vec![
            mount(skills.path(), &format!("/workspace/{inside}")),
            mount(skills.path(), &format!("/workspace/{inside}-user")),
        ];
        let mut guest = boot(GuestSpec { mounts, ..on_disk(&directory) });
        let guest = guest.as_mut();
        let parent = inside.rsplit_once('/').map_or(".", |(parent, _)| parent);
        let code = format!(
            "import os\nopen('{inside}/SKILL.md').read(), sorted(os.listdir('{parent}')), os.path.isdir('{inside}'), \
             sorted(os.listdir('{inside}/..')), os.path.exists('{inside}/../../nothing')"
        );
        let name = inside.rsplit('/').next().unwrap();
        let listed = format!("['{name}', '{name}-user']");
        assert_eq!(text(guest, &code), format!("('how', {listed}, True, {listed}, False)"), "{inside}");
        let first = inside.split('/').next().unwrap();
        assert_eq!(text(guest, &format!("'{first}' in os.listdir('.')")), "True");
        for code in [
            format!("open('{inside}/x', 'w')"),
            format!("os.mkdir('{inside}')"),
            format!("os.rename('{inside}', 'moved')"),
            format!("os.rmdir('{inside}')"),
            format!("os.remove('{inside}/SKILL.md')"),
            format!("os.link('{inside}/SKILL.md', 'linked')"),
            format!("os.rename('{inside}/SKILL.md', 'moved')"),
            format!("os.mkdir('{first}')"),
            format!("os.rename('{first}', 'moved')"),
            format!("import shutil\nshutil.rmtree('{first}')"),
            format!("open('file', 'w').close()\nos.rename('file', '{inside}')"),
            format!("open('file', 'w').close()\nos.rename('file', '{first}')"),
        ] {
            assert_ne!(fails(guest, &code), "it worked", "{code}");
        }
        text(guest, "os.remove('file')");
        assert_eq!(tree(directory.path()), BTreeMap::new(), "{inside}");
        assert_eq!(tree(skills.path()).len(), 1);
    }
}

#[test]
fn nothing_is_made_in_a_directory_that_the_host_does_not_have() {
    let (directory, skills) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mounts = vec![mount(skills.path(), "/workspace/.skills/system")];
    let mut guest = boot(GuestSpec { mounts, ..on_disk(&directory) });
    let guest = guest.as_mut();
    for code in [
        "open('.skills/x', 'w')",
        "import os\nos.mkdir('.skills/x')",
        "os.symlink('a', '.skills/x')",
        "open('/tmp/f', 'w').close()\nos.rename('/tmp/f', '.skills/x')",
        "os.link('/tmp/f', '.skills/x')",
    ] {
        assert_ne!(fails(guest, code), "it worked", "{code}");
    }
    assert_eq!(tree(directory.path()), BTreeMap::new());
}

#[test]
fn what_the_host_has_at_a_mount_point_is_hidden() {
    let (directory, skills) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    std::fs::write(skills.path().join("SKILL.md"), "how").unwrap();
    let old = directory.path().join(".solven");
    std::fs::create_dir_all(old.join("skills/user")).unwrap();
    std::fs::write(old.join("skills/user/mine"), "mine").unwrap();
    std::fs::write(old.join("settings"), "kept").unwrap();
    symlink("/etc", old.join("skills/system")).unwrap();
    let before = tree(directory.path());
    let mounts = ["system", "user"]
        .map(|name| mount(skills.path(), &format!("/workspace/.solven/skills/{name}")))
        .to_vec();
    let mut guest = boot(GuestSpec { mounts, ..on_disk(&directory) });
    let code = "import os\n[open(f'.solven/skills/{name}/SKILL.md').read() for name in ('system', 'user')], \
                sorted(os.listdir('.solven/skills')), sorted(os.listdir('.solven')), os.listdir('.solven/skills/user')";
    assert_eq!(
        text(guest.as_mut(), code),
        "(['how', 'how'], ['system', 'user'], ['settings', 'skills'], ['SKILL.md'])"
    );
    assert_eq!(
        text(guest.as_mut(), "open('.solven/more', 'w').write('x')\nopen('.solven/settings').read()"),
        "'kept'"
    );
    std::fs::remove_file(old.join("more")).unwrap();
    assert_eq!(tree(directory.path()), before);

    // A link on the way, too.
    let other = TempDir::new().unwrap();
    symlink("/etc", other.path().join(".skills")).unwrap();
    let mounts = vec![mount(skills.path(), "/workspace/.skills/system")];
    let mut guest = boot(GuestSpec { mounts, ..on_disk(&other) });
    let code =
        "import os\nopen('.skills/system/SKILL.md').read(), os.listdir('.skills'), os.path.islink('.skills')";
    assert_eq!(text(guest.as_mut(), code), "('how', ['system'], False)");
}

#[test]
fn files_on_disk_are_not_taken_back_and_memory_is() {
    let directory = TempDir::new().unwrap();
    let mut guest = boot(on_disk(&directory));
    let guest = guest.as_mut();
    text(guest, "x = 1\nopen('a', 'w').write('1')\nopen('/tmp/a', 'w').write('1')");
    let report =
        run(guest, "open('a', 'w').write('2')\nopen('/tmp/a', 'w').write('2')\nimport os\nos._exit(1)");
    assert_eq!(report.status, Status::Exited);
    assert_eq!(text(guest, "open('a').read(), open('/tmp/a').read(), x"), "('2', '1', 1)");
    let kept = guest.snapshot().unwrap();
    text(guest, "open('a', 'w').write('3')\nx = 2");
    guest.undo(1).unwrap();
    assert_eq!(text(guest, "open('a').read(), x"), "('3', 1)");
    guest.roll_back_to(kept.as_ref()).unwrap();
    assert_eq!(text(guest, "open('a').read(), x"), "('3', 1)");
}

#[test]
fn a_guest_that_wakes_has_its_files_again() {
    let directory = TempDir::new().unwrap();
    let spec = Arc::new(on_disk(&directory));
    let mut guest = engine().boot(Arc::clone(&spec)).unwrap();
    text(guest.as_mut(), "f = open('log', 'w+')\nf.write('one ')\nf.flush()");
    let saved = guest.snapshot().unwrap().save().unwrap();
    drop(guest);
    let snapshot = engine().restore(saved).unwrap();
    let mut guest = engine().resume(snapshot.as_ref(), spec, Descent::Same).unwrap();
    assert_eq!(text(guest.as_mut(), "f.write('two')\nf.flush()\nopen('log').read()"), "'one two'");
    let memory = Arc::new(GuestSpec::default());
    assert!(engine().resume(snapshot.as_ref(), memory, Descent::Same).is_err(), "its files are elsewhere");
}

#[test]
fn a_fork_works_in_its_own_directory() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut parent = boot(on_disk(&first));
    text(
        parent.as_mut(),
        "f = open('log', 'w+')\nf.write('one ')\nf.flush()\ng = open('gone', 'w+')\ng.write('x')\ng.flush()",
    );
    let snapshot = parent.snapshot().unwrap();
    // As whoever forks does.
    std::fs::copy(first.path().join("log"), second.path().join("log")).unwrap();
    let mut child =
        engine().resume(snapshot.as_ref(), Arc::new(on_disk(&second)), Descent::Child(1)).unwrap();
    text(child.as_mut(), "f.write('child')\nf.flush()\nopen('new', 'w').write('new')");
    assert_eq!(fails(child.as_mut(), "g.write('y')\ng.flush()"), "EIO");
    text(parent.as_mut(), "f.write('parent')\nf.flush()");
    assert_eq!(tree(first.path())["log"], "one parent");
    assert_eq!(tree(second.path())["log"], "one child");
    assert!(!tree(first.path()).contains_key("new"));
    // It is taken back to where it was made, in its own directory.
    child.undo(2).unwrap();
    text(child.as_mut(), "f.write('again')\nf.flush()");
    assert_eq!(tree(second.path())["log"], "one again");
}

#[test]
fn a_directory_that_is_not_there_is_an_error_that_says_so() {
    let spec = GuestSpec { storage: Storage::Disk("/nowhere/at/all".into()), ..GuestSpec::default() };
    let Err(error) = engine().boot(Arc::new(spec)) else { panic!("it booted") };
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}
