//! The `belljar` command from outside: real processes, the user's own cache.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

mod artifacts;
mod config;
mod datasets;
mod environments;
mod files;
mod native;
mod seed;
mod session;

/// What a command printed and how it ended.
#[derive(Debug)]
struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn end(Output { status, stdout, stderr }: Output) -> Ended {
    Ended {
        status: status.code().unwrap_or_else(|| panic!("it was killed: {status}")),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

fn belljar(arguments: &[&str]) -> Ended {
    end(command(arguments).output().unwrap())
}

fn belljar_reading(arguments: &[&str], input: &[u8]) -> Ended {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let ended = end(child.wait_with_output().unwrap());
    // A command that doesn't read all of its input is no failure of the test.
    let _ = writer.join().unwrap();
    ended
}

fn run(code: &str) -> Ended {
    belljar(&["run", "-c", code])
}

fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

mod output {
    use super::*;

    #[test]
    fn streams_go_where_they_belong() {
        let ended = run("import sys; print('out'); print('err', file=sys.stderr); 'no value'");
        assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (0, "out\n", "err\n"));
    }

    #[test]
    fn raw_bytes_pass() {
        let output =
            command(&["run", "-c", r"import sys; sys.stdout.buffer.write(bytes(range(256)))"]).output();
        assert_eq!(output.unwrap().stdout, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn it_comes_while_the_program_runs() {
        let mut child = command(&["run", "-c", "print('first')\nwhile True: pass"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "first\n");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn its_end_is_shown_whatever_its_length() {
        let whole = run("print('x' * 1_000_000 + 'end')");
        assert_eq!(whole.stdout.len(), 1_000_004, "{}", whole.stderr);
        assert_eq!(whole.stderr, "");
        let cut = run("for i in range(1_000_000): print(i)");
        assert!(cut.stdout.starts_with("0\n1\n") && cut.stdout.ends_with("999999\n"), "{}", cut.stdout.len());
        assert!(cut.stdout.contains("bytes cut") && cut.stderr.contains("--output raises the limit"));
        let kept = belljar(&["run", "--output", "8MiB", "-c", "for i in range(1_000_000): print(i)"]);
        assert_eq!((kept.stdout.len(), kept.stderr.as_str()), (6_888_890, ""));
    }

    #[test]
    fn a_closed_pipe_ends_it_quietly() {
        let code = "i = 0\nwhile True:\n    print(i)\n    i += 1";
        let mut child = command(&["run", "--output", "1GiB", "-c", code]).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 4]).unwrap();
        drop(stdout);
        let ended = end(child.wait_with_output().unwrap());
        assert_eq!((ended.status, ended.stderr.as_str()), (141, ""));
    }

    #[test]
    fn displays_are_text_and_a_mention_of_images() {
        let code = "class Picture:\n    def _repr_png_(self): return bytes(3000)\ndisplay({'a': 1})\ndisplay(Picture())";
        let ended = run(code);
        assert_eq!((ended.status, ended.stdout.as_str()), (0, "{'a': 1}\n"), "{}", ended.stderr);
        assert_eq!(
            ended.stderr,
            "belljar: the cell displayed image/png (2.9 KiB); use `run --json` to get it\n"
        );
    }
}

mod status {
    use super::*;

    #[test]
    fn exits() {
        for (code, status) in [
            ("pass", 0),
            ("import sys; sys.exit()", 0),
            ("import sys; sys.exit(3)", 3),
            ("exit(255)", 255),
            ("raise SystemExit(256 + 7)", 7),
            ("1 / 0", 1),
            ("(", 1),
        ] {
            assert_eq!(run(code).status, status, "{code}");
        }
        let ended = run("import sys; print('out'); sys.exit('why')");
        assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (1, "out\n", "why\n"));
    }

    #[test]
    fn timeout() {
        for code in ["while True: pass", "import time; time.sleep(60)"] {
            let begun = Instant::now();
            let ended = belljar(&["run", "--timeout", "0.3", "-c", code]);
            assert_eq!(ended.status, 124, "{ended:?}");
            assert!(
                ended.stderr.ends_with("belljar: timeout: it ran longer than 300ms (state kept)\n"),
                "{}",
                ended.stderr
            );
            assert!(begun.elapsed() < Duration::from_secs(5));
        }
        let stubborn = "while True:\n  try:\n    while True: pass\n  except BaseException: pass";
        let ended = belljar(&["run", "--timeout", "0.3", "-c", stubborn]);
        assert_eq!(ended.status, 124);
        assert_eq!(ended.stderr, "belljar: timeout: it ran longer than 300ms (state rolled back)\n");
    }

    #[test]
    fn out_of_memory() {
        for code in ["x = 'a' * 10**9", "x = []\nwhile True: x.append(bytearray(10**6))"] {
            let ended = belljar(&["run", "--memory", "64MiB", "-c", code]);
            assert_eq!(ended.status, 137, "{ended:?}");
            assert!(ended.stderr.contains("belljar: out of memory: "), "{}", ended.stderr);
        }
    }

    #[test]
    fn killed() {
        let ended = run("import os; os.abort()");
        assert_eq!(ended.status, 137, "{ended:?}");
        assert!(ended.stderr.starts_with("belljar: killed: "), "{}", ended.stderr);
    }

    #[test]
    fn interrupted() {
        for code in ["print('go')\nwhile True: pass", "import time; print('go'); time.sleep(60)"] {
            let mut child = command(&["run", "-c", code]).spawn().unwrap();
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            stdout.read_line(&mut String::new()).unwrap();
            // So that it sleeps: between the last look at signals and the sleep itself an interrupt is late.
            std::thread::sleep(std::time::Duration::from_millis(200));
            interrupt(&child);
            let ended = end(child.wait_with_output().unwrap());
            assert_eq!(ended.status, 130, "{ended:?}");
            assert!(ended.stderr.ends_with("KeyboardInterrupt\n"), "{}", ended.stderr);
        }
    }

    #[test]
    fn usage() {
        for wrong in [
            &["run", "--no-such-option"][..],
            &["run", "--timeout", "0", "-c", ""],
            &["run", "--timeout", "soon", "-c", ""],
            &["run", "--memory", "lots", "-c", ""],
            &["run", "--memory", "1MiB", "-c", ""],
            &["run", "--memory", "8GiB", "-c", ""],
            &["run", "--mount", "here", "-c", ""],
            &["run", "--mount", "/tmp:relative", "-c", ""],
            &["run", "--mount", "/tmp:/python", "-c", ""],
            &["run", "--mount", "/no/such/directory:/data", "-c", ""],
            &["run", "--env", "novalue", "-c", ""],
            &["run", "/no/such/file.py"],
            &["run", "/tmp"],
            &["no-such-command"],
            &["runtime"],
            &[],
        ] {
            let ended = belljar(wrong);
            assert_eq!(ended.status, 2, "{wrong:?}: {ended:?}");
            assert_eq!(ended.stdout, "", "{wrong:?}");
            assert!(!ended.stderr.is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn a_failure_of_belljar_itself() {
        let cache = tempfile::tempdir().unwrap();
        let ended = belljar(&["run", "--offline", "--cache-dir", cache.path().to_str().unwrap(), "-c", "1"]);
        assert_eq!((ended.status, ended.stdout.as_str()), (125, ""), "{ended:?}");
        assert!(ended.stderr.contains("error: ") && ended.stderr.contains("hint: "), "{}", ended.stderr);
    }
}

mod program {
    use super::*;

    fn file(directory: &Path, name: &str, content: &[u8]) -> String {
        let path = directory.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn arguments() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), "show.py", b"import sys; print(sys.argv)");
        let ended = belljar(&["run", &path, "--timeout", "5", "a b", "--", "--timeout", "-c"]);
        assert_eq!(ended.stdout, format!("['{path}', 'a b', '--timeout', '-c']\n"));
        let ended = belljar(&["run", "-c", "import sys; print(sys.argv)", "a", "b"]);
        assert_eq!(ended.stdout, "['-c', 'a', 'b']\n");
        let ended = belljar_reading(&["run", "-", "a"], b"import sys; print(sys.argv)");
        assert_eq!(ended.stdout, "['-', 'a']\n");
        assert_eq!(belljar_reading(&["run"], b"print('piped')").stdout, "piped\n");
        assert_eq!(belljar(&["run", "-c", "-1"]).status, 0);
    }

    #[test]
    fn tracebacks_name_the_file_and_show_its_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path =
            file(directory.path(), "fails.py", b"def f(x):\n    return 1 / x\n\nprint('before')\nf(0)\n");
        let ended = belljar(&["run", &path]);
        assert_eq!((ended.status, ended.stdout.as_str()), (1, "before\n"));
        let expected = format!(
            "Traceback (most recent call last):\n  File \"{path}\", line 5, in <module>\n    f(0)\n    ~^^^\n  \
             File \"{path}\", line 2, in f\n    return 1 / x\n           ~~^~~\nZeroDivisionError: division by zero\n"
        );
        assert_eq!(ended.stderr, expected);
        assert!(belljar_reading(&["run"], b"1/0").stderr.contains("File \"<stdin>\", line 1"));
    }

    #[test]
    fn garbage_is_a_syntax_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = 0x9e37_79b9_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(100_000)
        .collect();
        for (name, content) in
            [("noise", &noise[..]), ("nul", b"print(1)\0print(2)"), ("surrogate", b"'\xed\xa0\x80'")]
        {
            let ended = belljar(&["run", &file(directory.path(), name, content)]);
            assert_eq!((ended.status, ended.stdout.as_str()), (1, ""), "{name}: {ended:?}");
            assert!(ended.stderr.contains("SyntaxError"), "{name}: {}", ended.stderr);
        }
        let marked = file(directory.path(), "marked", b"\xef\xbb\xbfprint('marked')\r\nprint(2)\r\n");
        assert_eq!(belljar(&["run", &marked]).stdout, "marked\n2\n");
        assert_eq!(belljar(&["run", &file(directory.path(), "empty", b"")]).status, 0);
    }

    #[test]
    fn five_megabytes_of_source() {
        let directory = tempfile::tempdir().unwrap();
        let long = format!("text = '{}'\nprint(len(text))", "x".repeat(5 << 20));
        let ended = belljar(&["run", &file(directory.path(), "long.py", long.as_bytes())]);
        assert_eq!((ended.status, ended.stdout.as_str()), (0, "5242880\n"), "{}", ended.stderr);
        let many = "x = 1\n".repeat(900_000);
        let ended = belljar(&["run", &file(directory.path(), "many.py", many.as_bytes())]);
        assert!([0, 1, 124, 137].contains(&ended.status), "{ended:?}");
    }
}

mod limits {
    use super::*;

    #[test]
    fn mounts() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("input"), "from the host").unwrap();
        let host = directory.path().to_str().unwrap();
        let read = "print(open('/data/input').read())";
        let write = "open('/data/output', 'w').write('from the guest')";
        for access in ["", ":ro"] {
            let mount = format!("{host}:/data{access}");
            let ended = belljar(&["run", "--mount", &mount, "-c", &format!("{read}\n{write}")]);
            assert_eq!((ended.status, ended.stdout.as_str()), (1, "from the host\n"));
            assert!(ended.stderr.contains("Read-only file system"), "{}", ended.stderr);
        }
        assert!(!directory.path().join("output").exists());
        let ended = belljar(&["run", "--mount", &format!("{host}:/data:rw"), "-c", write]);
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        assert_eq!(fs::read_to_string(directory.path().join("output")).unwrap(), "from the guest");
    }

    #[test]
    fn no_file_of_the_host_without_a_mount() {
        let ended = run("open('/etc/passwd')");
        assert!(ended.status == 1 && ended.stderr.contains("FileNotFoundError"), "{ended:?}");
        assert_eq!(
            run("import os; print(os.getcwd(), sorted(os.listdir('.')))").stdout,
            "/workspace ['artifacts', 'data']\n"
        );
    }

    #[test]
    fn environment() {
        let code = "import os; print(sorted(os.environ.items()))";
        let ended = end(command(&["run", "--env", "A=b=c", "-c", code]).env("SECRET", "x").output().unwrap());
        assert_eq!(ended.stdout, "[('A', 'b=c'), ('HOME', '/workspace'), ('PWD', '/workspace')]\n");
    }

    #[test]
    fn files() {
        let ended = belljar(&["run", "--files", "100KB", "-c", "open('f', 'w').write('x' * 10**6)"]);
        assert!(ended.status == 1 && ended.stderr.contains("OSError"), "{ended:?}");
    }

    #[test]
    fn a_seed_makes_runs_repeatable() {
        let code =
            "import os, random, time, uuid; print(random.random(), os.urandom(8), uuid.uuid4(), time.time())";
        let first = belljar(&["run", "--seed", "7", "-c", code]);
        assert_eq!(first.status, 0, "{}", first.stderr);
        assert_eq!(first.stdout, belljar(&["run", "--seed", "7", "-c", code]).stdout);
        assert_ne!(first.stdout, belljar(&["run", "--seed", "8", "-c", code]).stdout);
    }
}

