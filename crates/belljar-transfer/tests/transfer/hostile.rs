//! Archives that want to be elsewhere, or everywhere.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use belljar_files::DirDoor;
use belljar_transfer::{ImportOptions, Imported, Quiet, TransferError, import};
use tar::{EntryType, Header};
use tempfile::{TempDir, tempdir};

use crate::tree::survey;

/// An archive, member by member, with headers that no tool would write.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn member(mut self, kind: EntryType, name: &[u8], target: &[u8], contents: &[u8]) -> Self {
        self.header(kind, name, target, contents.len() as u64);
        self.0.extend_from_slice(contents);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn header(&mut self, kind: EntryType, name: &[u8], target: &[u8], size: u64) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_mtime(1);
        header.set_size(size);
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
    }

    fn file(self, name: &str, contents: &str) -> Self {
        self.member(EntryType::Regular, name.as_bytes(), b"", contents.as_bytes())
    }

    fn link(self, name: &str, target: &str) -> Self {
        self.member(EntryType::Symlink, name.as_bytes(), target.as_bytes(), b"")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    fn into(self, to: &Path, options: &ImportOptions) -> Result<Imported, TransferError> {
        import(&DirDoor::open(to).unwrap(), self.end().as_slice(), options, &Quiet)
    }
}

/// A workspace inside a directory that must stay as it is.
fn workspace() -> (TempDir, std::path::PathBuf) {
    let outer = tempdir().unwrap();
    fs::write(outer.path().join("precious"), "precious").unwrap();
    let workspace = outer.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    (outer, workspace)
}

