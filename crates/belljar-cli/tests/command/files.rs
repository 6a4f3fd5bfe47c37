//! `belljar files` and `belljar workspace`.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A state directory with a root for workspaces, and what is typed with it.
struct Home {
    directory: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn belljar(&self, arguments: &[&str]) -> Ended {
        let mut command = command(arguments);
        command.env("BELLJAR_STATE_DIR", self.path().join("state"));
        command.env("BELLJAR_WORKSPACE_ROOT", self.path().join("root")).current_dir(self.path());
        end(command.output().unwrap())
    }

    /// One that must succeed.
    fn ok(&self, arguments: &[&str]) -> String {
        let ended = self.belljar(arguments);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{arguments:?}: {ended:?}");
        ended.stdout
    }

    /// One that must fail and say why.
    fn refused(&self, arguments: &[&str], message: &str) {
        let ended = self.belljar(arguments);
        assert!(ended.status != 0 && ended.stderr.contains(message), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    }

    fn write(&self, path: &str, contents: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }
}

#[test]
fn files_of_both_kinds_of_storage() {
    for storage in ["disk", "memory"] {
        let home = Home::new();
        let files = |arguments: &[&str]| {
            let (name, rest) = arguments.split_first().unwrap();
            home.ok(&[&["files", *name, "--session", "work"], rest].concat())
        };
        home.ok(&["session", "create", "work", "--storage", storage]);
        home.write("in.csv", "a,b\n1,2\n");
        assert_eq!(files(&["put", "in.csv", "data/"]), "data/in.csv\n");
        assert_eq!(
            home.ok(&["run", "--session", "work", "-c", "print(open('data/in.csv').read())"]),
            "a,b\n1,2\n\n"
        );
        home.ok(&[
            "run",
            "--session",
            "work",
            "--no-artifacts",
            "-c",
            "open('artifacts/out.txt', 'w').write('one\\ntwo\\nthree\\n')",
        ]);
        assert_eq!(files(&["cat", "/session/artifacts/out.txt"]), "one\ntwo\nthree\n");
        assert_eq!(files(&["cat", "artifacts/out.txt", "--lines", "2:2"]), "     2  two\n");
        assert_eq!(files(&["ls"]), "artifacts/\ndata/\n");
        assert_eq!(files(&["find", "**/*.txt"]), "artifacts/out.txt\n");
        assert_eq!(files(&["grep", "t[wh]"]), "artifacts/out.txt:2:two\nartifacts/out.txt:3:three\n");
        files(&["edit", "artifacts/out.txt", "two", "2"]);
        files(&["get", "artifacts/out.txt", "-o", "got.txt"]);
        assert_eq!(home.read("got.txt"), "one\n2\nthree\n");
        files(&["cp", "data", "more"]);
        files(&["mv", "more/in.csv", "more/moved.csv"]);
        files(&["mkdir", "empty/deep"]);
        files(&["rm", "-r", "data"]);
        let listed: Value = serde_json::from_str(&files(&["ls", "-r", "--json"])).unwrap();
        let names: Vec<&str> = listed["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["name"].as_str().unwrap())
            .collect();
        assert!(names.contains(&"more/moved.csv") && !names.contains(&"data"), "{names:?}");
        assert_eq!(
            home.ok(&["run", "--session", "work", "-c", "print(open('more/moved.csv').read()[:3])"]),
            "a,b\n"
        );
        home.refused(&["files", "cat", "--session", "work", "absent"], "absent");
        home.refused(&["files", "cat", "--session", "work", "../../state"], "outside of the workspace");
        home.refused(&["files", "rm", "--session", "work", "artifacts"], "not empty");
        home.refused(&["files", "ls", "--session", "nobody"], "nobody");
        let none = home.belljar(&["files", "grep", "--session", "work", "absent"]);
        assert_eq!((none.status, none.stdout.as_str()), (1, ""));
    }
}

#[test]
fn threads_of_another_system_are_used_as_they_are() {
    let home = Home::new();
    home.write("root/threads/abc123/main.py", "print('old')");
    home.write("root/threads/abc123/.metadata.json", "{}");
    symlink("/etc", home.path().join("root/threads/abc123/out")).unwrap();
    assert_eq!(home.ok(&["files", "cat", "--session", "abc123", "main.py"]), "print('old')");
    home.refused(&["files", "cat", "--session", "abc123", "out/passwd"], "out/passwd");
    assert_eq!(home.ok(&["workspace", "ls"]), "abc123\n");
    assert_eq!(
        home.ok(&["run", "--session", "abc123", "--storage", "disk", "-c", "exec(open('main.py').read())"]),
        "old\n"
    );
    let path = home.ok(&["workspace", "path", "abc123"]);
    assert_eq!(Path::new(path.trim_end()), home.path().join("root/threads/abc123"));
    assert!(home.ok(&["workspace", "du"]).contains("abc123"));
    home.refused(&["workspace", "rm", "abc123"], "is a session");
    home.ok(&["session", "close", "abc123"]);
    assert_eq!(home.read("root/threads/abc123/main.py"), "print('old')");
    home.ok(&["workspace", "rm", "abc123"]);
    assert!(!home.path().join("root/threads/abc123").exists());
}

#[test]
fn archives_and_copies() {
    let home = Home::new();
    home.ok(&[
        "run",
        "--session",
        "one",
        "--storage",
        "disk",
        "-c",
        "open('a', 'w').write('1'); import os; os.mkdir('d'); open('d/b', 'w').write('2')",
    ]);
    home.ok(&["workspace", "export", "one.tar.zst", "--session", "one"]);
    home.ok(&["session", "create", "two"]);
    home.ok(&["workspace", "import", "one.tar.zst", "--session", "two"]);
    assert_eq!(
        home.ok(&["run", "--session", "two", "-c", "print(open('a').read() + open('d/b').read())"]),
        "12\n"
    );
    home.write("bad.tar.zst", "this is no archive");
    home.refused(&["workspace", "import", "bad.tar.zst", "--session", "two"], "archive");
    home.ok(&["workspace", "sync", "copy", "--session", "one"]);
    assert_eq!((home.read("copy/a"), home.read("copy/d/b")), ("1".to_owned(), "2".to_owned()));
    home.write("copy/a", "changed");
    fs::remove_file(home.path().join("copy/d/b")).unwrap();
    let planned: Value = serde_json::from_str(&home.ok(&[
        "workspace",
        "sync",
        "copy",
        "--session",
        "one",
        "--pull",
        "--delete",
        "--dry-run",
        "--json",
    ]))
    .unwrap();
    assert_eq!((planned["files"].as_u64(), planned["removed"].as_u64()), (Some(1), Some(1)));
    home.ok(&["workspace", "sync", "copy", "--session", "one", "--pull", "--delete"]);
    assert_eq!(home.ok(&["files", "cat", "--session", "one", "a"]), "changed");
    home.refused(&["files", "cat", "--session", "one", "d/b"], "d/b");
    home.refused(&["workspace", "sync", "s3://", "--session", "one"], "s3://");
}

#[test]
fn copies_of_packages_go_if_they_are_the_same() {
    let home = Home::new();
    home.write("site/tool/__init__.py", "VERSION = 1\n");
    for (thread, contents) in [("same", "VERSION = 1\n"), ("other", "VERSION = 2\n")] {
        home.write(&format!("workspace/{thread}/site-packages/tool/__init__.py"), contents);
        home.write(&format!("workspace/{thread}/user_code.py"), "import tool");
    }
    let migrate = ["workspace", "migrate", "--directory", "workspace", "--package", "./site"];
    let planned = home.belljar(&[&migrate[..], &["--dry-run"]].concat());
    assert_eq!(planned.status, 0, "{planned:?}");
    assert!(home.path().join("workspace/same/site-packages").exists());
    let done = home.belljar(&migrate);
    assert!(done.status == 0 && done.stdout.contains("stays"), "{done:?}");
    assert!(!home.path().join("workspace/same/site-packages").exists());
    assert_eq!(home.read("workspace/other/site-packages/tool/__init__.py"), "VERSION = 2\n");
    assert_eq!(home.read("workspace/same/user_code.py"), "import tool");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = Home::new();
    home.refused(&["run", "--storage", "disk", "--workspace-path", "relative", "-c", "1"], "workspace");
    home.refused(&["run", "--workspace-path", "/usr/x", "-c", "1"], "workspace");
    home.refused(&["run", "--user", "../x", "-c", "1"], "user");
    home.refused(&["run", "--session", "a", "--ticket", "nobody", "-c", "1"], "nobody");
    home.ok(&["session", "create", "kept"]);
    home.refused(&["run", "--session", "kept", "--storage", "disk", "-c", "1"], "memory");
}