mod json {
    use super::*;

    #[test]
    fn standard_output_is_one_object() {
        let code =
            "import sys\nfor i in range(300_000): print(i)\nprint('{}', file=sys.stderr)\nlen('value')";
        let ended = belljar(&["run", "--json", "-c", code]);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
        assert_eq!(ended.stdout.lines().count(), 1);
        let outcome = ended.json();
        assert_eq!(outcome["status"], "ok");
        assert_eq!(outcome["value"]["text"], "5");
        assert_eq!(outcome["stderr"], "{}\n");
        assert!(outcome["stdout_cut"]["cut_bytes"].as_u64().unwrap() > 0);
    }

    #[test]
    fn every_ending_is_an_object_with_its_exit_status() {
        for (code, status, name) in [
            ("print('before'); 1 / 0", 1, "error"),
            ("import sys; sys.exit(5)", 5, "exited"),
            ("while True: pass", 124, "timeout"),
            ("x = 'a' * 10**9", 137, "out_of_memory"),
            ("import os; os.abort()", 137, "killed"),
            ("(", 1, "error"),
        ] {
            let ended = belljar(&["run", "--json", "--timeout", "0.5", "-c", code]);
            assert_eq!((ended.status, ended.stderr.as_str()), (status, ""), "{code}");
            assert_eq!(ended.json()["status"], name, "{code}");
        }
        let outcome = belljar(&["run", "--json", "-c", "print('before'); 1 / 0"]).json();
        assert_eq!(outcome["stdout"], "before\n");
        assert_eq!(outcome["exception"]["type"], "ZeroDivisionError");
    }