fn assert_outside_is_untouched(outer: &TempDir) {
    assert_eq!(fs::read(outer.path().join("precious")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2);
}

#[test]
fn members_never_lead_out() {
    let (outer, workspace) = workspace();
    let absolute = outer.path().join("precious");
    let names =
        ["../precious", "/tmp/belljar-was-here", "a/../../precious", "./../precious", "..", "/", "", "a//b"];
    let mut archive = Archive::default().file(absolute.to_str().unwrap(), "evil");
    for name in names {
        archive = archive.file(name, "evil");
    }
    let imported = archive.file("fine", "fine").into(&workspace, &ImportOptions::default()).unwrap();
    assert_eq!((imported.files, imported.skipped.total()), (1, names.len() as u64 + 1));
    assert_outside_is_untouched(&outer);
    assert_eq!(survey(&workspace).len(), 1);
    assert!(!Path::new("/tmp/belljar-was-here").exists());
}

#[test]
fn nothing_is_written_through_a_link() {
    for links_out in [false, true] {
        let (outer, workspace) = workspace();
        let outside = outer.path().to_str().unwrap();
        symlink(outside, workspace.join("old")).unwrap();
        let imported = Archive::default()
            .link("up", "..")
            .file("up/precious", "evil")
            .link("away", outside)
            .file("away/precious", "evil")
            .file("old/precious", "evil")
            .link("precious", "../precious")
            .file("precious", "mine")
            .link("here", ".")
            .file("here/x", "evil")
            .into(&workspace, &ImportOptions { links_out, ..ImportOptions::default() })
            .unwrap();
        assert_outside_is_untouched(&outer);
        // Without the links, their names are free for directories.
        let written = imported.files;
        assert_eq!(written, if links_out { 1 } else { 3 });
        assert_eq!(fs::read(workspace.join("precious")).unwrap(), b"mine");
        assert!(!workspace.join("precious").symlink_metadata().unwrap().is_symlink());
        assert!(!workspace.join("x").exists());
    }
}

#[test]
fn hard_links_become_copies_of_what_is_inside() {
    let (outer, workspace) = workspace();
    symlink(outer.path(), workspace.join("out")).unwrap();
    let hard = |archive: Archive, name: &str, target: &str| {
        archive.member(EntryType::Link, name.as_bytes(), target.as_bytes(), b"")
    };
    let mut archive = Archive::default().file("a", "contents");
    archive = hard(archive, "b", "a");
    for (place, target) in
        ["../precious", "/etc/passwd", "out/precious", "missing", "self4"].iter().enumerate()
    {
        archive = hard(archive, &format!("self{place}"), target);
    }
    let imported = archive.into(&workspace, &ImportOptions::default()).unwrap();
    assert_eq!((imported.files, imported.skipped.total()), (2, 5));
    fs::write(workspace.join("a"), "changed").unwrap();
    assert_eq!(fs::read(workspace.join("b")).unwrap(), b"contents");
    assert_outside_is_untouched(&outer);
}

#[test]
fn devices_pipes_and_unknown_kinds_are_skipped() {
    let (_outer, workspace) = workspace();
    let mut archive = Archive::default();
    for (place, kind) in
        [EntryType::Char, EntryType::Block, EntryType::Fifo, EntryType::new(b'Z')].iter().enumerate()
    {
        archive = archive.member(*kind, format!("special{place}").as_bytes(), b"", b"");
    }
    let archive = archive.member(EntryType::Regular, b"bad\xff", b"", b"x").file("\u{1b}[31mred\n/..", "x");
    let imported = archive.into(&workspace, &ImportOptions::default()).unwrap();
    assert_eq!((imported.files, imported.skipped.total()), (0, 6));
    assert!(survey(&workspace).is_empty());
    for skipped in imported.skipped.iter() {
        assert!(!skipped.path.contains(char::is_control), "{:?}", skipped.path);
    }
}

#[test]
fn privileged_modes_are_not_taken_over() {
    use std::os::unix::fs::PermissionsExt;
    let (_outer, workspace) = workspace();
    Archive::default().file("setuid", "x").into(&workspace, &ImportOptions::default()).unwrap();
    let mode = fs::metadata(workspace.join("setuid")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7000, 0);
    assert_ne!(mode & 0o100, 0);
}

#[test]
fn reserved_names_are_not_written() {
    let (_outer, workspace) = workspace();
    let archive =
        Archive::default().file(".belljar-sync.json", "{}").file("d/.belljar-part-0123456789abcdef", "x");
    let imported = archive.into(&workspace, &ImportOptions::default()).unwrap();
    assert_eq!((imported.files, imported.skipped.total()), (0, 2));
}

#[test]
fn bombs_are_stopped_at_the_limit() {
    let (_outer, workspace) = workspace();
    let door = DirDoor::open(&workspace).unwrap();
    // 1 TB of zeros, as far as the header says; the body doesn't matter.
    let mut archive = Archive::default();
    archive.header(EntryType::Regular, b"bomb", b"", 1 << 40);
    let error = import(&door, archive.0.as_slice(), &ImportOptions::default(), &Quiet).unwrap_err();
    assert!(matches!(error, TransferError::TooMuch { what: "bytes", .. }), "{error}");

    // Members that are skipped count, too.
    let mut archive = Archive::default();
    archive.header(EntryType::Regular, b"../bomb", b"", 1 << 40);
    let error = import(&door, archive.0.as_slice(), &ImportOptions::default(), &Quiet).unwrap_err();
    assert!(matches!(error, TransferError::TooMuch { what: "bytes", .. }), "{error}");

    let mut archive = Archive::default();
    for number in 0..20 {
        archive = archive.file(&number.to_string(), "x");
    }
    let options = ImportOptions { most_files: 10, ..ImportOptions::default() };
    let error = archive.into(&workspace, &options).unwrap_err();
    assert!(matches!(error, TransferError::TooMuch { what: "members", most: 10, .. }), "{error}");

    // Copies by hard links are bytes as well.
    let mut archive = Archive::default().file("a", &"x".repeat(1000));
    for number in 0..20 {
        archive = archive.member(EntryType::Link, format!("l{number}").as_bytes(), b"a", b"");
    }
    let options = ImportOptions { most_bytes: 5_000, ..ImportOptions::default() };
    let error = archive.into(&workspace, &options).unwrap_err();
    assert!(matches!(error, TransferError::TooMuch { what: "bytes", .. }), "{error}");
}

#[test]
fn headers_that_want_much_memory_are_damage() {
    let (_outer, workspace) = workspace();
    let door = DirDoor::open(&workspace).unwrap();
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader]
    {
        let mut archive = Archive::default();
        archive.header(kind, b"long", b"", 1 << 40);
        let error = import(&door, archive.0.as_slice(), &ImportOptions::default(), &Quiet).unwrap_err();
        assert!(
            matches!(&error, TransferError::Damaged { reason, .. } if reason.contains("bytes")),
            "{error}"
        );
    }
    let mut archive = Archive::default();
    for _ in 0..100_000 {
        archive = archive.member(EntryType::XGlobalHeader, b"g", b"", b"");
    }
    let error = archive.into(&workspace, &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, TransferError::Damaged { .. }), "{error}");
}

