//! Sessions that outlive processes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A state directory, and what is typed with it.
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

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("BELLJAR_STATE_DIR", self.path());
        command
    }

    fn belljar(&self, arguments: &[&str]) -> Ended {
        end(self.command(arguments).output().unwrap())
    }

    /// Runs code in a session that must answer.
    fn run(&self, session: &str, code: &str) -> String {
        let ended = self.belljar(&["run", "--session", session, "-c", code]);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{code}: {ended:?}");
        ended.stdout
    }

    /// A subcommand of `session` that must succeed.
    fn session(&self, arguments: &[&str]) -> String {
        let ended = self.belljar(&[&["session"], arguments].concat());
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{arguments:?}: {ended:?}");
        ended.stdout
    }

    /// The same for programs.
    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.session(&[arguments, &["--json"]].concat());
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// One that must fail, with a status, and say why.
    fn refused(&self, arguments: &[&str], status: i32, message: &str) {
        let ended = self.belljar(arguments);
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains("\nhint: "), "{}", ended.stderr);
        assert!(ended.stderr.contains(message), "{arguments:?}: {}", ended.stderr);
    }

    fn repl(&self, session: &str, input: &str) -> Ended {
        let mut child = self.command(&["repl", "--session", session]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        end(child.wait_with_output().unwrap())
    }

    fn names(&self) -> Vec<String> {
        let listed = self.json(&["ls"]);
        let sessions = listed["sessions"].as_array().unwrap();
        sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Starts code in a session, and waits for its first line.
    fn start(&self, session: &str, code: &str) -> Child {
        let mut child = self.command(&["run", "--session", session, "-c", code]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "go\n");
        child
    }
}

mod state {
    use super::*;

    #[test]
    fn everything_stays_between_processes() {
        let home = Home::new();
        home.run(
            "s",
            "import sqlite3, sys\n\
             x = 41\n\
             def count():\n    n = 0\n    while True:\n        n += 1\n        yield n\n\
             g = count(); next(g)\n\
             add = (lambda y: lambda z: y + z)(2)\n\
             handle = open('f', 'w+'); handle.write('first ')\n\
             db = sqlite3.connect(':memory:'); db.execute('create table t (v)')\n\
             db.execute('insert into t values (7)'); db.commit()\n\
             disk = sqlite3.connect('disk.db'); disk.execute('create table t (v)'); disk.commit()",
        );
        assert_eq!(home.run("s", "print(x + 1, next(g), add(40))"), "42 2 42\n");
        assert_eq!(
            home.run("s", "handle.write('second'); handle.flush(); print(open('f').read())"),
            "first second\n"
        );
        assert_eq!(home.run("s", "print(db.execute('select v from t').fetchall())"), "[(7,)]\n");
        home.run("s", "disk.execute('insert into t values (8)'); disk.commit()");
        assert_eq!(
            home.run("s", "print(sqlite3.connect('disk.db').execute('select v from t').fetchall(), next(g))"),
            "[(8,)] 3\n"
        );
        assert_eq!(home.run("other", "print('x' in globals())"), "False\n");
        assert_eq!(home.names(), ["other", "s"]);
    }

    #[test]
    fn a_state_directory_by_option() {
        let home = Home::new();
        let elsewhere = tempfile::tempdir().unwrap();
        let directory = elsewhere.path().join("not/yet/there");
        let option = ["--state-dir", directory.to_str().unwrap()];
        let run = |code| home.belljar(&[&["run", "--session", "s", "-c", code][..], &option].concat());
        assert_eq!(run("x = 1").status, 0);
        assert_eq!(run("print(x)").stdout, "1\n");
        assert_eq!(home.names(), [""; 0]);
        let listed = home.belljar(&[&["session", "ls", "--json"][..], &option].concat()).json();
        assert_eq!(listed["sessions"][0]["id"], "s");
    }

    #[test]
    fn arguments_are_those_of_the_run() {
        let home = Home::new();
        for (argument, expected) in [("a", "['-c', 'a']\n"), ("b", "['-c', 'b']\n")] {
            let ended =
                home.belljar(&["run", "--session", "s", "-c", "import sys; print(sys.argv)", argument]);
            assert_eq!(ended.stdout, expected, "{}", ended.stderr);
        }
    }

    #[test]
    fn cells_that_fail_have_their_status_and_are_kept() {
        let home = Home::new();
        for (code, status) in
            [("x = 1; 1 / 0", 1), ("x += 1; import sys; sys.exit(7)", 7), ("x += 1\nwhile True: pass", 124)]
        {
            let ended = home.belljar(&["run", "--session", "s", "--timeout", "0.3", "-c", code]);
            assert_eq!(ended.status, status, "{ended:?}");
        }
        assert_eq!(home.run("s", "print(x)"), "3\n");
        let ended = home.belljar(&["run", "--session", "s", "-c", "x = 9; import os; os.abort()"]);
        assert_eq!(ended.status, 137);
        assert!(ended.stderr.contains("(state rolled back)"), "{}", ended.stderr);
        let outcome = home.belljar(&["run", "--session", "s", "--json", "-c", "x"]).json();
        assert_eq!((&outcome["value"]["text"], &outcome["session"]["id"]), (&json!("3"), &json!("s")));
        assert_eq!(outcome["session"]["cell"], 6);
    }

    #[test]
    fn limits_of_a_run_are_not_the_sessions() {
        let home = Home::new();
        home.session(&["create", "s", "--memory", "96MiB", "--rollback", "on-error", "--timeout", "20"]);
        let policy = home.json(&["show", "s"])["policy"].clone();
        assert_eq!((&policy["memory"], &policy["rollback"]), (&json!(96 << 20), &json!("on_error")));
        home.run("s", "x = 1");
        let large = "y = bytearray(120 << 20); del y; print('had it')";
        assert_eq!(home.belljar(&["run", "--session", "s", "-c", large]).status, 137);
        home.session(&["fork", "s", "m"]);
        let ended = home.belljar(&["run", "--session", "m", "--memory", "256MiB", "-c", large]);
        assert_eq!((ended.status, ended.stdout.as_str()), (0, "had it\n"), "{ended:?}");
        assert_eq!(home.json(&["show", "m"])["policy"], policy);
        // What it has now, it must be allowed.
        home.refused(&["run", "--session", "m", "-c", "x"], 125, "may have 96");
        assert_eq!(home.belljar(&["run", "--session", "m", "--memory", "256MiB", "-c", "x"]).status, 0);
        assert_eq!(home.belljar(&["run", "--session", "s", "-c", "x = 2; 1 / 0"]).status, 1);
        assert_eq!(home.run("s", "print(x)"), "1\n", "on-error is the session's own");
        let never = ["run", "--session", "s", "--rollback", "on-kill", "-c", "x = 3; 1 / 0"];
        assert_eq!(home.belljar(&never).status, 1);
        assert_eq!(home.run("s", "print(x)"), "3\n");
        let ended = home.belljar(&["run", "--session", "s", "--steps", "100000", "-c", "while True: pass"]);
        assert_eq!(ended.status, 124, "{ended:?}");
        home.refused(&["run", "--session", "s", "--seed", "1", "-c", "x"], 2, "has its randomness");
        let seeded = ["run", "--session", "seeded", "--seed", "1", "-c", "pass"];
        assert_eq!((home.belljar(&seeded).status, home.belljar(&seeded).status), (0, 0));
    }

    #[test]
    fn mounts_are_found_from_any_directory() {
        let home = Home::new();
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("data")).unwrap();
        fs::write(place.path().join("data/f"), "mounted").unwrap();
        let mut create = home.command(&["session", "create", "s", "--mount", "data:/data"]);
        assert_eq!(end(create.current_dir(place.path()).output().unwrap()).status, 0);
        assert_eq!(home.run("s", "print(open('/data/f').read())"), "mounted\n");
    }
}

