//! What changed, as an Outcome will list it.

use belljar_files::{Access, Changes, OpenOptions};

use crate::{READ, WRITE, memory, mounted};

fn list(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

#[test]
fn the_net_effect_in_memory_and_in_mounts() {
    let (mut files, root, _host) = mounted(Access::ReadWrite);
    for base in ["/work", "/mount/work"] {
        let at = |name: &str| format!("{base}/{name}");
        files.make_directories(&at("d")).unwrap();
        for name in ["kept", "written", "gone", "target", "d/inner"] {
            files.write_file(&at(name), b"before").unwrap();
        }
        files.take_changes();

        files.write_file(&at("new"), b"").unwrap();
        files.write_file(&at("brief"), b"").unwrap();
        files.unlink_at(root, &at("brief")).unwrap();
        let written = files.open_at(root, &at("written"), WRITE).unwrap();
        files.write(written, 0, b"x").unwrap();
        files.write(written, 1, b"x").unwrap();
        files.unlink_at(root, &at("gone")).unwrap();
        files.write_file(&at("temporary"), b"replaces").unwrap();
        files.rename_at(root, &at("temporary"), root, &at("target")).unwrap();
        files.rename_at(root, &at("d"), root, &at("e")).unwrap();
        files.symlink_at("kept", root, &at("link")).unwrap();
        files.open_at(root, &at("kept"), READ).unwrap();

        let changes = files.take_changes();
        let expected = Changes {
            created: ["e/inner", "link", "new"].map(at).to_vec(),
            modified: ["target", "written"].map(at).to_vec(),
            deleted: ["d/inner", "gone"].map(at).to_vec(),
            truncated: false,
        };
        assert_eq!(changes, expected);

        files.write(written, 0, b"once more").unwrap();
        assert_eq!(files.take_changes().modified, [at("written")]);
        assert_eq!(files.take_changes(), Changes::default());
    }
}

#[test]
fn an_open_file_is_known_by_its_present_name() {
    let (mut files, root) = memory();
    files.make_directories("/a/b").unwrap();
    let file = files.open_at(root, "a/b/f", WRITE).unwrap();
    files.take_changes();
    files.rename_at(root, "a", root, "c").unwrap();
    files.take_changes();
    files.write(file, 0, b"x").unwrap();
    assert_eq!(files.take_changes().modified, list(&["/c/b/f"]));
    files.rename_at(root, "c/b/f", root, "g").unwrap();
    files.take_changes();
    files.write(file, 0, b"x").unwrap();
    assert_eq!(files.take_changes().modified, list(&["/g"]));
    files.unlink_at(root, "g").unwrap();
    files.take_changes();
    files.write(file, 0, b"x").unwrap();
    assert_eq!(files.take_changes(), Changes::default());
}

#[test]
fn emptying_a_file_changes_it() {
    let (mut files, root) = memory();
    files.write_file("/full", b"x").unwrap();
    files.write_file("/empty", b"").unwrap();
    files.take_changes();
    for path in ["full", "empty"] {
        files.open_at(root, path, OpenOptions::writing()).unwrap();
    }
    assert_eq!(files.take_changes().modified, list(&["/full"]));
}

#[test]
fn a_flood_of_changes_is_cut_and_says_so() {
    let (mut files, root) = memory();
    for number in 0..10_100 {
        files.write_file(&format!("/workspace/{number}"), b"").unwrap();
    }
    let changes = files.take_changes();
    assert_eq!(changes.created.len(), 10_000);
    assert!(changes.truncated);
    files.rename_at(root, "workspace", root, "w").unwrap();
    assert!(files.take_changes().truncated);
    files.write_file("/w/0", b"calm again").unwrap();
    let changes = files.take_changes();
    assert_eq!(changes.modified, list(&["/w/0"]));
    assert!(!changes.truncated);
}
