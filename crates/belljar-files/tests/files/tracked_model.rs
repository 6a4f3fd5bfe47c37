//! Random cells, taken back and undone, leave what a copy of the tree says.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_files::{Moment, TreeChanges};
use proptest::prelude::*;

use crate::tracked::{Workspace, picture, settings};

type Picture = BTreeMap<PathBuf, (u32, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Change {
    Write(String, u8, usize),
    Append(String, u8),
    MakeDirectory(String),
    Remove(String),
    Rename(String, String),
    Link(String, String),
    Symlink(String, String),
    SetMode(String, bool),
    SetTime(String),
}

#[derive(Clone, Debug)]
enum Step {
    Cell(Vec<Change>),
    PolledCell(Vec<Change>, Vec<Change>),
    FailedCell(Vec<Change>),
    Others(Vec<Change>),
    Undo(usize),
    Moment,
    Restore,
}

fn place() -> impl Strategy<Value = String> {
    let name = prop_oneof![4 => Just("a"), 3 => Just("b"), 2 => Just("c-"), 1 => Just("d")];
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn change() -> impl Strategy<Value = Change> {
    let size = prop_oneof![4 => 0..20_usize, 1 => 60_000..70_000_usize];
    prop_oneof![
        5 => (place(), any::<u8>(), size).prop_map(|(path, byte, size)| Change::Write(path, byte, size)),
        1 => (place(), any::<u8>()).prop_map(|(path, byte)| Change::Append(path, byte)),
        4 => place().prop_map(Change::MakeDirectory),
        2 => place().prop_map(Change::Remove),
        4 => (place(), place()).prop_map(|(from, to)| Change::Rename(from, to)),
        2 => (place(), place()).prop_map(|(from, to)| Change::Link(from, to)),
        1 => (place(), place()).prop_map(|(target, path)| Change::Symlink(target, path)),
        1 => (place(), any::<bool>()).prop_map(|(path, wide)| Change::SetMode(path, wide)),
        1 => place().prop_map(Change::SetTime),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let changes = || prop::collection::vec(change(), 0..8);
    prop_oneof![
        4 => changes().prop_map(Step::Cell),
        2 => (changes(), changes()).prop_map(|(one, two)| Step::PolledCell(one, two)),
        3 => changes().prop_map(Step::FailedCell),
        1 => changes().prop_map(Step::Others),
        2 => (0..4_usize).prop_map(Step::Undo),
        1 => Just(Step::Moment),
        1 => Just(Step::Restore),
    ]
}

fn apply(root: &Path, changes: &[Change]) {
    for change in changes {
        let _ = match change {
            Change::Write(path, byte, size) => fs::write(root.join(path), vec![*byte; *size]),
            Change::Append(path, byte) => fs::File::options()
                .append(true)
                .open(root.join(path))
                .and_then(|mut file| std::io::Write::write_all(&mut file, &[*byte])),
            Change::MakeDirectory(path) => fs::create_dir_all(root.join(path)),
            // A name that comes and goes between two looks hides what is done by it: that is said to be so.
            Change::Remove(path) | Change::Rename(_, path) if has_other_names(&root.join(path)) => Ok(()),
            Change::Remove(path) => {
                fs::remove_file(root.join(path)).or_else(|_| fs::remove_dir_all(root.join(path)))
            }
            Change::Rename(from, to) => fs::rename(root.join(from), root.join(to)),
            Change::Link(from, to) => fs::hard_link(root.join(from), root.join(to)),
            Change::Symlink(target, path) => symlink(target, root.join(path)),
            Change::SetMode(path, wide) if !root.join(path).is_symlink() => {
                let mode = if *wide { 0o755 } else { 0o700 };
                fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode))
            }
            Change::SetTime(path) => fs::File::options()
                .write(true)
                .open(root.join(path))
                .and_then(|file| file.set_modified(std::time::UNIX_EPOCH)),
            Change::SetMode(..) => Ok(()),
        };
    }
}

/// Whether there is a file with several names at a path, or below it.
fn has_other_names(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let inside = fs::read_dir(path).into_iter().flatten().flatten();
            inside.into_iter().any(|entry| has_other_names(&entry.path()))
        }
        Ok(metadata) => metadata.nlink() > 1,
        Err(_) => false,
    }
}

/// What a cell should be said to have changed.
fn difference(before: &Picture, after: &Picture) -> TreeChanges {
    let mut changes = TreeChanges::default();
    let directory = |entry: &&(u32, Vec<u8>)| entry.0 & 0o170_000 == 0o040_000;
    for path in before.keys().chain(after.keys()).collect::<std::collections::BTreeSet<_>>() {
        let name = path.to_str().unwrap().to_owned();
        let one = before.get(path).filter(|entry| !directory(entry));
        let two = after.get(path).filter(|entry| !directory(entry));
        match (one, two) {
            (None, Some(_)) => changes.created.push(name),
            (Some(_), None) => changes.deleted.push(name),
            (Some(one), Some(two)) if one.1 != two.1 => changes.modified.push(name),
            _ => {}
        }
    }
    for list in [&mut changes.created, &mut changes.modified, &mut changes.deleted] {
        list.sort();
    }
    changes
}