    #[test]
    fn objects_have_what_the_schema_requires() {
        let schema = belljar(&["schema"]).json();
        let outcome = belljar(&["run", "--json", "-c", "open('made', 'w').write('x')"]).json();
        for name in schema["required"].as_array().unwrap() {
            assert!(outcome.get(name.as_str().unwrap()).is_some(), "{name}");
        }
        for name in outcome.as_object().unwrap().keys() {
            assert!(schema["properties"].get(name).is_some(), "{name} is not in the schema");
        }
        assert_eq!(outcome["files_created"], serde_json::json!(["/workspace/made"]));
        let home = artifacts::Home::new();
        let code = "open('artifacts/a', 'w').write('1'); open('artifacts/b', 'w').write('22')";
        let outcome = home.json(&["run", "--artifact-max", "1B", "-c", code]);
        for (list, described) in [("artifacts", "artifact"), ("artifacts_refused", "refused")] {
            let known = &schema["$defs"][described];
            let found = outcome[list][0].as_object().unwrap();
            assert!(found.keys().all(|name| known["properties"].get(name).is_some()), "{found:?}");
            for name in known["required"].as_array().unwrap() {
                assert!(found.contains_key(name.as_str().unwrap()), "{name}");
            }
        }
    }
}

mod repl {
    use super::*;