mod faults {
    use super::*;

    #[test]
    fn a_killed_process_leaves_the_former_state() {
        let home = Home::new();
        home.run("s", "x = 1; open('f', 'w').write('one')");
        for _ in 0..3 {
            let mut child =
                home.start("s", "x = 2; open('f', 'w').write('two'); print('go')\nwhile True: pass");
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(home.run("s", "print(x, open('f').read())"), "1 one\n");
        }
        let mut child = home.start("new", "print('go')\nwhile True: pass");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(home.run("new", "print('x' in globals())"), "False\n");
    }

    #[test]
    fn an_interrupted_cell_is_kept() {
        let home = Home::new();
        let child = home.start("s", "x = 2; print('go')\nwhile True: pass");
        interrupt(&child);
        let ended = end(child.wait_with_output().unwrap());
        assert_eq!(ended.status, 130, "{ended:?}");
        assert_eq!(home.run("s", "print(x)"), "2\n");
    }

    #[test]
    fn a_busy_session_is_waited_for() {
        let home = Home::new();
        home.run("s", "x = 1");
        let child = home.start("s", "import time; print('go'); time.sleep(1.5); x += 1");
        assert_eq!(home.json(&["show", "s"])["state"], "live");
        for arguments in [
            &["run", "--session", "s", "--wait", "0.1", "-c", "x"][..],
            &["session", "hibernate", "s", "--wait", "0.1"],
            &["session", "checkpoint", "s", "--wait", "0"],
            &["session", "close", "s", "--wait", "0"],
        ] {
            home.refused(arguments, 125, &format!("is in use by process {}", child.id()));
        }
        assert_eq!(home.run("other", "print(1)"), "1\n");
        assert_eq!(home.run("s", "print(x)"), "2\n");
        assert_eq!(end(child.wait_with_output().unwrap()).status, 0);
        assert_eq!(home.json(&["hibernate", "s"])["was_live"], false);
        assert!(home.session(&["hibernate", "s"]).contains("hibernated already"));
    }

