//! What can be done with files through a door.

use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;

use belljar_engine::{
    ALIASES, FileDoor, FileError, FileErrorCode as Code, FileKind, FileOp, FileReply, MOST_IN_ONE, WriteHow,
};
use belljar_files::operations::{self, FindOptions, GrepOptions, Step};
use belljar_files::{DirDoor, operations::path::workspace_path};
use tempfile::TempDir;

use crate::door::{door, listed, stat};
use crate::scratch;

fn workspace(files: &[(&str, &str)]) -> (TempDir, DirDoor) {
    let host = scratch();
    let door = door(&host);
    let uploaded = operations::upload(&door, files.iter().copied());
    assert!(uploaded.iter().all(|file| file.error.is_none()));
    (host, door)
}

fn code<T: std::fmt::Debug>(result: Result<T, FileError>) -> Code {
    result.unwrap_err().code
}

#[test]
fn what_agents_write_becomes_a_path_of_the_workspace() {
    let path =
        |given: &str| workspace_path(given, "/mnt/r2/bucket/threads/7", &ALIASES).map_err(|error| error.code);
    let good = [
        ("a/b", "a/b"),
        ("a/./b//c/", "a/b/c"),
        ("./a", "a"),
        ("a/../b", "b"),
        ("/mnt/r2/bucket/threads/7/a", "a"),
        ("/workspace/a", "a"),
        ("/session/a/", "a"),
        ("//app//a", "a"),
        ("/app", ""),
        ("/mnt/r2/bucket/threads/7", ""),
        ("~/a", "a"),
        ("~", ""),
        ("", ""),
        (".", ""),
        ("~a", "~a"),
        ("/tmp/../workspace/a", "a"),
        ("a/...", "a/..."),
    ];
    for (given, expected) in good {
        assert_eq!(path(given).as_deref(), Ok(expected), "{given}");
    }
    let long = "x".repeat(300);
    let bad = [
        "..",
        "../a",
        "a/../../b",
        "/etc/passwd",
        "/",
        "/workspaces/a",
        "/workspace/../etc",
        "~/../a",
        "a\0b",
        &long,
    ];
    for given in bad {
        assert_eq!(path(given), Err(Code::InvalidPath), "{given}");
    }
    let error = workspace_path("/etc/passwd", "/workspace", &[]).unwrap_err();
    assert!(error.message.contains("below /workspace"), "{error}");
    // The nearest name counts.
    assert_eq!(workspace_path("/app/deep/a", "/app", &["/app/deep"]).unwrap(), "a");
}

#[test]
fn files_are_read_whole_if_they_are_not_too_large() {
    let (_host, door) = workspace(&[("a", "hello"), ("empty", "")]);
    assert_eq!(operations::read(&door, "a", 5).unwrap(), b"hello");
    assert_eq!(operations::read(&door, "empty", 0).unwrap(), b"");
    assert_eq!(code(operations::read(&door, "a", 4)), Code::TooLarge);
    assert_eq!(operations::read_text(&door, "a", 100).unwrap(), "hello");
    operations::append(&door, "a", &[0xff]).unwrap();
    let error = operations::read_text(&door, "a", 100).unwrap_err();
    assert_eq!((error.code, error.message.contains("byte 5")), (Code::InvalidText, true));
    let large = vec![7; 2 * MOST_IN_ONE as usize + 3];
    assert_eq!(operations::write(&door, "large", &mut large.as_slice()).unwrap(), large.len() as u64);
    assert!(operations::read(&door, "large", large.len() as u64).unwrap() == large);
    assert_eq!(code(operations::read(&door, "large", large.len() as u64 - 1)), Code::TooLarge);
    let mut streamed = Vec::new();
    operations::Contents::new(&door, "large").unwrap().read_to_end(&mut streamed).unwrap();
    assert!(streamed == large);
}