#[test]
fn sizes_and_names_in_extensions_are_checked_like_others() {
    let (outer, workspace) = workspace();
    let record = |key: &str, value: &str| {
        let rest = format!(" {key}={value}\n");
        let length = (1..).find(|length: &usize| length.to_string().len() + rest.len() == *length).unwrap();
        format!("{length}{rest}")
    };
    let extension = |text: String, then: Archive| {
        let before = Archive::default().member(EntryType::XHeader, b"x", b"", text.as_bytes());
        Archive([before.0, then.0].concat())
    };
    let evil = extension(record("path", "../precious"), Archive::default().file("innocent", "evil"));
    let imported = evil.into(&workspace, &ImportOptions::default()).unwrap();
    assert_eq!((imported.files, imported.skipped.total()), (0, 1));
    assert_outside_is_untouched(&outer);

    let huge = extension(record("size", "99999999999999"), Archive::default().file("a", "a"));
    let error = huge.into(&workspace, &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, TransferError::TooMuch { .. }), "{error}");

    let nonsense = extension(record("size", "-1"), Archive::default().file("a", "a"));
    assert!(nonsense.into(&workspace, &ImportOptions::default()).is_err());
}

#[test]
fn what_is_no_archive_is_an_error() {
    let (_outer, workspace) = workspace();
    let door = DirDoor::open(&workspace).unwrap();
    let mut hungry = Vec::new();
    let mut encoder = zstd::Encoder::new(&mut hungry, 3).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.window_log(30).unwrap();
    encoder.write_all(&Archive::default().file("a", "a").end()).unwrap();
    encoder.finish().unwrap();
    let whole = Archive::default().file("a", &"a".repeat(5000)).0;
    let nothing: [&[u8]; 7] =
        [b"", b"x", &[b'x'; 2000], &[0x28, 0xb5, 0x2f, 0xfd, 1, 2], &[0x1f, 0x8b, 1], &hungry, &whole];
    for bytes in nothing {
        let error = import(&door, bytes, &ImportOptions::default(), &Quiet).unwrap_err();
        assert!(matches!(error, TransferError::Damaged { .. }), "{error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn of_two_members_with_one_name_the_last_wins_and_kinds_do_not_change() {
    let (_outer, workspace) = workspace();
    let archive = Archive::default()
        .file("a", "one")
        .file("a", "two")
        .file("d/x", "x")
        .file("d", "not a directory")
        .file("f", "file")
        .member(EntryType::Directory, b"f/", b"", b"")
        .file("f/x", "x");
    let imported = archive.into(&workspace, &ImportOptions::default()).unwrap();
    assert_eq!((imported.files, imported.skipped.total()), (4, 3));
    assert_eq!(fs::read(workspace.join("a")).unwrap(), b"two");
    assert_eq!(fs::read(workspace.join("f")).unwrap(), b"file");
    assert_eq!(fs::read(workspace.join("d/x")).unwrap(), b"x");
}
