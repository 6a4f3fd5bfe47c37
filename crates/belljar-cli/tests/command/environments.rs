//! Packages: on the command line, in files, and under names. Most tests use wheels that they make themselves, and
//! no network once uv is there.

use std::io::Write;
use std::sync::Once;

use serde_json::Value;
use tempfile::TempDir;

use super::*;

/// A working directory and a state directory. The cache is the user's.
pub(super) struct Project {
    directory: TempDir,
}

impl Project {
    pub(super) fn new() -> Self {
        static FETCHED: Once = Once::new();
        // uv reads wheels too, and where it is missing it can't be fetched with `--offline`.
        FETCHED.call_once(|| {
            let first = Self::empty();
            let wheel = first.wheel("belljar_test_first", "1.0", &[]);
            first.done(&["env", "show", "--package", &wheel]);
        });
        Self::empty()
    }

    fn empty() -> Self {
        let project = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(project.path().join("work")).unwrap();
        project
    }

    /// A cache with the user's interpreter and uv, and no packages.
    pub(super) fn cache(&self) -> String {
        let user = belljar(&["runtime", "path"]).stdout;
        let user = Path::new(user.trim()).parent().and_then(Path::parent).unwrap();
        let cache = self.path().join("cache");
        fs::create_dir(&cache).unwrap();
        for kind in ["runtime", "code", "image", "tool"].into_iter().filter(|kind| user.join(kind).is_dir()) {
            let copy = |how| Command::new("cp").arg(how).arg(user.join(kind)).arg(&cache).output().unwrap();
            // Links can't be on another file system.
            assert!(copy("-al").status.success() || copy("-a").status.success());
        }
        cache.to_str().unwrap().to_owned()
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file into the working directory.
    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path().join("work").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes a wheel in the working directory, and returns its name.
    pub(super) fn wheel(&self, name: &str, version: &str, requires: &[&str]) -> String {
        let file = format!("{name}-{version}-py3-none-any.whl");
        let info = format!("{name}-{version}.dist-info");
        let mut metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        for required in requires {
            metadata += &format!("Requires-Dist: {required}\n");
        }
        let wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
        let members = [
            (format!("{name}.py"), format!("version = {version:?}\n")),
            (format!("{info}/METADATA"), metadata),
            (format!("{info}/WHEEL"), wheel.to_owned()),
        ];
        let record: String = members.iter().map(|(path, _)| format!("{path},,\n")).collect();
        let record = (format!("{info}/RECORD"), format!("{record}{info}/RECORD,,\n"));
        let archive = fs::File::create(self.path().join("work").join(&file)).unwrap();
        let mut archive = zip::ZipWriter::new(archive);
        for (path, text) in members.iter().chain([&record]) {
            archive.start_file(path.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap();
        file
    }

    pub(super) fn belljar(&self, arguments: &[&str]) -> Ended {
        let mut command = command(arguments);
        command.current_dir(self.path().join("work")).env("BELLJAR_STATE_DIR", self.path().join("state"));
        end(command.output().unwrap())
    }

    /// One that must succeed, and says nothing but notes.
    pub(super) fn done(&self, arguments: &[&str]) -> String {
        let ended = self.belljar(arguments);
        assert_eq!(ended.status, 0, "{arguments:?}: {ended:?}");
        assert!(ended.stderr.lines().all(|line| line.starts_with("belljar: ")), "{}", ended.stderr);
        ended.stdout
    }

    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// One that must fail with a status, and say why and what to do.
    pub(super) fn refused(&self, arguments: &[&str], status: i32, messages: &[&str]) {
        let ended = self.belljar(arguments);
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains("error: ") && ended.stderr.contains("\nhint: "), "{}", ended.stderr);
        for message in messages {
            assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_wheel_on_the_command_line() {
    let project = Project::new();
    let wheel = project.wheel("belljar_test_one", "1.5", &[]);
    let code = "import belljar_test_one as one; print(one.version, one.__file__)";
    for package in [wheel.clone(), format!("./{wheel}")] {
        let told = project.done(&["run", "--offline", "--package", &package, "-c", code]);
        assert_eq!(told, "1.5 /data/site-packages/belljar_test_one.py\n");
    }
    // It is in the memory that sessions start with.
    let code = "import sys; print('belljar_test_one' in sys.modules)";
    let run = ["run", "--offline", "--package", wheel.as_str(), "-c", code];
    assert_eq!(project.done(&run), "False\n");
    assert_eq!(project.done(&[&run[..], &["--preload", "belljar_test_one"]].concat()), "True\n");
    let code = "import sys; print('/data/site-packages' in sys.path)";
    let run = ["run", "--offline", "--package", wheel.as_str(), "-c", code];
    assert_eq!(project.done(&run), "True\n");
    assert_eq!(project.done(&[&run[..], &["--no-inject-setup"]].concat()), "False\n");
}

#[test]
fn a_session_keeps_its_packages() {
    let project = Project::new();
    let (one, two) =
        (project.wheel("belljar_test_one", "1.0", &[]), project.wheel("belljar_test_two", "2.0", &[]));
    let run = |options: &[&str], code: &str| {
        project.done(&[&["run", "--offline", "--session", "s", "-c", code], options].concat())
    };
    run(&["--package", &one], "import belljar_test_one");
    // The same again, or nothing.
    assert_eq!(run(&["--package", &one], "print(belljar_test_one.version)"), "1.0\n");
    assert_eq!(run(&[], "import belljar_test_one as one; print(one.version)"), "1.0\n");
    let other = ["run", "--offline", "--session", "s", "--package", two.as_str(), "-c", ""];
    project.refused(&other, 2, &["the session s was made with other packages"]);
    // A file that changed later isn't asked.
    project.write("belljar.toml", &format!("[environment]\npackages = ['./{two}']"));
    assert_eq!(run(&[], "print(belljar_test_one.version)"), "1.0\n");
    let code = "import belljar_test_two; print(belljar_test_two.version)";
    assert_eq!(project.done(&["run", "--offline", "--session", "new", "-c", code]), "2.0\n");
    project.done(&["session", "create", "made", "--offline", "--package", &one]);
    let code = "import belljar_test_one; print(belljar_test_one.version)";
    assert_eq!(project.done(&["run", "--session", "made", "-c", code]), "1.0\n");
}

#[test]
fn names() {
    let project = Project::new();
    let wheel = project.wheel("belljar_test_one", "1.5", &[]);
    assert!(project.done(&["env", "ls"]).starts_with("no environments"));
    let create =
        ["env", "create", "web", "--offline", "--package", wheel.as_str(), "--preload", "belljar_test_one"];
    let told = project.done(&create);
    assert!(told.starts_with("web: made, 1 package, "), "{told}");
    assert!(
        told.contains("belljar-test-one  1.5 ") && told.contains("preloaded    belljar_test_one\n"),
        "{told}"
    );
    assert!(project.done(&create).starts_with("web: made anew, "));
    let listed = project.done(&["env", "ls"]);
    assert!(listed.contains(&wheel) && listed.starts_with("NAME  MADE"), "{listed}");
    assert_eq!(project.json(&["env", "ls"])["environments"][0]["name"], "web");
    let code = "import sys; print(sys.modules['belljar_test_one'].version)";
    assert_eq!(project.done(&["run", "--offline", "--environment", "web", "-c", code]), "1.5\n");

    let shown = project.json(&["env", "show", "web", "--offline"]);
    assert_eq!(shown["environment"]["packages"][0]["version"], "1.5");
    assert_eq!(shown["sha256"]["belljar-test-one"].as_str().map(str::len), Some(64), "{shown}");
    let again = project.json(&["env", "show", "--offline", "--package", &wheel]);
    assert_eq!(again["environment"]["directory"], shown["environment"]["directory"]);

    project.write("belljar.toml", "[environment]\nname = 'web'");
    assert_eq!(project.done(&["run", "--offline", "-c", code]), "1.5\n");
    assert_eq!(project.done(&["env", "rm", "web"]), "web: removed\n");
    project.refused(&["env", "rm", "web"], 2, &["there is no environment \"web\""]);
    project.refused(&["run", "-c", ""], 2, &["there is no environment \"web\"", "belljar env ls"]);
    project.refused(&["run", "--environment", "none", "-c", ""], 2, &["there is no environment \"none\""]);
    project.refused(&["env", "create", "../x", "--no-config", "--preload", "json"], 2, &["../x"]);
    project.refused(&["env", "create", "x", "--no-config"], 2, &["there is nothing to make x of"]);
}

#[test]
fn set_up_code() {
    let project = Project::new();
    project.write(
        "prepare.py",
        "import json\nready = json.dumps([1])\nopen('/workspace/made', 'w').write('x')\n",
    );
    project.done(&["env", "create", "ready", "--setup", "prepare.py"]);
    let code = "print(ready, open('made').read())";
    assert_eq!(project.done(&["run", "--environment", "ready", "-c", code]), "[1] x\n");
    project.refused(&["env", "create", "x", "--setup", "missing.py"], 2, &["cannot read missing.py"]);
    project.write("prepare.py", "1 / 0");
    project.refused(&["env", "create", "x", "--setup", "prepare.py"], 2, &["ZeroDivisionError"]);
    project.refused(
        &["run", "--preload", "no_such_module", "-c", ""],
        2,
        &["importing no_such_module failed"],
    );
}

#[test]
fn locks() {
    let project = Project::new();
    let (one, two) =
        (project.wheel("belljar_test_one", "1.0", &[]), project.wheel("belljar_test_two", "2.0", &[]));
    let file = |packages: &str| format!("[environment]\npackages = [{packages}]\nlock = 'pylock.toml'");
    project.write("belljar.toml", &file(&format!("'./{one}'")));
    let locked = project.done(&["env", "lock", "--offline"]);
    assert_eq!(locked, "+ belljar-test-one 1.0\npylock.toml: 1 package\n");
    assert!(project.done(&["env", "lock", "--offline"]).ends_with("pylock.toml: 1 package, as before\n"));
    let code = "import belljar_test_one; print(belljar_test_one.version)";
    assert_eq!(project.done(&["run", "--offline", "-c", code]), "1.0\n");
    assert_eq!(
        project.done(&["run", "--offline", "--no-config", "--lock", "pylock.toml", "-c", code]),
        "1.0\n"
    );

    project.write("belljar.toml", &file(&format!("'./{one}', './{two}'")));
    project.refused(&["run", "-c", ""], 2, &["does not have belljar-test-two", "belljar env lock"]);
    let locked = project.json(&["env", "lock", "--offline"]);
    assert_eq!(locked["changes"], serde_json::json!(["+ belljar-test-two 2.0"]));
    assert_eq!(project.done(&["run", "--offline", "-c", code]), "1.0\n");
    let text = project.done(&["env", "lock", "--offline", "--package", &two, "-o", "-"]);
    assert!(text.contains("lock-version") && text.contains("belljar-test-two"), "{text}");
    project.refused(&["env", "lock", "--no-config"], 2, &["there are no packages to lock"]);
    project.write("pylock.toml", "nonsense");
    project.refused(&["run", "-c", ""], 2, &["this isn't a lock"]);
}

#[test]
fn pruning() {
    let project = Project::new();
    let (one, two) =
        (project.wheel("belljar_test_one", "1.0", &[]), project.wheel("belljar_test_two", "2.0", &[]));
    let cache = project.cache();
    let cache = ["--offline", "--cache-dir", cache.as_str()];
    let with = |arguments: &[&str]| project.json(&[arguments, &cache].concat());
    with(&["env", "create", "kept", "--package", &one]);
    with(&["env", "show", "--package", &two]);
    let kinds = |pruned: &Value| -> Vec<String> {
        let removed = pruned["removed"].as_array().unwrap().iter();
        let kinds = removed.map(|entry| entry["kind"].as_str().unwrap().to_owned());
        kinds.filter(|kind| ["packages", "wheel"].contains(&kind.as_str())).collect()
    };
    assert_eq!(with(&["env", "prune"])["removed"], serde_json::json!([]));
    let would = with(&["env", "prune", "--older-than", "0s", "--dry-run"]);
    assert_eq!(kinds(&would), ["packages", "wheel"]);
    assert!(would["freed_bytes"].as_u64().unwrap() > 0);
    assert_eq!(kinds(&with(&["env", "prune", "--older-than", "0s"])), ["packages", "wheel"]);
    let code = "import belljar_test_one; print(belljar_test_one.version)";
    let run = [&["run", "--environment", "kept", "-c", code][..], &cache].concat();
    assert_eq!(project.done(&run), "1.0\n");
    project.done(&["env", "rm", "kept"]);
    assert_eq!(kinds(&with(&["env", "prune", "--older-than", "0s"])), ["packages", "wheel"]);
}

#[test]
fn what_cannot_be_had() {
    let project = Project::new();
    let run = |package: &'static str| ["run", "--offline", "--package", package, "-c", "print(1)"];
    project.refused(&run(">>nonsense"), 2, &["`>>nonsense` isn't a requirement"]);
    project.refused(
        &run("./missing-1.0-py3-none-any.whl"),
        2,
        &["missing-1.0-py3-none-any.whl can't be read"],
    );
    project.write("broken-1.0-py3-none-any.whl", "no archive");
    project.refused(&run("./broken-1.0-py3-none-any.whl"), 2, &["broken-1.0-py3-none-any.whl is refused"]);
    project.refused(&run("belljar-no-such-package-xyz"), 125, &["fetching is switched off"]);
    project.refused(&["run", "--lock", "missing.toml", "-c", ""], 2, &["cannot read missing.toml"]);
    for wrong in [&["--environment", "x", "--package", "y"][..], &["--config", "x", "--no-config"]] {
        let ended = project.belljar(&[&["run", "-c", ""], wrong].concat());
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains("cannot be used with"), "{}", ended.stderr);
    }
}

#[test]
fn the_real_index() {
    let project = Project::new();
    let code = "import tabulate; print(tabulate.tabulate([[1, 2]], tablefmt='plain'))";
    assert_eq!(project.done(&["run", "--package", "tabulate", "-c", code]), "1  2\n");
    // Once it is cached nobody is asked.
    assert_eq!(project.done(&["run", "--offline", "--package", "tabulate", "-c", code]), "1  2\n");
    let run = |packages: &[&'static str]| {
        let named = packages.iter().flat_map(|package| ["--package", package]);
        ["run", "-c", ""].into_iter().chain(named).collect::<Vec<_>>()
    };
    project.refused(&run(&["belljar-no-such-package-xyz"]), 2, &["belljar-no-such-package-xyz"]);
    project.refused(&run(&["tabulate==0.9.0", "tabulate<0.9"]), 2, &["contradict each other", "tabulate"]);
}