#[test]
fn lines_are_read_by_their_numbers() {
    let (_host, door) = workspace(&[("a", "one\ntwo\r\nthree\nfour"), ("empty", ""), ("ended", "x\n\n")]);
    let lines = |path: &str, first, count| operations::read_lines(&door, path, first, count).unwrap();
    let some = lines("a", 2, 2);
    assert_eq!(
        (some.text.as_str(), some.first, some.count, some.total_lines),
        ("two\r\nthree\n", 2, 2, Some(4))
    );
    assert_eq!(lines("a", 4, 100).text, "four");
    assert_eq!(lines("a", 0, 1).text, "one\n");
    let none = lines("a", 9, 1);
    assert_eq!((none.text.as_str(), none.count, none.total_lines), ("", 0, Some(4)));
    assert_eq!(lines("a", u64::MAX, u64::MAX).count, 0);
    assert_eq!(lines("empty", 1, 1).total_lines, Some(0));
    assert_eq!((lines("ended", 1, 9).count, lines("ended", 1, 9).total_lines), (2, Some(2)));
    // Across pieces, and with a line that is too long.
    let long = "y".repeat(3 << 20);
    let text = format!("{}{long}\nlast\n", "0123456789\n".repeat(200_000));
    operations::write(&door, "long", &mut text.as_bytes()).unwrap();
    let found = lines("long", 200_000, 3);
    assert_eq!((found.count, found.cut, found.total_lines), (3, true, Some(200_002)));
    assert!(found.text.starts_with("0123456789\nyyy") && found.text.ends_with("yyy\nlast\n"));
    assert!(found.text.len() < 100_000);
    assert!(!lines("long", 1, 3).cut);
    let all = lines("long", 1, u64::MAX);
    assert!(all.text.len() <= 8 << 20 && all.total_lines == Some(200_002));
}

/// A reader that gives so many bytes, and then an end or an error.
struct Giving(u64, bool);

impl Read for Giving {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = (buffer.len() as u64).min(self.0).min(10_000) as usize;
        self.0 -= count as u64;
        buffer[..count].fill(b'z');
        if count == 0 && self.1 { Err(std::io::Error::other("the line broke")) } else { Ok(count) }
    }
}

#[test]
fn writing_is_all_or_nothing_whatever_the_size() {
    let (host, door) = workspace(&[("d/a", "old")]);
    let sizes = [0, 1, MOST_IN_ONE - 1, MOST_IN_ONE, MOST_IN_ONE + 1, 3 * MOST_IN_ONE];
    for size in sizes {
        assert_eq!(operations::write(&door, "d/a", &mut Giving(size, false)).unwrap(), size);
        assert_eq!(stat(&door, "d/a").unwrap().size, size);
        assert_eq!(operations::write(&door, &format!("new/{size}"), &mut Giving(size, false)).unwrap(), size);
    }
    std::fs::set_permissions(host.path().join("d/a"), std::fs::Permissions::from_mode(0o755)).unwrap();
    operations::write(&door, "d/a", &mut Giving(2 * MOST_IN_ONE, false)).unwrap();
    assert!(stat(&door, "d/a").unwrap().executable);
    for size in sizes {
        let error = operations::write(&door, "d/a", &mut Giving(size, true)).unwrap_err();
        assert_eq!((error.code, error.path.as_str()), (Code::Failed, "d/a"));
        assert!(error.message.contains("the line broke"));
    }
    assert_eq!(stat(&door, "d/a").unwrap().size, 2 * MOST_IN_ONE);
    assert_eq!(listed(&door, "d").unwrap(), ["a"]);
    symlink("d/a", host.path().join("link")).unwrap();
    operations::write(&door, "link", &mut Giving(MOST_IN_ONE + 5, false)).unwrap();
    assert_eq!(stat(&door, "link").unwrap().kind, FileKind::Link);
    assert_eq!(stat(&door, "d/a").unwrap().size, MOST_IN_ONE + 5);
    assert_eq!(code(operations::write(&door, "d", &mut Giving(MOST_IN_ONE * 2, false))), Code::IsDirectory);
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let host = scratch();
    let door = door(&host).with_quota(std::sync::Arc::new(|bytes, _| bytes < MOST_IN_ONE));
    operations::write(&door, "a", &mut &b"old"[..]).unwrap();
    assert_eq!(code(operations::write(&door, "a", &mut Giving(3 * MOST_IN_ONE, false))), Code::DiskFull);
    assert_eq!(operations::read(&door, "a", 10).unwrap(), b"old");
    assert_eq!(listed(&door, "").unwrap(), ["a"]);
}