    fn repl(input: &str) -> Ended {
        belljar_reading(&["repl"], input.as_bytes())
    }

    #[test]
    fn variables_stay_and_values_are_shown() {
        let ended = repl("x = 20\nx * 2\n_ + 2\nNone\nprint('printed')\n'text'\n");
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
        assert_eq!(ended.stdout, "40\n42\nprinted\n'text'\n");
    }

    #[test]
    fn blocks() {
        let input = "def f(x):\n    y = x\n    return y + 1\n\nf(1)\n[1,\n\n 2]\n'''a\n\nb'''\n1 + \\\n2\nfor i in (1, 2): print(i)\n\nif True:\n    print(4)";
        let ended = repl(input);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
        assert_eq!(ended.stdout, "2\n[1, 2]\n'a\\n\\nb'\n3\n1\n2\n4\n");
    }

    #[test]
    fn errors_end_cells_only() {
        let ended = repl("x = 5\n1 / 0\nx = )\n\u{0}\nimport os; os.abort()\nx\n");
        assert_eq!((ended.status, ended.stdout.as_str()), (0, "5\n"));
        for expected in ["ZeroDivisionError", "SyntaxError", "belljar: killed: ", "(state rolled back)"] {
            assert!(ended.stderr.contains(expected), "{expected}: {}", ended.stderr);
        }
    }

