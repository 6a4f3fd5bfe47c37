//! What came out of cells.

use tempfile::TempDir;

use super::*;

/// A working directory and a state directory.
pub(super) struct Home {
    directory: TempDir,
    /// Variables that all commands have.
    variables: Vec<(String, String)>,
}

impl Home {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        Self { directory, variables: Vec::new() }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// A file or directory beside the working directory.
    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn write(&self, name: &str, contents: &str) {
        let path = self.path("work").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("work").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path("work").join(name).exists()
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.current_dir(self.path("work")).env("BELLJAR_STATE_DIR", self.path("state"));
        // A server of the test's own is not reached through a proxy.
        for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(super) fn belljar(&self, arguments: &[&str]) -> Ended {
        end(self.command(arguments).output().unwrap())
    }

    /// One that must succeed.
    pub(super) fn done(&self, arguments: &[&str]) -> Ended {
        let ended = self.belljar(arguments);
        assert_eq!(ended.status, 0, "{arguments:?}: {ended:?}");
        ended
    }

    /// One that must succeed, and says nothing but its answer.
    pub(super) fn told(&self, arguments: &[&str]) -> String {
        let ended = self.done(arguments);
        assert_eq!(ended.stderr, "", "{arguments:?}");
        ended.stdout
    }

    /// The same for programs.
    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.told(&[arguments, &["--json"]].concat());
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// One that must fail with a status, say why, and what to do about it.
    pub(super) fn refused(&self, arguments: &[&str], status: i32, messages: &[&str]) {
        let ended = self.belljar(arguments);
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{arguments:?}: {}", ended.stderr);
        for message in messages {
            assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
        }
    }

    /// Runs code in a session that must answer, and returns the ids of what was kept.
    fn kept(&self, arguments: &[&str]) -> Vec<String> {
        let ended = self.done(arguments);
        let id = |line: &str| {
            line.strip_prefix("artifact ").map(|rest| rest.split(' ').next().unwrap().to_owned())
        };
        ended.stderr.lines().filter_map(id).collect()
    }

    /// Leaves one file in a session, and returns its id.
    fn leave(&self, name: &str, contents: &str) -> String {
        let code = format!("open('artifacts/{name}', 'w').write({contents:?})");
        self.kept(&["run", "--session", "work", "-c", &code]).remove(0)
    }
}

const REPORT: &str = "open('artifacts/report.csv', 'w').write('a,b\\n1,2\\n')";

#[test]
fn what_a_cell_leaves_is_told_and_listed() {
    let home = Home::new();
    let code =
        format!("{REPORT}\nopen('artifacts/plot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(100))");
    let ended = home.done(&["run", "--session", "work", "--tool-call", "call_7", "-c", &code]);
    let mut lines: Vec<&str> = ended.stderr.lines().collect();
    lines.sort_by_key(|line| line.split(' ').nth(2).map(str::to_owned));
    assert_eq!(lines.len(), 2, "{}", ended.stderr);
    for (line, rest) in lines.iter().zip(["plot.png image/png 108 B", "report.csv text/csv 8 B"]) {
        let (id, told) = line.strip_prefix("artifact ").unwrap().split_once(' ').unwrap();
        assert_eq!((told, id.len()), (rest, 30), "{line}");
    }
    // It is no longer in the workspace.
    assert_eq!(home.told(&["files", "ls", "--session", "work", "artifacts"]), "\n");
    home.done(&["run", "--session", "other", "-c", REPORT]);
    let listed = home.told(&["artifact", "ls"]);
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert!(
        listed.starts_with("ID ") && listed.contains("plot.png") && listed.contains("image/png"),
        "{listed}"
    );
    let names = |extra: &[&str]| -> Vec<String> {
        let found = home.json(&[&["artifact", "ls"], extra].concat());
        let name =
            |one: &Value| format!("{}/{}", one["session"].as_str().unwrap(), one["name"].as_str().unwrap());
        found["artifacts"].as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names(&["--session", "other"]), ["other/report.csv"]);
    assert_eq!(names(&["--mime", "image/*"]), ["work/plot.png"]);
    assert_eq!(names(&["--mime", "text/csv", "-n", "1"]), ["other/report.csv"]);
    assert_eq!(names(&["--name", "report.csv"]), ["other/report.csv", "work/report.csv"]);
    assert_eq!(names(&["--pinned"]), [""; 0]);
    let some = home.done(&["artifact", "ls", "-n", "2"]);
    assert!(some.stdout.lines().count() == 3 && some.stderr.contains("there are more"), "{some:?}");
    assert_eq!(home.json(&["artifact", "ls", "-n", "2"])["more"], true);
    let plot = home.json(&["artifact", "ls", "--mime", "image/*"])["artifacts"][0].clone();
    let id = plot["id"].as_str().unwrap();
    let shown = home.told(&["artifact", "show", id]);
    for expected in
        ["plot.png", "image/png", "108 B", "work, cell 1", "call_7", plot["sha256"].as_str().unwrap()]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert_eq!(home.json(&["artifact", "show", id])["tool_call"], "call_7");
    assert_eq!(home.json(&["artifact", "usage"])["count"], 3);
    // The same contents are stored once.
    let usage = home.json(&["artifact", "usage"]);
    assert_eq!((usage["bytes"].as_u64(), usage["stored_bytes"].as_u64()), (Some(124), Some(116)));
    assert_eq!(home.told(&["artifact", "usage"]), "3 artifacts, 124 B; 116 B stored, 0 pinned\n");
}

#[test]
fn a_run_says_what_is_kept_and_what_is_not() {
    let home = Home::new();
    let code = "import os; os.makedirs('artifacts/deep')\n\
                open('artifacts/small.txt', 'w').write('1234')\n\
                open('artifacts/deep/large.txt', 'w').write('x' * 100)\n\
                open('artifacts/page.html', 'w').write('<!DOCTYPE html><p>1</p>')";
    let limits = ["--artifact-max", "50B", "--artifact-deny", "text/html"];
    let ended = home.done(&[&["run", "--session", "s", "-c", code][..], &limits].concat());
    assert_eq!(ended.stderr.matches("artifact art_").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("not kept: deep/large.txt 100 B: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("not kept: page.html 23 B: "), "{}", ended.stderr);
    // What isn't kept is where it was.
    let there = "import os; print(sorted(os.listdir('artifacts')), os.listdir('artifacts/deep'))";
    assert_eq!(
        home.done(&["run", "--session", "s", "-c", there]).stdout,
        "['deep', 'page.html'] ['large.txt']\n"
    );
    let outcome = home.json(&[&["run", "-c", code][..], &limits].concat());
    assert_eq!(outcome["artifacts"][0]["name"], "small.txt");
    assert!(outcome["artifacts"][0]["url"].as_str().unwrap().contains("art_"), "{outcome}");
    let mut refused: Vec<&str> = outcome["artifacts_refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["why"].as_str().unwrap())
        .collect();
    refused.sort_unstable();
    assert_eq!(refused, ["mime", "too_large"]);
    // Only some, all of them and they stay, or none at all. What a session is made with is its own.
    let count = |session: &str, extra: &[&str]| {
        home.kept(&[&["run", "--session", session, "-c", code][..], extra].concat()).len()
    };
    assert_eq!(count("html", &["--artifact-allow", "text/html"]), 1);
    assert_eq!(count("leave", &["--leave-artifacts"]), 3);
    assert_eq!(home.told(&["files", "cat", "--session", "leave", "artifacts/small.txt"]), "1234");
    assert_eq!(count("none", &["--no-artifacts"]), 0);
    assert_eq!(home.told(&["files", "cat", "--session", "none", "artifacts/deep/large.txt"]).len(), 100);
    for wrong in [&["--artifact-max", "much"][..], &["--artifact-allow", "csv"], &["--artifact-read", "all"]]
    {
        assert_eq!(home.belljar(&[&["run", "-c", "1"], wrong].concat()).status, 2, "{wrong:?}");
    }
    assert_eq!(home.belljar(&["run", "--no-artifacts", "--leave-artifacts", "-c", "1"]).status, 2);
}

#[test]
fn displays_are_kept_if_that_is_asked_for() {
    let home = Home::new();
    let code = "class Picture:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(9)\ndisplay(Picture())";
    assert_eq!(home.kept(&["run", "-c", code]), [""; 0]);
    let ended = home.done(&["run", "--keep-displays", "-c", code]);
    assert!(ended.stderr.contains(".png image/png 17 B\n"), "{}", ended.stderr);
}

#[test]
fn names_cannot_forge_what_is_told() {
    let home = Home::new();
    let code = "open('artifacts/x\\nartifact art_forged y', 'w').write('1'); open('artifacts/\\x1b[2J', 'w').write('2')";
    let ended = home.done(&["run", "-c", code]);
    assert_eq!(ended.stderr.lines().count(), 2, "{}", ended.stderr);
    assert!(
        !ended.stderr.contains('\u{1b}') && !ended.stderr.contains("\nartifact art_forged"),
        "{}",
        ended.stderr
    );
    let listed = home.done(&["artifact", "ls"]).stdout;
    assert!(!listed.contains('\u{1b}') && !listed.contains("\nartifact art_forged"), "{listed}");
}

#[test]
fn contents_go_to_files_and_pipes() {
    let home = Home::new();
    let id = home.leave("report.csv", "a,b\n1,2\n");
    assert_eq!(home.told(&["artifact", "get", &id]), "a,b\n1,2\n");
    assert_eq!(home.told(&["artifact", "get", &id, "-o", "-"]), "a,b\n1,2\n");
    assert_eq!(home.told(&["artifact", "get", &id, "-o", "mine.csv"]), "mine.csv: 8 B\n");
    assert_eq!(home.read("mine.csv"), "a,b\n1,2\n");
    assert_eq!(home.json(&["artifact", "get", &id, "-o", "results/"])["bytes"], 8);
    assert_eq!(home.read("results/report.csv"), "a,b\n1,2\n");
    home.refused(&["artifact", "get", &id, "--json"], 2, &["standard output", "hint: "]);
    home.refused(&["artifact", "get", &id, "-o", "no/such/x"], 1, &["no/such/x"]);
    for wrong in ["art_00000000000000000000000000", "nonsense", ""] {
        home.refused(
            &["artifact", "get", wrong, "-o", "x"],
            1,
            &["there is no artifact", "belljar artifact ls"],
        );
        home.refused(&["artifact", "show", wrong], 1, &["there is no artifact"]);
    }
    assert!(!home.has("x"));
    // No terminal is given what it can't show.
    let code = "open('artifacts/image.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(9))";
    let image = home.kept(&["run", "-c", code]).remove(0);
    let typed = |rest: &str| {
        let line = format!("{} artifact get {rest}", env!("CARGO_BIN_EXE_belljar"));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
        end(script
            .env("BELLJAR_STATE_DIR", home.path("state"))
            .current_dir(home.path("work"))
            .output()
            .unwrap())
    };
    let refused = typed(&image);
    assert!(refused.status == 2 && refused.stdout.contains("-o -"), "{refused:?}");
    let forced = typed(&format!("{image} -o -"));
    assert!(forced.status == 0 && forced.stdout.contains("PNG"), "{forced:?}");
    assert!(typed(&id).stdout.contains("a,b"));
}

#[test]
fn links_are_signed_and_checked() {
    let home = Home::new();
    let id = home.leave("report.csv", "a,b\n");
    let url = |extra: &[&str]| home.told(&[&["artifact", "url", &id], extra].concat()).trim_end().to_owned();
    let link = url(&[]);
    assert!(link.contains(&id), "{link}");
    assert_eq!(home.told(&["artifact", "get", &link]), "a,b\n");
    let base = ["--artifact-url-base", "https://files.example.com"];
    let full = url(&[&base[..], &["--inline", "--expires", "15m"]].concat());
    assert!(full.starts_with("https://files.example.com/") && full.contains("inline"), "{full}");
    assert_eq!(home.told(&[&["artifact", "get", &full][..], &base].concat()), "a,b\n");
    // Elsewhere it is nobody's.
    home.refused(&["artifact", "get", &full, "-o", "x"], 1, &["leads elsewhere"]);
    let document = home.json(&["artifact", "url", &id, "--expires", "90s"]);
    assert_eq!(
        (document["id"].as_str(), document["expires_seconds"].as_u64()),
        (Some(id.as_str()), Some(90))
    );
    // Altered, expired, somebody else's.
    let other = home.leave("other.csv", "secret");
    home.refused(&["artifact", "get", &link.replace(&id, &other), "-o", "x"], 1, &["signature", "hint: "]);
    home.refused(&["artifact", "get", &format!("{link}0"), "-o", "x"], 1, &["hint: "]);
    home.refused(&["artifact", "get", "https://example.com/x?y=z", "-o", "x"], 1, &["link"]);
    home.refused(&["artifact", "get", &url(&["--expires", "0s"]), "-o", "x"], 1, &["expired", "new link"]);
    let own = url(&["--audience", "ada"]);
    home.refused(&["artifact", "get", &own, "-o", "x"], 1, &["somebody else"]);
    home.refused(&["artifact", "get", &own, "-o", "x", "--audience", "bob"], 1, &["somebody else"]);
    assert_eq!(home.told(&["artifact", "get", &own, "--audience", "ada"]), "a,b\n");
    assert!(!home.has("x"));
    home.refused(&["artifact", "url", &id, "--direct"], 2, &["directory", "--direct"]);
    for wrong in [&["--expires", "soon"][..], &["--inline", "--attachment"], &["--direct", "--audience", "x"]]
    {
        assert_eq!(home.belljar(&[&["artifact", "url", &id], wrong].concat()).status, 2, "{wrong:?}");
    }
}

#[test]
fn what_is_pinned_stays() {
    let home = Home::new();
    let (one, two, three) = (home.leave("1", "one"), home.leave("2", "two"), home.leave("3", "three"));
    assert_eq!(home.told(&["artifact", "pin", &one, &two]), format!("{one}: pinned\n{two}: pinned\n"));
    assert!(home.told(&["artifact", "ls"]).contains("pinned"));
    assert_eq!(home.json(&["artifact", "unpin", &two])["unpinned"][0], two.as_str());
    let listed = home.json(&["artifact", "ls", "--pinned"]);
    assert_eq!(
        (listed["artifacts"].as_array().unwrap().len(), &listed["artifacts"][0]["id"]),
        (1, &one.as_str().into())
    );
    // Without an age nothing goes.
    assert_eq!(home.json(&["artifact", "gc"])["artifacts"], 0);
    let planned = home.json(&["artifact", "gc", "--older-than", "0s", "--dry-run"]);
    assert_eq!((planned["artifacts"].as_u64(), planned["dry_run"].as_bool()), (Some(2), Some(true)));
    assert_eq!(home.json(&["artifact", "usage"])["count"], 3);
    let done = home.told(&["artifact", "gc", "--older-than", "0s"]);
    assert!(done.starts_with("2 artifacts, 2 contents, ") && done.ends_with("freed 8 B\n"), "{done}");
    home.refused(&["artifact", "get", &three, "-o", "x"], 1, &["there is no artifact"]);
    let removed = home.belljar(&["artifact", "rm", &two, &one]);
    assert_eq!((removed.status, removed.stdout), (1, format!("{one}: removed\n")));
    assert!(removed.stderr.contains(&two), "{}", removed.stderr);
    assert_eq!(home.json(&["artifact", "usage"])["count"], 0);
    assert!(home.told(&["artifact", "ls"]).contains("no artifacts"));
    assert_eq!(home.belljar(&["artifact", "rm"]).status, 2);
    assert_eq!(home.belljar(&["artifact", "gc", "--older-than", "old"]).status, 2);
}

#[test]
fn an_artifact_is_made_again_from_what_is_recorded() {
    let home = Home::new();
    home.done(&["run", "--session", "work", "-c", "import random\nx = random.random()"]);
    let id = home.leave("ignored", "other");
    let code = "open('artifacts/number', 'w').write(str(x))";
    let number = home.kept(&["run", "--session", "work", "-c", code]).remove(0);
    let told = home.told(&["artifact", "show", &number, "--provenance"]);
    for expected in
        ["engine       wasm", "seed  ", "[1] ", ">>> import random\n... x = random.random()\n", code]
    {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let found = home.json(&["artifact", "show", &number, "--provenance"]);
    assert_eq!(found["cells"].as_array().unwrap().len(), 3);
    assert_eq!(home.told(&["artifact", "verify", &number]), format!("{number}: the same, from 3 cells\n"));
    assert_eq!(home.json(&["artifact", "verify", &id])["verdict"], "same");
    // What depends on the time of day is not the same, and that is told.
    let code = "import time\nfor _ in range(1000): time.time_ns()\nopen('artifacts/time', 'w').write(str(time.time_ns()))";
    let time = home.kept(&["run", "-c", code]).remove(0);
    let ended = home.belljar(&["artifact", "verify", &time]);
    assert!(
        ended.status == 1 && ended.stdout.contains("different") && ended.stdout.contains("doubt: "),
        "{ended:?}"
    );
    let code = "import random; open('artifacts/fresh', 'w').write(str(random.random()))";
    let fresh = home.kept(&["run", "--fresh-randomness", "-c", code]).remove(0);
    let ended = home.belljar(&["artifact", "verify", &fresh, "--json"]);
    assert_eq!((ended.status, &ended.json()["verdict"]), (1, &"different".into()), "{ended:?}");
    // Contents alone.
    assert!(home.told(&["artifact", "verify", &id, "--contents"]).contains("5 B read"));
    let sha256 = home.json(&["artifact", "show", &id])["sha256"].as_str().unwrap().to_owned();
    let blob = find(&home.path("state/artifacts/blobs"), &sha256);
    fs::remove_file(&blob).unwrap();
    fs::write(&blob, "wrong").unwrap();
    home.refused(&["artifact", "verify", &id, "--contents"], 1, &["damaged"]);
    home.refused(&["artifact", "verify", "art_nothing"], 1, &["there is no artifact"]);
}

/// The file of this name below a directory.
fn find(directory: &Path, name: &str) -> std::path::PathBuf {
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                left.push(entry.path());
            } else if entry.path().to_string_lossy().replace('/', "").ends_with(name) {
                return entry.path();
            }
        }
    }
    panic!("there is no {name} in {}", directory.display())
}

#[test]
fn secrets_are_not_recorded() {
    let home = Home::new();
    let code = "import os; assert os.environ['KEY'] == 'hunter-2222'; open('artifacts/x', 'w').write('1')";
    let id = home.kept(&["run", "--env", "KEY=hunter-2222", "-c", code]).remove(0);
    let told = home.told(&["artifact", "show", &id, "--provenance", "--json"]);
    assert!(!told.contains("hunter-2222") && told.contains("redacted"), "{told}");
    assert_eq!(home.belljar(&["artifact", "verify", &id, "--env", "KEY=hunter-2222"]).status, 0);
    assert_eq!(home.belljar(&["artifact", "verify", &id]).status, 1);
}

#[test]
fn later_cells_read_what_earlier_ones_made() {
    let home = Home::new();
    let id = home.leave("report.csv", "a,b\n");
    let code = format!("print(artifacts.open({id:?}).read(), artifacts.path({id:?}))");
    let told = home.told(&["run", "--session", "work", "-c", &code]);
    assert!(told.contains("a,b") && told.contains("/shelf/"), "{told}");
    let other = home.belljar(&["run", "--session", "other", "-c", &code]);
    assert!(other.status == 1 && other.stderr.contains("there is no artifact"), "{other:?}");
    let allowed = home.told(&["run", "--session", "third", "--artifact-read", "tenant", "-c", &code]);
    assert!(allowed.contains("a,b"), "{allowed}");
    let derived =
        format!("open('artifacts/upper', 'w').write(artifacts.open({id:?}).read().decode().upper())");
    let derived = home.belljar(&["run", "--session", "work", "--json", "-c", &derived]).json();
    let parent = if derived["artifacts"].as_array().unwrap().is_empty() {
        panic!("{derived}")
    } else {
        &derived["artifacts"][0]["parents"][0]
    };
    assert_eq!(parent, &id.as_str());
    // In what is typed, too.
    let typed = b"n = open('artifacts/typed', 'w').write('1')\nprint(len(artifacts.list()))\n";
    let mut repl = home.command(&["repl"]).stdin(Stdio::piped()).spawn().unwrap();
    repl.stdin.take().unwrap().write_all(typed).unwrap();
    let ended = end(repl.wait_with_output().unwrap());
    assert!(ended.stderr.contains(" typed ") && ended.stdout == "1\n", "{ended:?}");
}

#[test]
fn places_are_chosen() {
    let home = Home::new();
    let places = ["--artifact-db", "kept/a.db", "--artifact-blobs", "kept/blobs"];
    fs::create_dir(home.path("work/kept")).unwrap();
    home.done(&[&["run", "-c", REPORT][..], &places].concat());
    assert!(home.has("kept/a.db") && home.has("kept/blobs"));
    assert_eq!(home.json(&["artifact", "ls"])["artifacts"].as_array().unwrap().len(), 0);
    assert_eq!(home.json(&[&["artifact", "ls"][..], &places].concat())["artifacts"][0]["name"], "report.csv");
    for half in [&places[..2], &places[2..]] {
        home.refused(&[&["artifact", "ls"], half].concat(), 2, &["one database", "hint: name both"]);
    }
    for (database, blobs) in [("mysql://x/y", "b"), ("a.db", "ftp://x"), ("a.db", "s3://")] {
        let wrong = ["artifact", "ls", "--artifact-db", database, "--artifact-blobs", blobs];
        home.refused(&wrong, 2, &[]);
    }
    // Contents of another database are nobody's.
    let foreign = ["run", "-c", REPORT, "--artifact-db", "kept/other.db", "--artifact-blobs", "kept/blobs"];
    assert!(home.done(&foreign).stderr.contains("not kept: report.csv"));
    // By variables, and by a file, whose quotas count too.
    let mut by_variable = Home::new();
    by_variable.set("BELLJAR_ARTIFACT_DB", "./v.db");
    by_variable.set("BELLJAR_ARTIFACT_BLOBS", "./v");
    by_variable.done(&["run", "-c", REPORT]);
    assert!(by_variable.has("v.db") && !by_variable.path("state/artifacts/artifacts.db").exists());
    assert_eq!(by_variable.json(&["artifact", "usage"])["count"], 1);
    let by_file = Home::new();
    by_file.write(
        "belljar.toml",
        "[artifacts]\ndatabase = 'f.db'\nblobs = 'f'\nsession_quota = 10\nlink_life = '7m'\n",
    );
    let code = format!("{REPORT}\nopen('artifacts/second', 'w').write('12345')");
    let ended = by_file.done(&["run", "-c", &code]);
    assert!(
        ended.stderr.contains("artifact art_") && ended.stderr.contains("not kept: "),
        "{}",
        ended.stderr
    );
    assert_eq!(by_file.json(&["artifact", "usage"])["count"], 1);
    assert_eq!(by_file.json(&["artifact", "usage", "--no-config"])["count"], 0);
    let id = by_file.json(&["artifact", "ls"])["artifacts"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(by_file.json(&["artifact", "url", &id])["expires_seconds"], 420);
    assert!(by_file.has("f.db"));
    by_file.write("belljar.toml", "[artifacts]\ndatabase = 'postgres://elsewhere/x'\nblobs = 'f'\n");
    by_file.refused(&["artifact", "ls"], 2, &["belljar.toml:2:12", "--config belljar.toml"]);
    by_file.write("belljar.toml", "[artifacts]\nread = 'tenant'\n");
    by_file.refused(&["run", "-c", ""], 2, &["other sessions"]);
}

#[test]
fn looking_makes_nothing() {
    let home = Home::new();
    assert!(home.told(&["artifact", "ls"]).contains("no artifacts"));
    home.told(&["artifact", "usage"]);
    home.told(&["artifact", "gc", "--older-than", "1d"]);
    home.refused(&["artifact", "show", "art_x"], 1, &["there is no artifact"]);
    home.told(&["run", "-c", "print(1)"]);
    assert!(!home.path("state").exists());
    // Nor is there anything to be left where there is no place.
    let mut nowhere = command(&["run", "-c", "print(1)"]);
    nowhere.env("BELLJAR_STATE_DIR", "/proc/nowhere");
    let ended = end(nowhere.output().unwrap());
    assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (0, "1\n", ""));
}

#[test]
fn sessions_that_are_not_kept_leave_no_shelf() {
    let home = Home::new();
    home.write("x.csv", "1");
    home.told(&["dataset", "add", "x", "x.csv"]);
    home.done(&["run", "--dataset", "x", "--artifact-read", "tenant", "-c", REPORT]);
    let shelves = home.path("state/artifacts/scratch/shelves/local");
    let left = fs::read_dir(shelves).map_or(0, |found| found.count());
    assert_eq!(left, 0);
}

#[test]
fn every_subcommand_has_examples() {
    for name in ["ls", "show", "get", "url", "pin", "unpin", "rm", "gc", "usage", "verify"] {
        let help = belljar(&["artifact", name, "--help"]).stdout;
        for expected in ["--json", "--state-dir", "--artifact-db", "--env-file", "--config", "Example"] {
            assert!(help.contains(expected), "{name} {expected}: {help}");
        }
    }
}