    #[test]
    fn many_processes_at_once_lose_nothing() {
        let home = Home::new();
        let children: Vec<Child> = (0..6)
            .map(|_| {
                let code = "n = globals().get('n', 0) + 1";
                home.command(&["run", "--session", "s", "-c", code]).spawn().unwrap()
            })
            .collect();
        for child in children {
            let ended = end(child.wait_with_output().unwrap());
            assert_eq!(ended.status, 0, "{ended:?}");
        }
        assert_eq!(home.run("s", "print(n)"), "6\n");
    }

    #[test]
    fn what_cannot_be_kept_is_no_success() {
        let home = Home::new();
        home.run("s", "x = 1");
        let (place, away) = (home.path().join("tenants"), home.path().join("away"));
        let child =
            home.start("s", "import time; x = 2; print('go', flush=True); time.sleep(0.5); print('out')");
        fs::rename(&place, &away).unwrap();
        let ended = end(child.wait_with_output().unwrap());
        fs::remove_dir_all(&place).ok();
        fs::rename(&away, &place).unwrap();
        assert_eq!((ended.status, ended.stdout.as_str()), (125, "out\n"), "{ended:?}");
        assert!(
            ended.stderr.starts_with("error: what was run is not kept, the session s is as it was before: ")
        );
        assert_eq!(home.run("s", "print(x)"), "1\n");
    }