#[test]
fn text_is_edited_where_it_is_clear_which() {
    let (_host, door) = workspace(&[("a", "one\ntwo\n  two x\n"), ("crlf", "a\r\nb\r\n")]);
    assert_eq!(operations::edit(&door, "a", "one", "1", false).unwrap(), 1);
    let error = operations::edit(&door, "a", "two", "2", false).unwrap_err();
    assert_eq!(error.code, Code::NoMatch);
    assert!(error.message.contains("2 times (lines 2, 3)"), "{error}");
    assert_eq!(operations::edit(&door, "a", "two", "2", true).unwrap(), 2);
    assert_eq!(operations::read_text(&door, "a", 100).unwrap(), "1\n2\n  2 x\n");
    let hint = |path: &str, old: &str| operations::edit(&door, path, old, "", false).unwrap_err().message;
    assert!(hint("a", "\t2 x").contains("white space it is at line 3"));
    assert!(hint("a", "three").contains("the text is not there"));
    assert!(hint("crlf", "a\nb").contains("\\r\\n"));
    assert!(hint("a", "").contains("empty"));
    assert_eq!(code(operations::edit(&door, "nothing", "a", "b", false)), Code::FileNotFound);
    operations::write(&door, "binary", &mut &[0xffu8, 0][..]).unwrap();
    assert_eq!(code(operations::edit(&door, "binary", "a", "b", false)), Code::InvalidText);
    operations::write(&door, "many", &mut "a".repeat(1 << 20).as_bytes()).unwrap();
    assert_eq!(code(operations::edit(&door, "many", "a", &"b".repeat(1000), true)), Code::TooLarge);
}

#[test]
fn it_is_known_what_exists() {
    let (host, door) = workspace(&[("a/b", "")]);
    symlink("nowhere", host.path().join("dangling")).unwrap();
    symlink("/etc", host.path().join("out")).unwrap();
    let exists = |path: &str| operations::exists(&door, path).map_err(|error| error.code);
    assert_eq!((exists(""), exists("a"), exists("a/b")), (Ok(true), Ok(true), Ok(true)));
    assert_eq!((exists("x"), exists("a/b/c"), exists("dangling")), (Ok(false), Ok(false), Ok(false)));
    assert_eq!(exists("out"), Err(Code::InvalidPath));
}

#[test]
fn a_walk_visits_everything_once_and_follows_no_link() {
    let (host, door) = workspace(&[("b/2", ""), ("b/1/x", ""), ("a", ""), ("b/1/y", "")]);
    symlink(".", host.path().join("b/circle")).unwrap();
    let visited = |path: &str, step: &dyn Fn(&str) -> Step| {
        let mut visited = Vec::new();
        let walked = operations::walk(&door, path, &mut |path, _| {
            visited.push(path.to_owned());
            step(path)
        });
        (visited, walked.unwrap())
    };
    let (all, walked) = visited("", &|_| Step::Into);
    assert_eq!(all, ["a", "b", "b/1", "b/1/x", "b/1/y", "b/2", "b/circle"]);
    assert_eq!((walked.visited, walked.skipped, walked.cut), (7, 0, false));
    assert_eq!(visited("b", &|_| Step::Past).0, ["b/1", "b/2", "b/circle"]);
    assert_eq!(visited("", &|path| if path == "b/1" { Step::Stop } else { Step::Into }).0, ["a", "b", "b/1"]);
    assert_eq!(code(operations::walk(&door, "a", &mut |_, _| Step::Into)), Code::NotDirectory);
}

#[test]
fn files_are_found_by_patterns() {
    let (host, door) = workspace(&[
        ("a.py", ""),
        ("src/b.py", ""),
        ("src/deep/c.py", ""),
        ("src/deep/d.rs", ""),
        (".git/e.py", ""),
        (".hidden.py", ""),
        ("src/new\nline.py", ""),
    ]);
    symlink("src", host.path().join("link")).unwrap();
    let found = |pattern: &str, hidden| {
        let found =
            operations::glob(&door, pattern, &FindOptions { hidden, ..FindOptions::default() }).unwrap();
        assert!(found.complete);
        found.files.into_iter().map(|file| file.path).collect::<Vec<_>>()
    };
    assert_eq!(found("*.py", false), ["a.py"]);
    assert_eq!(found("**/*.py", false), ["a.py", "src/b.py", "src/deep/c.py", "src/new\nline.py"]);
    assert_eq!(found("**/*.{py,rs}", false).len(), 5);
    assert_eq!(found("**/e.py", true), [".git/e.py"]);
    assert_eq!(found(".git/*", false), [".git/e.py"]);
    assert_eq!(found(".*", false), [".git", ".hidden.py"]);
    assert_eq!(found("src/deep/d.rs", false), ["src/deep/d.rs"]);
    assert_eq!(found("link/[b]*", false), ["link/b.py"]);
    assert_eq!(found("nothing/*", false), [""; 0]);
    assert_eq!(found("a.py/*", false), [""; 0]);
    let one = operations::glob(&door, "**", &FindOptions { most: 1, ..FindOptions::default() }).unwrap();
    assert_eq!((one.files.len(), one.complete), (1, false));
    assert_eq!(code(operations::glob(&door, "[", &FindOptions::default())), Code::InvalidText);
}

