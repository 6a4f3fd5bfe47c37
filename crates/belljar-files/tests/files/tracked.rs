//! Cells that worked on a directory of the host are listed and taken back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use belljar_files::{PutBack, Tracked, TrackedSettings};
use tempfile::TempDir;

use crate::scratch;

/// A workspace and what belongs to it.
pub(crate) struct Workspace {
    pub(crate) directory: TempDir,
    pub(crate) vault: TempDir,
    pub(crate) tracked: Tracked,
    cell: u32,
}

pub(crate) fn settings() -> TrackedSettings {
    let ignored = vec![".skills/system".to_owned()];
    TrackedSettings { ignored, undo: 8, most_file: 1 << 20, most_total: 8 << 20, keep: true }
}

impl Workspace {
    pub(crate) fn new(settings: TrackedSettings, prepare: impl FnOnce(&Path)) -> Self {
        let (directory, vault) = (scratch(), scratch());
        prepare(directory.path());
        let opened = fs::File::open(directory.path()).unwrap();
        let tracked = Tracked::open(opened.into(), &vault.path().join("vault"), settings).unwrap();
        Self { directory, vault, tracked, cell: 0 }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Runs a cell, and returns what it changed: created, modified, deleted.
    pub(crate) fn cell(&mut self, cell: impl FnOnce(&Path)) -> [Vec<String>; 3] {
        self.tracked.begin().unwrap();
        cell(self.directory.path());
        let changes = self.tracked.finish().unwrap();
        self.cell += 1;
        self.tracked.keep(self.cell);
        assert!(!changes.truncated);
        [changes.created, changes.modified, changes.deleted]
    }

    /// Runs a cell that fails.
    fn taken_back(&mut self, cell: impl FnOnce(&Path)) -> PutBack {
        self.tracked.begin().unwrap();
        cell(self.directory.path());
        self.tracked.roll_back().unwrap()
    }
}

/// All that there is, but for what is in directories of package managers.
pub(crate) fn picture(directory: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let what = if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_vec()
            } else if metadata.is_dir() {
                waiting.push(path.clone());
                b"directory".to_vec()
            } else if metadata.is_file() {
                let contents = fs::read(&path).unwrap();
                [&metadata.mtime().to_le_bytes()[..], &metadata.mtime_nsec().to_le_bytes(), &contents]
                    .concat()
            } else {
                b"special".to_vec()
            };
            found.insert(path.strip_prefix(directory).unwrap().to_owned(), (metadata.mode(), what));
        }
    }
    found
}