/// As text; paths are sorted by their bytes.
fn sorted(mut changes: TreeChanges) -> TreeChanges {
    for list in [&mut changes.created, &mut changes.modified, &mut changes.deleted] {
        list.sort();
    }
    changes
}

struct Model {
    workspace: Workspace,
    cell: u32,
    /// Cells that can be undone, and what was there before them.
    before: Vec<(u32, Picture)>,
    moment: Option<(Moment, Picture)>,
}

impl Model {
    fn picture(&self) -> Picture {
        picture(self.workspace.directory.path())
    }

    fn run(&mut self, step: &Step) {
        let root = self.workspace.directory.path().to_owned();
        let before = self.picture();
        match step {
            Step::Cell(changes) | Step::PolledCell(changes, _) => {
                self.workspace.tracked.begin().unwrap();
                apply(&root, changes);
                if let Step::PolledCell(_, more) = step {
                    self.workspace.tracked.poll().unwrap();
                    apply(&root, more);
                }
                let told = sorted(self.workspace.tracked.finish().unwrap());
                assert_eq!(told, difference(&before, &self.picture()));
                self.cell += 1;
                self.workspace.tracked.keep(self.cell);
                self.before.push((self.cell, before));
            }
            Step::FailedCell(changes) => {
                self.workspace.tracked.begin().unwrap();
                apply(&root, changes);
                let put = self.workspace.tracked.roll_back().unwrap();
                assert_eq!(put.failed, Vec::<String>::new());
                assert_eq!(self.picture(), before);
            }
            Step::Others(changes) => {
                apply(&root, changes);
                // What is undone from here on isn't the picture any more.
                self.before.clear();
            }
            Step::Undo(cells) => {
                let Some(place) = self.before.len().checked_sub(1 + cells) else { return };
                if !self.workspace.tracked.undoable().any(|cell| cell == self.before[place].0) {
                    return;
                }
                let (cell, picture) = self.before.swap_remove(place);
                self.before.truncate(place);
                let put = self.workspace.tracked.undo_to(cell).unwrap();
                assert_eq!(put.failed, Vec::<String>::new());
                assert_eq!(self.picture(), picture);
            }
            Step::Moment => self.moment = Some((self.workspace.tracked.moment().unwrap(), before)),
            Step::Restore => {
                let Some((moment, picture)) = &self.moment else { return };
                let put = self.workspace.tracked.restore(moment).unwrap();
                assert_eq!(put.failed, Vec::<String>::new());
                assert_eq!(self.picture(), *picture);
                self.before.clear();
            }
        }
        let usage = self.workspace.tracked.poll().unwrap();
        assert_eq!(usage.files, self.picture().len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn cells_are_told_taken_back_and_undone_as_if_the_tree_had_been_copied(
        start in prop::collection::vec(change(), 0..12),
        steps in prop::collection::vec(step(), 1..12),
    ) {
        let workspace = Workspace::new(settings(), |root| apply(root, &start));
        let mut model = Model { workspace, cell: 0, before: Vec::new(), moment: None };
        for step in &steps {
            model.run(step);
        }
    }
}

#[test]
fn a_tree_that_was_changed_all_the_time_is_put_back() {
    let mut workspace = Workspace::new(settings(), |root| {
        for number in 0..300 {
            let directory = root.join(format!("{}/{}", ["a", "b", "c"][number % 3], number % 7));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(format!("{number}")), format!("{number}")).unwrap();
        }
    });
    let root = workspace.directory.path().to_owned();
    for round in 0..4_u64 {
        workspace.tracked.begin().unwrap();
        let before = picture(&root);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (root, stop) = (&root, &stop);
                scope.spawn(move || disturb(root, round * 2 + thread, stop));
            }
            for _ in 0..50 {
                workspace.tracked.poll().unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let after = picture(&root);
        let told = workspace.tracked.finish().unwrap();
        if !told.truncated {
            assert_eq!(sorted(told), difference(&before, &after));
        }
        let put = workspace.tracked.roll_back().unwrap();
        assert_eq!(put.failed, Vec::<String>::new());
        assert_eq!(picture(&root), before);
    }
}

fn disturb(root: &Path, mut seed: u64, stop: &AtomicBool) {
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    while !stop.load(Ordering::Relaxed) {
        let mut place = || {
            let name = ["a", "b", "c", "1", "2", "30", "31"];
            (0..1 + next(4)).map(|_| name[next(name.len())]).collect::<Vec<_>>().join("/")
        };
        let (one, two) = (place(), place());
        let change = match next(8) {
            0 => Change::Write(one, 7, 30),
            1 | 2 => Change::MakeDirectory(one),
            3 | 4 => Change::Remove(one),
            _ => Change::Rename(one, two),
        };
        apply(root, &[change]);
    }
}