#[test]
fn lines_are_found_by_expressions() {
    let (_host, door) = workspace(&[
        ("a.txt", "alpha\nBeta\ngamma 1\n"),
        ("d/b.py", "x = 1\r\nbeta = 2\nlast beta"),
        (".hidden", "beta"),
        ("binary", "beta\0beta"),
    ]);
    let grep = |pattern: &str, options: GrepOptions| operations::grep(&door, pattern, &options).unwrap();
    let lines = |pattern: &str, options: GrepOptions| {
        let found = grep(pattern, options).matches.into_iter();
        found.map(|found| format!("{}:{}:{}", found.path, found.line, found.text)).collect::<Vec<_>>()
    };
    let usual = GrepOptions::default;
    assert_eq!(lines("beta", usual()), ["d/b.py:2:beta = 2", "d/b.py:3:last beta"]);
    assert_eq!(lines("^x.*1$", usual()), ["d/b.py:1:x = 1"]);
    assert_eq!(lines("beta", GrepOptions { ignore_case: true, ..usual() }).len(), 3);
    assert_eq!(lines("beta", GrepOptions { hidden: true, ..usual() })[0], ".hidden:1:beta");
    assert_eq!(lines("a.p", usual()), ["a.txt:1:alpha"]);
    assert_eq!(lines("a ", GrepOptions { fixed: true, ..usual() }), ["a.txt:3:gamma 1", "d/b.py:2:beta = 2"]);
    assert_eq!(lines(".", GrepOptions { fixed: true, ..usual() }), [""; 0]);
    let glob = |glob: &str| lines("beta|alpha", GrepOptions { glob: Some(glob.to_owned()), ..usual() });
    assert_eq!(glob("*.txt"), ["a.txt:1:alpha"]);
    assert_eq!(glob("*.py").len(), 2);
    assert_eq!(glob("d/*").len(), 2);
    assert_eq!(lines("beta", GrepOptions { path: "d".to_owned(), ..usual() }).len(), 2);
    assert_eq!(lines("alpha", GrepOptions { path: "a.txt".to_owned(), ..usual() }), ["a.txt:1:alpha"]);
    let few = grep(".", GrepOptions { most_matches: 2, ..usual() });
    assert_eq!((few.matches.len(), few.complete), (2, false));
    assert!(grep(".", usual()).complete);
    let around = grep("Beta", GrepOptions { context: 5, ..usual() }).matches.remove(0);
    assert_eq!((around.before, around.after), (vec!["alpha".to_owned()], vec!["gamma 1".to_owned()]));
    for pattern in ["(", "a{1000000}{1000000}", &"(".repeat(5000), &"x".repeat(100_000)] {
        assert_eq!(code(operations::grep(&door, pattern, &usual())), Code::InvalidText);
    }
    assert_eq!(
        code(operations::grep(&door, "a", &GrepOptions { path: "x".to_owned(), ..usual() })),
        Code::FileNotFound
    );
}

#[test]
fn long_lines_are_cut_and_large_files_searched_in_pieces() {
    let (_host, door) = workspace(&[]);
    let text =
        format!("{}{}needle\n{}\nneedle", "x\n".repeat(1 << 20), "y".repeat(10_000), "z".repeat(1 << 20));
    operations::write(&door, "a", &mut text.as_bytes()).unwrap();
    let found = operations::grep(&door, "needle", &GrepOptions::default()).unwrap();
    let lines: Vec<_> = found.matches.iter().map(|found| found.line).collect();
    assert_eq!(lines, [(1 << 20) + 1, (1 << 20) + 3]);
    assert!(found.matches[0].text.len() < 2100 && found.matches[1].text == "needle");
    let little =
        operations::grep(&door, "needle", &GrepOptions { most_bytes: 1 << 20, ..GrepOptions::default() });
    assert_eq!(little.map(|found| (found.matches.len(), found.complete)).unwrap(), (0, false));
}