    #[test]
    fn exit_leaves() {
        assert_eq!(repl("exit(4)\nprint('not reached')\n").status, 4);
        let ended = repl("import sys\nsys.exit()\nprint('not reached')");
        assert_eq!((ended.status, ended.stdout.as_str()), (0, ""));
    }

    #[test]
    fn commands() {
        let ended = repl("x = 1\n%help\n%limits\n%nonsense\n%reset\nx\n");
        assert!(ended.stdout.contains("%reset") && ended.stdout.contains("256 MiB"), "{}", ended.stdout);
        assert!(ended.stderr.contains("error: there is no %nonsense\nhint: "), "{}", ended.stderr);
        assert!(ended.stderr.contains("NameError"), "{}", ended.stderr);
    }

    #[test]
    fn an_interrupt_keeps_the_session() {
        let mut child = command(&["repl"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        for round in 1..=3 {
            writeln!(stdin, "x = {round}\nprint('go')\nwhile True: pass\n\nx").unwrap();
            line.clear();
            stdout.read_line(&mut line).unwrap();
            assert_eq!(line, "go\n");
            // The loop is the next cell.
            std::thread::sleep(Duration::from_millis(300));
            interrupt(&child);
            line.clear();
            stdout.read_line(&mut line).unwrap();
            assert_eq!(line, format!("{round}\n"));
        }
        drop(stdin);
        let ended = end(child.wait_with_output().unwrap());
        assert_eq!(ended.status, 0);
        assert_eq!(ended.stderr.matches("KeyboardInterrupt").count(), 3, "{}", ended.stderr);
    }

    #[test]
    fn random_bytes() {
        let noise: Vec<u8> = (0..20_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let ended = belljar_reading(&["repl"], &noise);
        assert!(ended.status == 0 && ended.stderr.contains("SyntaxError"), "{}", ended.status);
    }
}

mod machine {
    use super::*;

    #[test]
    fn doctor() {
        let ended = belljar(&["doctor"]);
        assert_eq!(ended.status, 0, "{ended:?}");
        assert!(ended.stdout.contains("✓ a cell") && ended.stdout.contains("works here"), "{}", ended.stdout);
        let report = belljar(&["doctor", "--json"]).json();
        assert_eq!(report["works"], true);
        let names: Vec<_> = report["checks"].as_array().unwrap().iter().map(|check| &check["name"]).collect();
        for name in ["cache", "interpreter", "write tracking", "address space", "a cell"] {
            assert!(names.iter().any(|found| *found == name), "{name}: {names:?}");
        }
    }

    #[test]
    fn doctor_says_what_is_missing() {
        let ended = belljar(&["doctor", "--cache-dir", "/proc/nowhere"]);
        assert_eq!(ended.status, 1);
        assert!(ended.stdout.contains("✗ cache") && ended.stdout.contains("--cache-dir"), "{}", ended.stdout);
        let cache = tempfile::tempdir().unwrap();
        let arguments = ["doctor", "--cache-dir", cache.path().to_str().unwrap()];
        let ended = end(command(&arguments).env("PATH", "/nowhere").output().unwrap());
        assert_eq!(ended.status, 1);
        assert!(ended.stdout.contains("✗ host Python"), "{}", ended.stdout);
        assert!(ended.stdout.contains("belljar runtime build"), "{}", ended.stdout);
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0, "it leaves nothing behind");
    }

    #[test]
    fn runtime_path() {
        let ended = belljar(&["runtime", "path"]);
        assert_eq!(ended.status, 0, "{ended:?}");
        assert!(Path::new(ended.stdout.trim_end()).join("core.wasm").is_file());
        assert_eq!(belljar(&["runtime", "path", "--json"]).json()["path"], ended.stdout.trim_end());
        assert_eq!(belljar(&["runtime", "build"]).stdout, ended.stdout);
        let nothing = tempfile::tempdir().unwrap();
        let ended = belljar(&["runtime", "path", "--cache-dir", nothing.path().to_str().unwrap()]);
        assert_eq!((ended.status, ended.stdout.as_str()), (1, ""));
        assert!(ended.stderr.contains("hint: `belljar runtime build`"), "{}", ended.stderr);
    }

    #[test]
    fn runtime_clean() {
        let cache = tempfile::tempdir().unwrap();
        for (kind, name) in [("runtime", "a/core.wasm"), ("code", "b/interpreter.cwasm"), ("wheels", "c.whl")]
        {
            let path = cache.path().join(kind).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, [0; 1000]).unwrap();
        }
        for entry in ["runtime/a", "code/b"] {
            fs::write(cache.path().join(entry).join("manifest.json"), []).unwrap();
        }
        let foreign = cache.path().join("code/main.c");
        fs::write(&foreign, "not Belljar's").unwrap();
        let directory = cache.path().to_str().unwrap();
        let freed = |extra: &[&str]| {
            let arguments = [&["runtime", "clean", "--json", "--cache-dir", directory], extra].concat();
            belljar(&arguments).json()["freed_bytes"].as_u64().unwrap()
        };
        assert_eq!(freed(&[]), 2000);
        assert_eq!(freed(&[]), 0);
        assert_eq!(freed(&["--all"]), 1000);
        assert!(foreign.exists());
        assert!(belljar(&["runtime", "clean", "--cache-dir", directory]).stdout.starts_with("freed 0 B in "));
    }

    #[test]
    fn the_version_is_true() {
        let version = belljar(&["--version"]).stdout;
        let python = run("import sys; print('CPython %d.%d' % sys.version_info[:2])").stdout;
        assert!(version.contains(python.trim_end()), "{version} {python}");
        let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
        let (_, wasmtime) = lock.split_once("name = \"wasmtime\"\nversion = \"").unwrap();
        let (major, _) = wasmtime.split_once('.').unwrap();
        assert!(version.contains(&format!("wasmtime {major})")), "{version} {major}");
    }

    #[test]
    fn completions() {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let ended = belljar(&["completions", shell]);
            assert!(ended.status == 0 && ended.stdout.contains("timeout"), "{shell}");
        }
        let words = belljar(&["completions", "bash"]).stdout;
        for word in ["session", "rollback", "--state-dir", "on-error", "artifact", "dataset", "--env-file"] {
            assert!(words.contains(word), "{word}");
        }
        assert_eq!(belljar(&["completions", "cmd.exe"]).status, 2);
    }

    #[test]
    fn help_names_every_exit_status() {
        let help = belljar(&["run", "--help"]).stdout;
        for expected in ["124", "125", "130", "137", "sys.exit(n)", "Examples:"] {
            assert!(help.contains(expected), "{expected}");
        }
    }
}