    #[test]
    fn a_damaged_session_hides_no_other() {
        let home = Home::new();
        home.run("bad", "x = 1");
        home.run("good", "x = 1");
        let record = home.path().join("tenants/local/sessions/bad/session.json");
        let mut bytes = fs::read(&record).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&record, bytes).unwrap();
        let listed = home.belljar(&["session", "ls"]);
        assert_eq!(listed.status, 1, "{listed:?}");
        assert!(listed.stdout.contains("good") && listed.stderr.contains("is damaged"), "{listed:?}");
        let listed = home.belljar(&["session", "ls", "--json"]);
        assert_eq!(listed.status, 1);
        assert_eq!(listed.json()["damaged"].as_array().unwrap().len(), 1);
        home.refused(&["run", "--session", "bad", "-c", "x"], 125, "is damaged");
        assert_eq!(home.run("good", "print(x)"), "1\n");
        let verified = home.belljar(&["session", "verify", "--json"]);
        assert_eq!((verified.status, verified.json()["damaged"].as_array().unwrap().len()), (1, 1));
        assert_eq!(home.session(&["close", "bad"]), "bad: closed\n");
        assert_eq!(home.names(), ["good"]);
    }

    #[test]
    fn wrong_usage() {
        let home = Home::new();
        home.run("s", "x = 1");
        let long = "n".repeat(65);
        for name in ["", ".", "..", "../s", "a/b", "a b", "-x", "ä", long.as_str()] {
            let option = format!("--session={name}");
            home.refused(&["run", &option, "-c", "1"], 2, "can't be the name of a session");
            home.refused(&["session", "show", "--", name], 2, "can't be the name of a session");
        }
        home.refused(&["run", "--wait", "1", "-c", "1"], 2, "none is named");
        home.refused(&["session", "create", "s"], 125, "exists already");
        for command in
            ["show", "history", "checkpoint", "rollback", "undo", "fork", "hibernate", "wake", "close"]
        {
            home.refused(&["session", command, "none"], 125, "there is no session none");
        }
        home.refused(&["session", "rollback", "s", "none"], 125, "no checkpoint \"none\"");
        home.refused(&["session", "rollback", "s"], 125, "no checkpoint");
        home.refused(&["session", "checkpoint", "s", "--delete", "3"], 125, "no checkpoint \"3\"");
        home.refused(&["session", "undo", "s", "2"], 125, "2 cells cannot be taken back");
        for wrong in [
            &["session"][..],
            &["session", "close"],
            &["session", "undo", "s", "0"],
            &["session", "fork", "s", "--count", "0"],
            &["session", "prune", "--idle", "7"],
            &["session", "prune", "--keep", "much"],
            &["session", "create", "t", "--rollback", "sometimes"],
            &["session", "checkpoint", "s", "label", "--list"],
            &["run", "--session", "s", "--wait", "-1", "-c", "1"],
        ] {
            let ended = home.belljar(wrong);
            assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{wrong:?}: {ended:?}");
        }
        assert_eq!(home.names(), ["s"]);
    }
}

mod time {
    use super::*;