#[test]
fn files_links_and_trees_are_copied() {
    let (host, door) = workspace(&[("t/a", "one"), ("t/d/b", "two"), ("plain", "new")]);
    std::fs::set_permissions(host.path().join("t/a"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("d/b", host.path().join("t/link")).unwrap();
    rustix::fs::mknodat(
        std::fs::File::open(host.path()).unwrap(),
        "t/fifo",
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let copied = operations::copy(&door, "t", "deep/u").unwrap();
    assert_eq!((copied.files, copied.directories, copied.bytes), (3, 2, 6));
    assert_eq!(copied.errors.iter().map(|error| error.code).collect::<Vec<_>>(), [Code::NotAFile]);
    assert_eq!(listed(&door, "deep/u").unwrap(), ["a", "d", "link"]);
    assert!(stat(&door, "deep/u/a").unwrap().executable);
    assert_eq!(operations::read_link(&door, "deep/u/link").unwrap(), "d/b");
    // Again: files and links are replaced.
    assert_eq!(operations::copy(&door, "t", "deep/u").unwrap().files, 3);
    assert_eq!(operations::copy(&door, "plain", "t/a").unwrap().bytes, 3);
    assert_eq!(operations::read(&door, "t/a", 9).unwrap(), b"new");
    for (from, to) in [("t", "t"), ("t", "t/x"), ("", "x"), ("plain", "plain")] {
        assert_eq!(code(operations::copy(&door, from, to)), Code::InvalidPath, "{from} {to}");
    }
    operations::copy(&door, "t/d", "td").unwrap();
    // Into itself by a link: what is copied isn't copied again.
    symlink("t/d", host.path().join("way")).unwrap();
    let copied = operations::copy(&door, "t", "way/again").unwrap();
    assert_eq!((copied.directories, copied.files), (2, 3));
    assert_eq!(code(operations::copy(&door, "nothing", "x")), Code::FileNotFound);
    assert_eq!(code(operations::copy(&door, "t/fifo", "x")), Code::NotAFile);
    let large = vec![1; MOST_IN_ONE as usize + 9];
    operations::write(&door, "large", &mut large.as_slice()).unwrap();
    operations::copy(&door, "large", "larger").unwrap();
    assert!(operations::read(&door, "larger", u64::MAX).unwrap() == large);
}

#[test]
fn trees_are_removed_if_that_is_said() {
    let (host, door) = workspace(&[("t/a", ""), ("t/d/e/f", ""), ("keep/x", "x"), ("plain", "")]);
    symlink("../keep", host.path().join("t/link")).unwrap();
    let error = operations::remove(&door, "t", false).unwrap_err();
    assert_eq!((error.code, error.message.contains("recursive")), (Code::NotEmpty, true));
    operations::remove(&door, "t", true).unwrap();
    operations::remove(&door, "plain", true).unwrap();
    assert_eq!(code(operations::remove(&door, "t", true)), Code::FileNotFound);
    assert_eq!(operations::read(&door, "keep/x", 1).unwrap(), b"x");
    symlink("keep", host.path().join("link")).unwrap();
    operations::remove(&door, "link", true).unwrap();
    assert_eq!(listed(&door, "").unwrap(), ["keep"]);
}

#[test]
fn usage_counts_what_the_workspace_has_itself() {
    let (host, door) = workspace(&[("a", "12345"), ("d/b", "123")]);
    symlink("a", host.path().join("link")).unwrap();
    let shared = scratch();
    std::fs::write(shared.path().join("large"), "0123456789").unwrap();
    let door = door.with_mount("shared", std::sync::Arc::new(DirDoor::open(shared.path()).unwrap()));
    let used = operations::usage(&door, "", 100).unwrap();
    assert_eq!((used.bytes, used.files, used.directories, used.complete), (8, 3, 2, true));
    assert!(!operations::usage(&door, "", 2).unwrap().complete);
    assert_eq!(operations::usage(&door, "a", 100).unwrap().bytes, 5);
    assert_eq!(operations::usage(&door, "shared", 100).unwrap().bytes, 10);
}

#[test]
fn many_files_go_up_and_down_and_each_has_a_result() {
    let (_host, door) = workspace(&[("d/x", "x")]);
    let uploaded = operations::upload(&door, [("a", "1"), ("../b", "2"), ("d", "3"), ("e/f", "4")]);
    let codes: Vec<_> = uploaded.iter().map(|file| file.error.as_ref().map(|error| error.code)).collect();
    assert_eq!(codes, [None, Some(Code::InvalidPath), Some(Code::IsDirectory), None]);
    let downloaded = operations::download(&door, ["e/f", "nothing", "a", "d", "d/x"], 2);
    let found: Vec<_> = downloaded
        .iter()
        .map(|file| (file.contents.as_deref(), file.error.as_ref().map(|error| error.code)))
        .collect();
    assert_eq!(found[0], (Some(&b"4"[..]), None));
    assert_eq!(found[1], (None, Some(Code::FileNotFound)));
    assert_eq!(found[2], (Some(&b"1"[..]), None));
    assert_eq!(found[3], (None, Some(Code::IsDirectory)));
    assert_eq!(found[4], (None, Some(Code::TooLarge)));
    let text = serde_json::to_string(&uploaded[1]).unwrap();
    assert!(text.contains("\"code\":\"invalid_path\""), "{text}");
}

type Then<'door> = Box<dyn FnMut(&FileOp) + Send + 'door>;

/// A door that does something after each operation, as a guest would.
struct Meddling<'door> {
    door: &'door DirDoor,
    then: Mutex<Then<'door>>,
}

impl FileDoor for Meddling<'_> {
    fn file(&self, operation: FileOp) -> Result<FileReply, FileError> {
        let reply = self.door.file(operation.clone());
        (self.then.lock().unwrap())(&operation);
        reply
    }
}

#[test]
fn what_others_change_while_it_is_edited_is_kept() {
    let (host, door) = workspace(&[("a", "one two")]);
    let meddling = Meddling {
        door: &door,
        then: Mutex::new(Box::new(|operation| {
            if matches!(operation, FileOp::Read { .. }) {
                std::fs::write(host.path().join("a"), "one two three").unwrap();
            }
        })),
    };
    let error = operations::edit(&meddling, "a", "one", "1", false).unwrap_err();
    assert!(error.message.contains("changed by others"), "{error}");
    assert_eq!(operations::read(&door, "a", 100).unwrap(), b"one two three");
}

#[test]
fn a_tree_that_grows_while_it_is_removed_goes_or_is_given_up() {
    let (host, door) = workspace(&[("t/a", ""), ("t/d/b", "")]);
    // As many as the removal has patience for, and then for ever.
    for most in [50, u64::MAX] {
        operations::upload(&door, [("t/a", ""), ("t/d/b", "")]);
        let mut count = 0;
        let path = host.path().to_owned();
        let meddling = Meddling {
            door: &door,
            then: Mutex::new(Box::new(move |operation| {
                if matches!(operation, FileOp::List { .. }) && count < most {
                    count += 1;
                    let _ = std::fs::create_dir_all(path.join("t/d"));
                    std::fs::write(path.join(format!("t/d/{count}")), "").unwrap();
                }
            })),
        };
        let removed = operations::remove(&meddling, "t", true);
        if most == 50 {
            removed.unwrap();
            assert!(!host.path().join("t").exists());
        } else {
            assert_eq!(code(removed), Code::NotEmpty);
        }
    }
}

#[test]
fn a_file_that_goes_while_it_is_read_is_told_or_short() {
    let (host, door) = workspace(&[]);
    let write = FileOp::Write {
        path: "a".to_owned(),
        contents: vec![1; MOST_IN_ONE as usize],
        how: WriteHow::Create,
    };
    door.file(write.clone()).unwrap();
    operations::append(&door, "a", b"more").unwrap();
    let meddling = Meddling {
        door: &door,
        then: Mutex::new(Box::new(|operation| {
            if matches!(operation, FileOp::Read { .. }) {
                let _ = std::fs::remove_file(host.path().join("a"));
            }
        })),
    };
    assert_eq!(code(operations::read(&meddling, "a", u64::MAX)), Code::FileNotFound);
    door.file(write).unwrap();
    operations::append(&door, "a", b"more").unwrap();
    assert_eq!(code(operations::copy(&meddling, "a", "b")), Code::FileNotFound);
    assert_eq!(listed(&door, "").unwrap(), [""; 0]);
}

#[test]
fn a_directory_that_is_renamed_while_it_is_walked_is_skipped() {
    let (host, door) = workspace(&[("a/x", ""), ("b/y", ""), ("c/z", "")]);
    let mut visited = Vec::new();
    let walked = operations::walk(&door, "", &mut |path, _| {
        if path == "b" {
            std::fs::rename(host.path().join("b"), host.path().join("moved")).unwrap();
        }
        visited.push(path.to_owned());
        Step::Into
    });
    assert_eq!(visited, ["a", "a/x", "b", "c", "c/z"]);
    assert_eq!(walked.unwrap().skipped, 1);
}
