//! Trees to move, and how they are compared.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

/// Something in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File { contents: Vec<u8>, executable: bool, seconds: u64 },
    Directory,
    Link(String),
}

pub(crate) type Tree = BTreeMap<String, Node>;

/// Makes the tree; a name that is a file already can't be a directory, and is left out.
pub(crate) fn plant(root: &Path, tree: &Tree) {
    for (path, node) in tree {
        let path = root.join(path);
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
            continue;
        }
        match node {
            Node::Directory => fs::create_dir(path).unwrap(),
            Node::Link(target) => symlink(target, path).unwrap(),
            Node::File { contents, executable, seconds } => {
                fs::write(&path, contents).unwrap();
                fs::set_permissions(
                    &path,
                    fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 }),
                )
                .unwrap();
                let file = fs::File::open(&path).unwrap();
                file.set_modified(UNIX_EPOCH + Duration::from_secs(*seconds)).unwrap();
            }
        }
    }
}

/// Everything below a directory.
pub(crate) fn survey(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let node = if metadata.is_dir() {
                pending.push(path);
                Node::Directory
            } else if metadata.is_symlink() {
                Node::Link(fs::read_link(path).unwrap().to_string_lossy().into_owned())
            } else if metadata.is_file() {
                let executable = metadata.mode() & 0o100 != 0;
                let seconds = u64::try_from(metadata.mtime()).unwrap();
                Node::File { contents: fs::read(path).unwrap(), executable, seconds }
            } else {
                continue;
            };
            tree.insert(name, node);
        }
    }
    tree
}

/// Trees of a few names, so that they meet each other, and of some that are long or strange.
pub(crate) fn trees() -> impl Strategy<Value = Tree> {
    let name = prop_oneof![
        6 => "[a-d]",
        2 => "[a-zäöü %#+&~@=,;!'\"\\\\-]{1,20}".prop_map(|name| name.replace(['.', '/'], "_")),
        1 => "[xy]{120,200}",
    ];
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let node = prop_oneof![
        5 => (prop::collection::vec(any::<u8>(), 0..3000), any::<bool>(), 0u64..4_000_000_000).prop_map(
            |(contents, executable, seconds)| Node::File { contents, executable, seconds }
        ),
        1 => Just(Node::Directory),
        1 => prop_oneof![Just("a"), Just("b/../c"), Just("./d//e/")].prop_map(|to| Node::Link(to.to_owned())),
        1 => "[pq]{101,300}".prop_map(Node::Link),
    ];
    prop::collection::btree_map(path, node, 0..20)
}