    #[test]
    fn checkpoints() {
        let home = Home::new();
        home.run("s", "x = 1; open('f', 'w').write('one')");
        assert_eq!(home.session(&["checkpoint", "s"]), "s: checkpoint 1, after cell 1\n");
        home.run("s", "x = 2; open('f', 'w').write('two')");
        let made = home.json(&["checkpoint", "s", "second"])["checkpoint"].clone();
        assert_eq!((&made["number"], &made["name"], &made["cell"]), (&json!(2), &json!("second"), &json!(2)));
        home.run("s", "x = 3; import os; os.remove('f')");
        assert_eq!(home.session(&["rollback", "s"]), "s: as at checkpoint 2 (second), after cell 2\n");
        assert_eq!(home.run("s", "print(x, open('f').read())"), "2 two\n");
        home.session(&["rollback", "s", "1"]);
        assert_eq!(home.run("s", "print(x, open('f').read())"), "1 one\n");
        assert_eq!(home.json(&["rollback", "s", "latest"])["checkpoint"]["name"], "second");
        assert_eq!(home.run("s", "print(x)"), "2\n");
        let list = home.session(&["checkpoint", "s", "--list"]);
        assert!(list.contains("NUMBER") && list.contains("second"), "{list}");
        assert_eq!(home.json(&["checkpoint", "s", "--list"])["checkpoints"].as_array().unwrap().len(), 2);
        home.refused(&["session", "checkpoint", "s", "second"], 125, "already");
        home.session(&["checkpoint", "s", "--delete", "second"]);
        home.refused(&["session", "rollback", "s", "second"], 125, "no checkpoint");
        assert_eq!(home.json(&["show", "s"])["checkpoints"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn undo() {
        let home = Home::new();
        for n in 1..=4 {
            home.run("s", &format!("x = {n}; open('f', 'w').write('{n}')"));
        }
        let undone = home.json(&["undo", "s"]);
        assert_eq!((&undone["undone"], &undone["undoable"]), (&json!([4]), &json!([3, 2, 1])));
        assert_eq!(home.run("s", "print(x, open('f').read())"), "3 3\n");
        assert_eq!(home.session(&["undo", "s", "3"]), "s: took back cells 5, 3, 2; 1 more can be\n");
        assert_eq!(home.run("s", "print(x, open('f').read())"), "1 1\n");
    }

    #[test]
    fn forks() {
        let home = Home::new();
        home.run("s", "x = 1; open('f', 'w').write('one'); g = iter(range(10)); next(g)");
        home.session(&["checkpoint", "s", "start"]);
        home.run("s", "x = 2");
        assert_eq!(home.session(&["fork", "s", "a"]), "a\n");
        assert_eq!(home.session(&["fork", "s", "b", "--from", "start", "--count", "2"]), "b-1\nb-2\n");
        let made = home.json(&["fork", "s", "--count", "2"])["children"].clone();
        let made = made.as_array().unwrap().clone();
        assert_eq!(made.len(), 2);
        assert_eq!(home.run("a", "print(x, next(g)); x = 'a'; open('f', 'w').write('a')"), "2 1\n");
        assert_eq!(home.run("b-1", "print(x, next(g), open('f').read())"), "1 1 one\n");
        assert_eq!(home.run(made[1].as_str().unwrap(), "print(x)"), "2\n");
        assert_eq!(home.run("s", "print(x, next(g), open('f').read())"), "2 1 one\n");
        assert_eq!(home.json(&["show", "b-1"])["parent"]["session"], "s");
        home.refused(&["session", "fork", "s", "b", "--count", "3"], 125, "exists already");
        assert!(!home.names().contains(&"b-3".to_owned()));
        home.refused(&["session", "fork", "s", "c", "--from", "none"], 125, "no checkpoint");
        let random = "import random; print(random.random())";
        assert_ne!(home.run("a", random), home.run("b-2", random));
        home.session(&["close", "s"]);
        assert_eq!(home.run("b-2", "print(x)"), "1\n", "a child needs no parent");
    }

    #[test]
    fn history() {
        let home = Home::new();
        home.run("s", "def f(x):\n    return x\n\nprint(f('\\x1b[2Jshown'))");
        home.belljar(&["run", "--session", "s", "-c", "for i in range(100): print(i)\n1 / 0"]);
        home.belljar(&["run", "--session", "s", "--json", "-c", "6 * 7"]);
        home.session(&["undo", "s"]);
        let text = home.session(&["history", "s"]);
        for expected in [
            ">>> def f(x):\n...     return x\n...\n... print(f('\\x1b[2Jshown'))\n    \u{fffd}[2Jshown\n",
            "    … 90 more lines …\n",
            "    ZeroDivisionError: division by zero\n",
            ">>> 6 * 7\n    42\n",
            "undo: ",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let entries = home.json(&["history", "s"])["entries"].clone();
        assert_eq!(entries.as_array().unwrap().len(), 4);
        assert_eq!((&entries[1]["number"], &entries[1]["outcome"]["status"]), (&json!(2), &json!("error")));
        assert_eq!(entries[1]["outcome"]["stdout"].as_str().unwrap().lines().count(), 100);
        assert_eq!(entries[2]["code"], "6 * 7");
    }

    #[test]
    fn a_notebook_is_one() {
        let home = Home::new();
        home.run("s", "print('out')\nimport sys; print('err', file=sys.stderr) if 0 else None");
        home.belljar(&["run", "--session", "s", "-c", "display({'a': 1}); 6 * 7"]);
        home.belljar(&["run", "--session", "s", "-c", "1 / 0"]);
        home.session(&["undo", "s"]);
        let file = home.path().join("s.ipynb");
        assert_eq!(home.session(&["history", "s", "--notebook", file.to_str().unwrap()]), "");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(home.session(&["history", "s", "--notebook", "-"]), text);
        let notebook: Value = serde_json::from_str(&text).unwrap();
        check_notebook(&notebook);
        let cells = notebook["cells"].as_array().unwrap();
        assert_eq!(
            cells[0]["outputs"],
            json!([{ "output_type": "stream", "name": "stdout", "text": ["out\n"] }])
        );
        assert_eq!(cells[1]["outputs"][1]["data"]["text/plain"], json!(["42"]));
        assert_eq!(cells[2]["outputs"][0]["ename"], "ZeroDivisionError");
        assert_eq!(cells[3]["cell_type"], "markdown");
    }

    /// The rules of nbformat 4.5, as far as they concern what Belljar writes.
    fn check_notebook(notebook: &Value) {
        assert_eq!((&notebook["nbformat"], &notebook["nbformat_minor"]), (&json!(4), &json!(5)));
        assert!(notebook["metadata"].is_object());
        let lines = |value: &Value| value.as_array().unwrap().iter().all(Value::is_string);
        let mut ids = std::collections::BTreeSet::new();
        for cell in notebook["cells"].as_array().unwrap() {
            let id = cell["id"].as_str().unwrap();
            assert!(!id.is_empty() && id.len() <= 64 && ids.insert(id.to_owned()), "{id}");
            assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{id}");
            assert!(cell["metadata"].is_object() && lines(&cell["source"]));
            if cell["cell_type"] == "markdown" {
                continue;
            }
            assert_eq!(cell["cell_type"], "code");
            assert!(cell["execution_count"].is_u64());
            for output in cell["outputs"].as_array().unwrap() {
                match output["output_type"].as_str().unwrap() {
                    "stream" => assert!(output["name"].is_string() && lines(&output["text"])),
                    "display_data" => assert!(output["data"].is_object() && output["metadata"].is_object()),
                    "execute_result" => {
                        assert!(output["data"].is_object() && output["metadata"].is_object());
                        assert!(output["execution_count"].is_u64());
                    }
                    "error" => assert!(
                        output["ename"].is_string()
                            && output["evalue"].is_string()
                            && lines(&output["traceback"])
                    ),
                    other => panic!("{other}"),
                }
            }
        }
    }
}

mod keeping {
    use super::*;

    #[test]
    fn create_list_show_wake_close() {
        let home = Home::new();
        assert!(home.session(&["ls"]).starts_with("no sessions in "));
        let generated = home.session(&["create"]);
        assert_eq!(home.session(&["create", "named"]), "named\n");
        assert_eq!(home.run(generated.trim_end(), "print(1)"), "1\n");
        home.run("named", "x = b'x' * (1 << 20); open('f', 'w').write('x' * 5000)");
        let table = home.session(&["ls"]);
        assert!(table.starts_with("NAME ") && table.lines().count() == 3, "{table}");
        for session in home.json(&["ls"])["sessions"].as_array().unwrap() {
            for field in [
                "id",
                "state",
                "created_ms",
                "last_used_ms",
                "cells",
                "memory_bytes",
                "stored_bytes",
                "checkpoints",
            ] {
                assert!(session.get(field).is_some(), "{field}");
            }
        }
        let shown = home.json(&["show", "named"]);
        assert_eq!((&shown["state"], &shown["cells"]), (&json!("hibernated"), &json!(1)));
        assert!(
            shown["memory_bytes"].as_u64().unwrap() > 1 << 20
                && shown["file_bytes"].as_u64().unwrap() >= 5000
        );
        let shown = home.session(&["show", "named"]);
        assert!(shown.contains("limits       30s, 256 MiB memory"), "{shown}");
        assert!(home.json(&["wake", "named"])["wake_ms"].is_f64());
        assert_eq!(home.json(&["show", "named"])["cells"], 1);
        let ended = home.belljar(&["session", "close", "named", "none", generated.trim_end(), "--json"]);
        assert_eq!(ended.status, 125, "{ended:?}");
        assert_eq!(ended.json()["closed"], json!(["named", generated.trim_end()]));
        assert_eq!(ended.json()["failed"][0]["session"], "none");
        assert_eq!(home.names(), [""; 0]);
        home.refused(&["session", "show", "named"], 125, "there is no session");
    }

    #[test]
    fn a_session_as_a_file() {
        let (home, other) = (Home::new(), Home::new());
        let place = tempfile::tempdir().unwrap();
        let mount = format!("{}:/data", place.path().display());
        home.session(&["create", "s", "--mount", &mount]);
        home.run("s", "x = 1; g = iter(range(5)); next(g)");
        home.session(&["checkpoint", "s", "start"]);
        home.run("s", "x = 2");
        let file = place.path().join("s.belljar");
        let file = file.to_str().unwrap();
        let exported = home.json(&["export", "s", file]);
        assert_eq!(exported["bytes"].as_u64().unwrap(), fs::metadata(file).unwrap().len());
        home.refused(&["session", "import", file], 125, "exists already");
        let ended = home.belljar(&["session", "import", file, "t"]);
        assert_eq!((ended.status, ended.stdout.as_str()), (0, "t\n"), "{ended:?}");
        assert_eq!(ended.stderr, "belljar: the mount at /data was not taken over; --mount gives it one\n");
        assert_eq!(home.run("t", "print(x, next(g))"), "2 1\n");
        home.session(&["rollback", "t", "start"]);
        assert_eq!(home.run("t", "print(x, next(g))"), "1 1\n");
        assert_eq!(home.json(&["history", "t"])["entries"][1]["code"], "x = 2");
        let imported = other.json(&["import", file]);
        assert_eq!(
            (&imported["session"]["id"], &imported["dropped_mounts"]),
            (&json!("s"), &json!(["/data"]))
        );
        let mut bytes = fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(file, bytes).unwrap();
        home.refused(&["session", "import", file, "u"], 125, "is damaged");
        let ended = home.belljar(&["session", "import", "/no/such/file", "u"]);
        assert!(ended.status == 125 && ended.stderr.contains("/no/such/file"), "{ended:?}");
        assert_eq!(home.names(), ["s", "t"]);
    }

    #[test]
    fn prune() {
        let home = Home::new();
        home.run("a", "x = __import__('os').urandom(3 << 20)");
        home.run("b", "x = __import__('os').urandom(3 << 20)");
        home.run("c", "x = 1");
        let would = home.json(&["prune", "--keep", "4MiB", "--dry-run"]);
        assert_eq!((&would["closed"], &would["dry_run"]), (&json!(["a"]), &json!(true)));
        assert_eq!(home.names(), ["a", "b", "c"]);
        let pruned = home.json(&["prune", "--keep", "4MiB"]);
        assert_eq!(pruned["closed"], json!(["a"]));
        assert!(pruned["freed_bytes"].as_u64().unwrap() > 3 << 20, "{pruned}");
        assert!(home.session(&["prune", "--idle", "1h", "--cool", "0s"]).contains("are in use"));
        assert_eq!(home.run("b", "print(len(x))"), "3145728\n", "what was compressed wakes");
        let child = home.start("c", "import time; print('go'); time.sleep(1)");
        assert_eq!(home.json(&["prune", "--idle", "0s"])["closed"], json!(["b"]), "c is in use");
        assert_eq!(end(child.wait_with_output().unwrap()).status, 0);
        assert_eq!(home.names(), ["c"]);
        assert!(home.session(&["verify"]).contains("all is well"));
        assert_eq!(home.json(&["verify"])["damaged"], json!([]));
    }

    #[test]
    fn every_subcommand_has_examples() {
        for name in [
            "create",
            "ls",
            "show",
            "history",
            "checkpoint",
            "rollback",
            "undo",
            "fork",
            "hibernate",
            "wake",
            "export",
            "import",
            "close",
            "prune",
            "verify",
        ] {
            let help = belljar(&["session", name, "--help"]).stdout;
            assert!(help.contains("--json") && help.contains("--state-dir"), "{help}");
            assert!(help.contains("Example") || help.contains("Exit status"), "{help}");
        }
    }
}

mod typed {
    use super::*;

    #[test]
    fn a_kept_session() {
        let home = Home::new();
        let ended = home.repl(
            "s",
            "x = 1\n%checkpoint a\nx = 2\n%checkpoints\n%rollback a\nx\nx = 5\n%undo\nx\n%fork 2\n%reset\n%undo 99\n%rollback none\n",
        );
        assert_eq!(ended.status, 0, "{ended:?}");
        for expected in
            ["checkpoint 1 (a), after cell 1\n", "as at checkpoint 1 (a)", "\n1\n", "took back cell 4"]
        {
            assert!(ended.stdout.contains(expected), "{expected}: {}", ended.stdout);
        }
        for expected in ["%reset would forget it", "99 cells cannot be taken back", "no checkpoint \"none\""]
        {
            assert!(ended.stderr.contains(expected), "{expected}: {}", ended.stderr);
        }
        assert_eq!(home.run("s", "print(x)"), "1\n");
        let names = home.names();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(home.run(&names[1], "print(x)"), "1\n");
        let again = home.repl("s", "x += 1\n%history\nexit(3)\n");
        assert_eq!(again.status, 3, "{again:?}");
        assert!(
            again.stdout.contains(">>> x = 1\n") && again.stdout.contains("rollback: "),
            "{}",
            again.stdout
        );
        assert_eq!(home.run("s", "print(x)"), "2\n");
    }

    #[test]
    fn cells_are_on_disk_before_the_next() {
        let home = Home::new();
        let mut child = home.command(&["repl", "--session", "s"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdin.write_all(b"x = 1\nx = 2\nprint('go')\n%limits\n").unwrap();
        for expected in ["go\n", "30s, 256 MiB memory, 64 MiB files, no network\n"] {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            assert_eq!(line, expected);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(home.run("s", "print(x)"), "2\n");
    }

    #[test]
    fn a_session_that_is_not_kept() {
        let input = "x = 1\n%checkpoint a\nx = 2\n%fork\nx = 3\n%parent\nx\n%rollback\nx\n%undo 1\n%fork 2\n%parent\n%history\n";
        let ended = belljar_reading(&["repl"], input.as_bytes());
        assert_eq!(ended.status, 0, "{ended:?}");
        assert!(ended.stdout.contains("the child is gone\n2\n"), "{}", ended.stdout);
        assert!(ended.stdout.contains("as at checkpoint 1 (a), after cell 1\n1\n"), "{}", ended.stdout);
        assert!(ended.stdout.contains(">>> x = 2\n") && !ended.stdout.contains("x = 3"), "{}", ended.stdout);
        assert!(
            ended.stderr.contains("several children") && ended.stderr.contains("no parent"),
            "{}",
            ended.stderr
        );
    }
}
