//! The native engine: what is refused without it, and what it does where it runs.

use serde_json::{Value, json};

use super::environments::Project;
use super::*;

/// Whether this machine has what the engine can't do without. Where it has, nothing is passed over: an engine that
/// doesn't run fails these tests.
pub(super) fn runs_here() -> bool {
    let report = belljar(&["doctor", "--json"]).json();
    let layers = report["native"]["layers"].as_array().unwrap();
    layers.iter().any(|layer| layer["name"] == "namespaces" && layer["missing"].is_null())
}

mod refusals {
    use super::*;

    #[test]
    fn arguments_that_make_no_sense() {
        for wrong in [
            &["run", "--engine", "jvm", "-c", ""][..],
            &["run", "--cpus", "0", "-c", ""],
            &["run", "--cpus", "many", "-c", ""],
            &["run", "--processes", "0", "-c", ""],
            &["run", "--cpu-time", "0", "-c", ""],
            &["run", "--cpu-time", "1", "-c", ""],
            &["run", "--engine", "native", "--steps", "1000", "-c", ""],
            &["run", "--engine", "native", "--memory", "2TiB", "-c", ""],
            &["run", "--engine", "native", "--memory", "1MiB", "-c", ""],
            &["run", "--require", "a-wall-of-stone", "-c", ""],
            &["exec"],
            &["exec", "--"],
            &["exec", "--background", "--", "sleep", "1"],
            &["exec", "--ps"],
            &["exec", "--logs", "1"],
            &["exec", "--kill", "1"],
            &["bench", "--engine", "native", "fallbacks"],
        ] {
            let ended = belljar(wrong);
            assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{wrong:?}: {ended:?}");
            assert!(!ended.stderr.is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn each_says_what_to_do() {
        for (arguments, hint) in [
            (&["run", "--cpu-time", "1", "-c", ""][..], "--engine native"),
            (&["run", "--engine", "native", "--steps", "1000", "-c", ""], "--cpu-time"),
            (&["run", "--memory", "8GiB", "-c", ""], "--engine native"),
            (&["run", "--require", "seccomp", "-c", ""], "belljar doctor"),
            (&["exec", "--background", "--", "sleep", "1"], "%start"),
        ] {
            let ended = belljar(arguments);
            let hints =
                ended.stderr.split_once("hint: ").map(|(_, hint)| hint.to_owned()).unwrap_or_default();
            assert!(ended.status == 2 && hints.contains(hint), "{arguments:?}: {ended:?}");
        }
    }

    #[test]
    fn the_wasm_engine_runs_no_commands() {
        let ended = belljar(&["exec", "--engine", "wasm", "--", "ls"]);
        assert_eq!((ended.status, ended.stdout.as_str()), (125, ""), "{ended:?}");
        assert!(ended.stderr.contains("cannot run commands"), "{}", ended.stderr);
        assert!(ended.stderr.contains("--engine native"), "{}", ended.stderr);
        let ended = belljar_reading(&["repl"], b"x = 1\n!ls\n%start ls\n%ps\nx\n");
        assert_eq!(ended.status, 0, "{ended:?}");
        assert_eq!(ended.stderr.matches("cannot run commands").count(), 2, "{}", ended.stderr);
        assert!(ended.stdout.ends_with("background\n1\n"), "{}", ended.stdout);
    }

    #[test]
    fn a_found_file_does_not_choose_it() {
        let project = Project::new();
        project.write("belljar.toml", "engine = 'native'\n");
        project.refused(&["run", "-c", ""], 2, &["belljar.toml:1:10: ", "--engine native"]);
        assert_eq!(project.done(&["run", "--engine", "wasm", "-c", "print(1)"]), "1\n");
        project.write("belljar.toml", "engine = 'wasm'\n");
        assert_eq!(project.done(&["run", "-c", "print(1)"]), "1\n");
    }

    #[test]
    fn a_session_keeps_its_engine() {
        let project = Project::new();
        project.done(&["run", "--session", "s", "-c", "x = 1"]);
        let other = ["run", "--session", "s", "--engine", "native", "-c", "x"];
        project.refused(&other, 2, &["made with the wasm engine", "leave out --engine"]);
        assert_eq!(project.done(&["run", "--session", "s", "--engine", "wasm", "-c", "print(x)"]), "1\n");
        assert_eq!(project.json(&["session", "show", "s"])["engine"], "wasm");
    }

    #[test]
    fn a_named_environment_is_for_one_engine() {
        let project = Project::new();
        let wheel = project.wheel("belljar_test_one", "1.0", &[]);
        project.done(&["env", "create", "one", "--package", &wheel]);
        let run = ["run", "--environment", "one", "--engine", "native", "-c", ""];
        project.refused(&run, 2, &["is for the wasm engine", "--engine wasm"]);
    }

    #[test]
    fn variables_are_read() {
        let run = |name: &str, value: &str| {
            end(command(&["run", "-c", "print(1)"]).env(name, value).output().unwrap())
        };
        for name in ["DF_BYTES", "NP_BYTES", "IDLE_HIBERNATE_SEC"] {
            assert_eq!(run(name, "60").stdout, "1\n", "{name}");
            let ended = run(name, "lots");
            assert!(ended.status == 2 && !ended.stderr.is_empty(), "{name}: {ended:?}");
        }
    }
}

mod doctor {
    use super::*;

    #[test]
    fn it_shows_every_layer_and_never_fails_for_one() {
        let report = belljar(&["doctor", "--json"]).json();
        assert_eq!(report["works"], true, "{report}");
        let layers = report["native"]["layers"].as_array().unwrap();
        let ended = belljar(&["doctor"]);
        assert_eq!(ended.status, 0, "{ended:?}");
        let (_, section) = ended.stdout.split_once("\nnative engine (--engine native):\n").unwrap();
        for layer in layers {
            let name = layer["name"].as_str().unwrap();
            let line = section.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
            let line = line.unwrap_or_else(|| panic!("{name} is not in {section}"));
            let (mark, word) = if layer["missing"].is_null() { ('✓', "active") } else { ('!', "missing") };
            assert!(line.starts_with(mark) && line.contains(word), "{line}");
        }
    }
}

mod schema {
    use super::*;

    #[test]
    fn of_commands() {
        let schema = belljar(&["schema", "--exec"]).json();
        assert_eq!(schema["title"], "CommandOutcome");
        assert_eq!(belljar(&["schema"]).json()["title"], "Outcome");
    }
}

/// With a working engine.
mod exec {
    use super::*;

    #[test]
    fn a_command_ends_as_it_says() {
        if !runs_here() {
            return;
        }
        for (arguments, status, stdout, stderr) in [
            (&["--", "echo", "a  b", "$HOME"][..], 0, "a  b $HOME\n", ""),
            (&["echo one; echo two >&2; exit 7"], 7, "one\n", "two\n"),
            (&["--cwd", "/tmp", "--", "pwd"], 0, "/tmp\n", ""),
            (&["--env", "A=b c", "echo $A"], 0, "b c\n", ""),
            (&["kill -9 $$"], 137, "", ""),
            (&["--", "false"], 1, "", ""),
        ] {
            let ended = belljar(&[&["exec"], arguments].concat());
            assert_eq!((ended.status, ended.stdout.as_str()), (status, stdout), "{arguments:?}: {ended:?}");
            assert!(ended.stderr.starts_with(stderr), "{arguments:?}: {ended:?}");
        }
        let ended = belljar_reading(&["exec", "-i", "--", "wc", "-c"], b"12345");
        assert_eq!((ended.status, ended.stdout.trim()), (0, "5"), "{ended:?}");
    }

    #[test]
    fn it_is_stopped() {
        if !runs_here() {
            return;
        }
        let begun = Instant::now();
        let ended = belljar(&["exec", "--timeout", "0.5", "--", "sleep", "60"]);
        assert_eq!(ended.status, 124, "{ended:?}");
        assert!(ended.stderr.contains("belljar: timeout: "), "{}", ended.stderr);
        let mut child = command(&["exec", "echo go; sleep 60"]).spawn().unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        interrupt(&child);
        assert_eq!(end(child.wait_with_output().unwrap()).status, 130);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn output_comes_while_it_runs() {
        if !runs_here() {
            return;
        }
        let mut child = command(&["exec", "echo first; sleep 60"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "first\n");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn for_programs() {
        if !runs_here() {
            return;
        }
        let outcome = belljar(&["exec", "--json", "echo out; echo err >&2; touch made; exit 3"]).json();
        let schema = belljar(&["schema", "--exec"]).json();
        for name in schema["required"].as_array().unwrap() {
            assert!(outcome.get(name.as_str().unwrap()).is_some(), "{name}");
        }
        assert_eq!((&outcome["status"], &outcome["exit_code"]), (&json!("error"), &json!(3)));
        assert_eq!((&outcome["stdout"], &outcome["stderr"]), (&json!("out\n"), &json!("err\n")));
        assert_eq!(outcome["files_created"], json!(["/workspace/made"]));
    }

    #[test]
    fn sessions_are_shared_with_run() {
        if !runs_here() {
            return;
        }
        let project = Project::new();
        project.done(&["exec", "--session", "s", "echo from the shell > file"]);
        let code = "print(open('file').read(), end='')";
        assert_eq!(project.done(&["run", "--session", "s", "-c", code]), "from the shell\n");
        assert_eq!(project.done(&["exec", "--session", "s", "--", "cat", "file"]), "from the shell\n");
        assert_eq!(project.json(&["session", "show", "s"])["engine"], "native");
        assert!(project.done(&["session", "ls"]).contains("ENGINE"));
        let history = project.json(&["session", "history", "s"]);
        let kinds: Vec<&Value> =
            history["entries"].as_array().unwrap().iter().map(|entry| &entry["kind"]).collect();
        assert_eq!(kinds, ["command", "cell", "command"]);
        let shown = project.done(&["session", "history", "s"]);
        assert!(shown.contains("$ cat file\n    from the shell\n"), "{shown}");
        let notebook = project.done(&["session", "history", "s", "--notebook", "-"]);
        assert!(notebook.contains("!cat file"), "{notebook}");
    }

    #[test]
    fn a_session_can_be_moved() {
        if !runs_here() {
            return;
        }
        let project = Project::new();
        project.done(&["run", "--engine", "native", "--session", "s", "-c", "x = 41"]);
        project.done(&["session", "export", "s", "s.belljar"]);
        project.done(&["session", "import", "s.belljar", "again"]);
        assert_eq!(project.done(&["run", "--session", "again", "-c", "print(x + 1)"]), "42\n");
        assert_eq!(project.json(&["session", "show", "again"])["engine"], "native");
    }
}

mod repl {
    use super::*;

    #[test]
    fn commands_beside_cells() {
        if !runs_here() {
            return;
        }
        let input =
            "open('f', 'w').write('text')\n!cat f; echo\n!exit 3\n%start sleep 60\n%ps\n%kill 1\n%about\n";
        let ended = belljar_reading(&["repl", "--engine", "native"], input.as_bytes());
        assert_eq!(ended.status, 0, "{ended:?}");
        for expected in ["text\n", "sleep 60", "1: ended", "the native engine"] {
            assert!(ended.stdout.contains(expected), "{expected}: {}", ended.stdout);
        }
    }
}