fn done(put: &PutBack) {
    assert_eq!((put.failed.len(), put.failed_count), (0, 0), "{:?}", put.failed);
}

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn a_cell_is_told_by_the_files_that_it_changed() {
    let mut workspace = Workspace::new(settings(), |root| {
        fs::create_dir(root.join("inner")).unwrap();
        for name in ["modified", "deleted", "inner/moved", "attributes"] {
            fs::write(root.join(name), name).unwrap();
        }
    });
    assert_eq!(workspace.cell(|_| {}), [none(), none(), none()]);
    let changes = workspace.cell(|root| {
        fs::write(root.join("created"), "a").unwrap();
        fs::write(root.join("modified"), "a").unwrap();
        fs::remove_file(root.join("deleted")).unwrap();
        fs::rename(root.join("inner"), root.join("outer")).unwrap();
        fs::write(root.join("brief"), "a").unwrap();
        fs::remove_file(root.join("brief")).unwrap();
        fs::set_permissions(root.join("attributes"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("/etc/passwd", root.join("link")).unwrap();
    });
    assert_eq!(changes[0], ["created", "link", "outer/moved"]);
    assert_eq!(changes[1], ["modified"]);
    assert_eq!(changes[2], ["deleted", "inner/moved"]);
    assert_eq!(workspace.cell(|_| {}), [none(), none(), none()]);
}

#[test]
fn what_others_do_between_cells_is_no_cells() {
    let mut workspace = Workspace::new(settings(), |_| {});
    workspace.cell(|root| fs::write(root.join("cells"), "a").unwrap());
    fs::write(workspace.path("peoples"), "a").unwrap();
    let put = workspace.taken_back(|root| {
        fs::write(root.join("peoples"), "b").unwrap();
        fs::remove_file(root.join("cells")).unwrap();
    });
    done(&put);
    assert_eq!(fs::read(workspace.path("peoples")).unwrap(), b"a");
    assert_eq!(workspace.cell(|_| {}), [none(), none(), none()]);
    done(&workspace.tracked.undo_to(1).unwrap());
    assert_eq!(fs::read(workspace.path("peoples")).unwrap(), b"a");
    assert!(!workspace.path("cells").exists());
}

#[test]
fn a_cell_that_fails_leaves_nothing_behind() {
    let mut workspace = Workspace::new(settings(), |root| {
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "one").unwrap();
        fs::write(root.join("large"), vec![7; 300_000]).unwrap();
        fs::write(root.join("linked"), "one").unwrap();
        fs::hard_link(root.join("linked"), root.join("a/linked")).unwrap();
        symlink("nowhere", root.join("link")).unwrap();
        fs::write(root.join("executable"), "one").unwrap();
        fs::set_permissions(root.join("executable"), fs::Permissions::from_mode(0o755)).unwrap();
    });
    workspace.cell(|_| {});
    let before = picture(workspace.directory.path());
    let put = workspace.taken_back(|root| {
        fs::rename(root.join("a"), root.join("moved")).unwrap();
        fs::write(root.join("moved/b/file"), "two").unwrap();
        fs::write(root.join("a"), "a file now").unwrap();
        fs::write(root.join("large"), "small").unwrap();
        // By one name; the other has it too.
        fs::write(root.join("moved/linked"), "two").unwrap();
        fs::remove_file(root.join("link")).unwrap();
        fs::create_dir(root.join("link")).unwrap();
        fs::write(root.join("link/inside"), "two").unwrap();
        fs::set_permissions(root.join("executable"), fs::Permissions::from_mode(0o600)).unwrap();
    });
    done(&put);
    assert_eq!(picture(workspace.directory.path()), before);
    assert_eq!(workspace.cell(|_| {}), [none(), none(), none()]);
}

#[test]
fn cells_are_undone_as_far_as_they_are_remembered() {
    let mut workspace = Workspace::new(TrackedSettings { undo: 3, ..settings() }, |_| {});
    let mut pictures = Vec::new();
    for cell in 1..=6 {
        pictures.push(picture(workspace.directory.path()));
        workspace.cell(|root| {
            fs::write(root.join("file"), format!("{cell}")).unwrap();
            fs::write(root.join(format!("file{cell}")), "a").unwrap();
            let _ = fs::remove_file(root.join(format!("file{}", cell - 2)));
        });
    }
    assert_eq!(workspace.tracked.undoable().collect::<Vec<_>>(), [4, 5, 6]);
    assert_eq!(workspace.tracked.undo_to(3).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    done(&workspace.tracked.undo_to(6).unwrap());
    assert_eq!(picture(workspace.directory.path()), pictures[5]);
    done(&workspace.tracked.undo_to(4).unwrap());
    assert_eq!(picture(workspace.directory.path()), pictures[3]);
    assert_eq!(workspace.tracked.undoable().count(), 0);
}

#[test]
fn files_of_others_in_a_cells_directory_survive_its_undoing() {
    let mut workspace = Workspace::new(settings(), |_| {});
    workspace.cell(|root| {
        fs::create_dir(root.join("new")).unwrap();
        fs::write(root.join("new/cells"), "a").unwrap();
    });
    fs::write(workspace.path("new/peoples"), "a").unwrap();
    let put = workspace.tracked.undo_to(1).unwrap();
    assert_eq!(put.failed, ["new"]);
    assert!(workspace.path("new/peoples").exists());
    assert!(!workspace.path("new/cells").exists());
}

#[test]
fn what_was_too_large_to_keep_is_told() {
    let limits = TrackedSettings { most_file: 1000, ..settings() };
    let mut workspace = Workspace::new(limits, |root| {
        fs::write(root.join("large"), vec![1; 100_000]).unwrap();
        fs::write(root.join("small"), vec![1; 1000]).unwrap();
    });
    workspace.cell(|_| {});
    let put = workspace.taken_back(|root| {
        fs::write(root.join("large"), "a").unwrap();
        fs::write(root.join("small"), "a").unwrap();
    });
    assert_eq!((put.failed, put.failed_count, put.put), (vec!["large".to_owned()], 1, 1));
    assert_eq!(fs::read(workspace.path("small")).unwrap(), vec![1; 1000]);
}

#[test]
fn old_cells_make_room_for_the_next() {
    let limits = TrackedSettings { most_total: 250_000, ..settings() };
    let mut workspace = Workspace::new(limits, |_| {});
    for cell in 1..=5_u8 {
        workspace.cell(|root| fs::write(root.join("file"), vec![cell; 100_000]).unwrap());
    }
    assert!(workspace.tracked.undoable().count() < 5);
    let put = workspace.taken_back(|root| fs::write(root.join("file"), "a").unwrap());
    done(&put);
    assert_eq!(fs::read(workspace.path("file")).unwrap(), vec![5; 100_000]);
}

#[test]
fn without_keeping_changes_are_still_told() {
    let mut workspace = Workspace::new(TrackedSettings { keep: false, ..settings() }, |root| {
        fs::write(root.join("file"), "a").unwrap();
    });
    assert_eq!(workspace.cell(|root| fs::write(root.join("file"), "b").unwrap())[1], ["file"]);
    assert_eq!(workspace.tracked.undoable().count(), 0);
}

#[test]
fn installed_packages_count_but_are_neither_listed_nor_taken_back() {
    let mut workspace = Workspace::new(settings(), |root| {
        fs::create_dir_all(root.join("project/node_modules/a")).unwrap();
    });
    let before = workspace.tracked.usage();
    let changes = workspace.cell(|root| {
        fs::create_dir_all(root.join(".venv/lib")).unwrap();
        fs::write(root.join(".venv/lib/module.py"), vec![1; 8192]).unwrap();
        fs::write(root.join("project/node_modules/a/index.js"), vec![1; 8192]).unwrap();
    });
    assert_eq!(changes, [none(), none(), none()]);
    let after = workspace.tracked.usage();
    assert_eq!(after.files, before.files + 4);
    assert!(after.bytes >= before.bytes + 16384);
    let put = workspace.taken_back(|root| {
        fs::write(root.join("project/node_modules/a/index.js"), "a").unwrap();
        fs::remove_dir_all(root.join(".venv")).unwrap();
    });
    assert_eq!(put.failed, [".venv"]);
    assert_eq!(fs::read(workspace.path("project/node_modules/a/index.js")).unwrap(), b"a");
    // A cell that made one and is undone leaves none.
    done(&workspace.tracked.undo_to(1).unwrap());
    assert!(!workspace.path(".venv").exists());
}

#[test]
fn what_mounts_hide_is_left_alone() {
    let mut workspace = Workspace::new(settings(), |_| {});
    workspace.cell(|_| {});
    let changes = workspace.cell(|root| {
        fs::create_dir_all(root.join(".skills/system/skill")).unwrap();
        fs::write(root.join(".skills/system/skill/SKILL.md"), "a").unwrap();
        fs::write(root.join(".skills/own"), "a").unwrap();
    });
    assert_eq!(changes, [vec![".skills/own".to_owned()], none(), none()]);
    workspace.tracked.undo_to(1).unwrap();
    assert!(workspace.path(".skills/system/skill/SKILL.md").exists());
    assert!(!workspace.path(".skills/own").exists());
}

#[test]
fn closed_directories_deep_trees_and_special_files_do_not_stop_a_roll_back() {
    let mut workspace = Workspace::new(settings(), |root| {
        fs::create_dir_all(root.join("open/inner")).unwrap();
        fs::write(root.join("open/inner/file"), "one").unwrap();
        fs::create_dir(root.join("closed")).unwrap();
        fs::write(root.join("closed/file"), "one").unwrap();
    });
    workspace.cell(|_| {});
    let before = picture(workspace.directory.path());
    let put = workspace.taken_back(|root| {
        fs::write(root.join("open/inner/file"), "two").unwrap();
        fs::write(root.join("open/inner/new"), "two").unwrap();
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(root.join("open/inner"), closed.clone()).unwrap();
        fs::set_permissions(root.join("open"), closed.clone()).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("closed/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        fs::remove_file(root.join("closed/file")).unwrap();
        symlink("/", root.join("closed/file")).unwrap();
        let mut deep = fs::File::open(root).unwrap();
        for _ in 0..3000 {
            let mode = rustix::fs::Mode::from_raw_mode(0o700);
            rustix::fs::mkdirat(&deep, "d", mode).unwrap();
            let flags = rustix::fs::OFlags::RDONLY;
            deep = rustix::fs::openat(&deep, "d", flags, rustix::fs::Mode::empty()).unwrap().into();
        }
        fs::create_dir(root.join("sealed")).unwrap();
        fs::create_dir(root.join("sealed/inner")).unwrap();
        fs::write(root.join("sealed/inner/file"), "a").unwrap();
        fs::set_permissions(root.join("sealed/inner"), closed.clone()).unwrap();
        fs::set_permissions(root.join("sealed"), closed).unwrap();
    });
    done(&put);
    assert_eq!(picture(workspace.directory.path()), before);
}

#[test]
fn a_link_in_place_of_a_directory_leads_nothing_out_of_the_tree() {
    let elsewhere = scratch();
    fs::write(elsewhere.path().join("file"), "precious").unwrap();
    let mut workspace = Workspace::new(settings(), |root| {
        fs::create_dir(root.join("directory")).unwrap();
        fs::write(root.join("directory/file"), "one").unwrap();
    });
    workspace.cell(|_| {});
    let put = workspace.taken_back(|root| {
        fs::remove_dir_all(root.join("directory")).unwrap();
        symlink(elsewhere.path(), root.join("directory")).unwrap();
    });
    done(&put);
    assert_eq!(fs::read(elsewhere.path().join("file")).unwrap(), b"precious");
    assert_eq!(fs::read(workspace.path("directory/file")).unwrap(), b"one");
    assert!(!workspace.path("directory").is_symlink());
}

#[test]
fn a_file_that_is_also_elsewhere_is_not_written_through() {
    let elsewhere = scratch();
    let mut workspace = Workspace::new(settings(), |root| fs::write(root.join("file"), "one").unwrap());
    workspace.cell(|_| {});
    let outside = elsewhere.path().join("outside");
    let put = workspace.taken_back(|root| {
        fs::remove_file(root.join("file")).unwrap();
        fs::write(&outside, "precious").unwrap();
        fs::hard_link(&outside, root.join("file")).unwrap();
    });
    done(&put);
    assert_eq!(fs::read(outside).unwrap(), b"precious");
    assert_eq!(fs::read(workspace.path("file")).unwrap(), b"one");
}

#[test]
fn holes_are_neither_counted_nor_filled() {
    let mut workspace = Workspace::new(settings(), |root| {
        fs::File::create(root.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    });
    workspace.cell(|_| {});
    assert!(workspace.tracked.usage().bytes < 1 << 20);
    let put = workspace.taken_back(|root| fs::write(root.join("sparse"), "a").unwrap());
    done(&put);
    let metadata = fs::metadata(workspace.path("sparse")).unwrap();
    assert_eq!(metadata.len(), 1 << 40);
    assert!(metadata.blocks() < 2048);
}

#[test]
fn names_that_are_no_text_are_taken_back() {
    let name = OsString::from_vec(vec![0xff, b'\n', b'a']);
    let mut workspace = Workspace::new(settings(), |root| fs::write(root.join(&name), "one").unwrap());
    workspace.cell(|_| {});
    let before = picture(workspace.directory.path());
    let put = workspace.taken_back(|root| {
        fs::remove_file(root.join(&name)).unwrap();
        fs::write(root.join(OsString::from_vec(vec![0xfe])), "two").unwrap();
    });
    done(&put);
    assert_eq!(picture(workspace.directory.path()), before);
}

#[test]
fn usage_is_what_is_there() {
    let mut workspace = Workspace::new(settings(), |_| {});
    workspace.tracked.begin().unwrap();
    assert_eq!(workspace.tracked.usage().files, 0);
    fs::create_dir(workspace.path("directory")).unwrap();
    fs::write(workspace.path("directory/file"), vec![1; 1 << 20]).unwrap();
    let usage = workspace.tracked.poll().unwrap();
    assert_eq!(usage.files, 2);
    assert!((1 << 20..2 << 20).contains(&usage.bytes));
    // A second name takes up nothing.
    fs::hard_link(workspace.path("directory/file"), workspace.path("other")).unwrap();
    let usage = workspace.tracked.poll().unwrap();
    assert_eq!(usage.files, 3);
    assert!((1 << 20..2 << 20).contains(&usage.bytes));
    fs::remove_dir_all(workspace.path("directory")).unwrap();
    fs::remove_file(workspace.path("other")).unwrap();
    let usage = workspace.tracked.poll().unwrap();
    assert_eq!((usage.bytes, usage.files, usage.complete), (0, 0, true));
    // What nobody can look into isn't taken for nothing.
    let mut deep = workspace.path("deep");
    fs::create_dir(&deep).unwrap();
    for _ in 0..200 {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    assert!(!workspace.tracked.poll().unwrap().complete);
    assert!(workspace.tracked.moment().is_err());
    workspace.tracked.roll_back().unwrap();
    assert!(workspace.tracked.poll().unwrap().complete);
}

#[test]
fn times_that_were_set_back_hide_nothing() {
    let mut workspace = Workspace::new(settings(), |root| fs::write(root.join("file"), "one").unwrap());
    workspace.cell(|_| {});
    let modified = fs::metadata(workspace.path("file")).unwrap().modified().unwrap();
    let forge = |root: &Path| {
        fs::write(root.join("file"), "two").unwrap();
        fs::File::options().write(true).open(root.join("file")).unwrap().set_modified(modified).unwrap();
    };
    done(&workspace.taken_back(forge));
    assert_eq!(fs::read(workspace.path("file")).unwrap(), b"one");
    assert_eq!(workspace.cell(forge)[1], ["file"]);
}

#[test]
fn a_vault_is_gone_with_its_session_and_those_of_dead_ones_with_the_next() {
    let mut workspace =
        Workspace::new(settings(), |root| fs::write(root.join("file"), vec![1; 100_000]).unwrap());
    workspace.cell(|_| {});
    let vault = workspace.vault.path().join("vault");
    assert_eq!(fs::read_dir(&vault).unwrap().count(), 1);
    let stale = vault.join("0123-4");
    fs::create_dir(&stale).unwrap();
    fs::write(stale.join("0"), "a").unwrap();
    let opened = fs::File::open(workspace.directory.path()).unwrap();
    let other = Tracked::open(opened.into(), &vault, settings()).unwrap();
    assert!(!stale.exists());
    assert_eq!(fs::read_dir(&vault).unwrap().count(), 2);
    drop(other);
    assert_eq!(fs::read_dir(&vault).unwrap().count(), 1);
    drop(workspace.tracked);
    assert_eq!(fs::read_dir(&vault).unwrap().count(), 0);
}

#[test]
fn a_directory_that_was_moved_comes_back_with_all_that_is_not_kept() {
    let limits = TrackedSettings { most_file: 1000, ..settings() };
    let mut workspace = Workspace::new(limits, |root| {
        fs::create_dir_all(root.join("project/node_modules/a")).unwrap();
        fs::write(root.join("project/node_modules/a/index.js"), "one").unwrap();
        fs::write(root.join("project/large"), vec![1; 100_000]).unwrap();
        fs::write(root.join("project/small"), "one").unwrap();
        fs::write(root.join("large"), vec![2; 100_000]).unwrap();
        fs::create_dir_all(root.join("other/inner")).unwrap();
        fs::write(root.join("other/inner/large"), vec![3; 100_000]).unwrap();
    });
    workspace.cell(|_| {});
    let before = picture(workspace.directory.path());
    let put = workspace.taken_back(|root| {
        fs::rename(root.join("project"), root.join("moved")).unwrap();
        fs::write(root.join("moved/new"), "two").unwrap();
        fs::write(root.join("moved/small"), "two").unwrap();
        // Something else is in its place, and something in that.
        fs::rename(root.join("other/inner"), root.join("project")).unwrap();
        fs::rename(root.join("other"), root.join("project/other")).unwrap();
        fs::write(root.join("project/other/new"), "two").unwrap();
        fs::rename(root.join("large"), root.join("moved/elsewhere")).unwrap();
    });
    done(&put);
    assert_eq!(picture(workspace.directory.path()), before);
    assert_eq!(workspace.cell(|_| {}), [none(), none(), none()]);
}

#[test]
fn a_file_that_is_changed_by_another_of_its_names_is_put_back() {
    let mut workspace = Workspace::new(settings(), |root| fs::write(root.join("file"), "one").unwrap());
    workspace.cell(|_| {});
    let before = picture(workspace.directory.path());
    let change = |root: &Path| {
        fs::hard_link(root.join("file"), root.join("name")).unwrap();
        fs::write(root.join("name"), "two").unwrap();
    };
    done(&workspace.taken_back(change));
    assert_eq!(picture(workspace.directory.path()), before);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(workspace.cell(change), [names(&["name"]), names(&["file"]), none()]);
    let changes = workspace.cell(|root| {
        fs::write(root.join("name"), "three").unwrap();
        fs::remove_file(root.join("name")).unwrap();
    });
    assert_eq!(changes, [none(), names(&["file"]), names(&["name"])]);
    done(&workspace.tracked.undo_to(1).unwrap());
    assert_eq!(picture(workspace.directory.path()), before);
}

#[test]
fn what_can_not_be_read_is_told_and_the_rest_is_put_back() {
    let mut workspace = Workspace::new(settings(), |root| {
        for name in ["readable", "unreadable"] {
            fs::write(root.join(name), "one").unwrap();
        }
        fs::set_permissions(root.join("unreadable"), fs::Permissions::from_mode(0o000)).unwrap();
    });
    let readable = fs::File::open(workspace.path("unreadable")).is_ok();
    assert_eq!(workspace.tracked.moment().is_ok(), readable);
    let put = workspace.taken_back(|root| {
        fs::remove_file(root.join("unreadable")).unwrap();
        fs::remove_file(root.join("readable")).unwrap();
    });
    assert_eq!(put.failed.is_empty(), readable);
    assert_eq!(workspace.path("unreadable").exists(), readable);
    assert_eq!(fs::read(workspace.path("readable")).unwrap(), b"one");
}

#[test]
fn a_thousand_and_more_failures_are_counted_and_listed_within_bounds() {
    let limits = TrackedSettings { most_file: 1, ..settings() };
    let mut workspace = Workspace::new(limits, |root| {
        for number in 0..1500 {
            fs::write(root.join(format!("{number}")), "too large").unwrap();
        }
    });
    let put = workspace.taken_back(|root| {
        for number in 0..1500 {
            fs::write(root.join(format!("{number}")), "a").unwrap();
        }
    });
    assert_eq!((put.failed.len(), put.failed_count), (1000, 1500));
}

#[test]
fn a_list_of_changes_ends_somewhere() {
    let mut workspace = Workspace::new(settings(), |_| {});
    workspace.tracked.begin().unwrap();
    for number in 0..10_001 {
        fs::write(workspace.path(&format!("{number}")), "").unwrap();
    }
    let changes = workspace.tracked.finish().unwrap();
    assert_eq!(changes.created.len(), 10_000);
    assert!(changes.truncated);
    done(&workspace.tracked.roll_back().unwrap());
    assert_eq!(picture(workspace.directory.path()), BTreeMap::new());
}

#[test]
fn a_tracked_workspace_can_be_asked_from_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let workspace = Workspace::new(settings(), |_| {});
    is_send(&workspace.tracked);
}

/// Where the process that the next test starts finds its vault.
const VAULT: &str = "BELLJAR_TEST_VAULT";

#[test]
fn another_process_keeps_its_vault_until_it_dies() {
    let (directory, vault) = (scratch(), scratch());
    fs::write(directory.path().join("file"), vec![1; 100_000]).unwrap();
    let open = |vault: &Path| {
        let opened = fs::File::open(directory.path()).unwrap();
        Tracked::open(opened.into(), vault, settings()).unwrap()
    };
    if let Some(vault) = std::env::var_os(VAULT) {
        let mut tracked = open(Path::new(&vault));
        tracked.begin().unwrap();
        fs::write(Path::new(&vault).join("../ready"), "").unwrap();
        // Until it is killed.
        loop {
            std::thread::park();
        }
    }
    let place = vault.path().join("vault");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tracked::another_process_keeps_its_vault_until_it_dies"])
        .env(VAULT, &place)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !vault.path().join("ready").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(open(&place));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(open(&place));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}
