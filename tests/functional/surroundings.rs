use std::time::{SystemTime, UNIX_EPOCH};

use belljar::EngineKind;
use belljar_tests::{builder, engine, run, sandbox, session, text};

#[test]
fn home_and_cwd_are_the_workspace() {
    assert_eq!(
        run("import os, pathlib\nos.getcwd(), os.environ['HOME'], os.path.expanduser('~'), str(pathlib.Path.home())").value.unwrap().text,
        "('/workspace', '/workspace', '/workspace', '/workspace')"
    );
}

#[test]
fn the_environment_is_the_policys() {
    let sandbox =
        builder().env("API_URL", "http://x/ä").env("EMPTY", "").env("USER", "me").build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    let code =
        "import os\nsorted((k, v) for k, v in os.environ.items() if k in ('API_URL', 'EMPTY', 'USER'))";
    assert_eq!(text(&session, code), "[('API_URL', 'http://x/ä'), ('EMPTY', ''), ('USER', 'me')]");
}

/// What the native engine's interpreter shares with the commands beside it.
const NATIVE: &str = "{'HOME', 'LANG', 'MKL_NUM_THREADS', 'MPLBACKEND', 'MPLCONFIGDIR', 'NUMEXPR_MAX_THREADS', \
    'LD_LIBRARY_PATH', 'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'PATH', 'PWD', 'PYTHONDONTWRITEBYTECODE', 'PYTHONPATH', \
    'PYTHONUNBUFFERED', 'SHELL', 'TMPDIR', 'USER', 'VIRTUAL_ENV'}";

#[test]
fn nothing_of_the_hosts_environment_is_there() {
    let known = match engine() {
        EngineKind::Wasm => "{'HOME', 'PWD'}",
        EngineKind::Native => NATIVE,
    };
    let outcome = run(format!("import os\nsorted(set(os.environ) - {known})").as_str());
    assert_eq!(outcome.value.unwrap().text, "[]");
}

#[test]
fn the_environment_persists_within_the_session_only() {
    let one = session();
    one.run_blocking("import os\nos.environ['MINE'] = '1'").unwrap();
    assert_eq!(text(&one, "os.environ['MINE'], os.getenv('MINE')"), "('1', '1')");
    assert_eq!(text(&session(), "import os\n'MINE' in os.environ"), "False");
}

#[test]
fn argv() {
    assert_eq!(run("import sys\nsys.argv").value.unwrap().text, "['-c']");
    let sandbox = builder().argv(vec!["script.py".into(), "--x".into()]).build_blocking().unwrap();
    assert_eq!(
        sandbox.run_blocking("import sys\nsys.argv").unwrap().value.unwrap().text,
        "['script.py', '--x']"
    );
}

#[test]
fn the_time_is_the_hosts() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let guest: f64 = run("import datetime\ndatetime.datetime.now(datetime.timezone.utc).timestamp()")
        .value
        .unwrap()
        .text
        .parse()
        .unwrap();
    assert!((guest - now).abs() < 60.0, "{guest} {now}");
    let guest: f64 = run("import time\ntime.time()").value.unwrap().text.parse().unwrap();
    assert!((guest - now).abs() < 60.0, "{guest} {now}");
}

#[test]
fn clocks_go_on_between_cells() {
    let session = session();
    session
        .run_blocking(
            "import time\nstart = time.monotonic(), time.perf_counter(), time.time()\ntime.sleep(0.05)",
        )
        .unwrap();
    assert_eq!(
        text(
            &session,
            "all(0.04 < b - a < 60 for a, b in zip(start, (time.monotonic(), time.perf_counter(), time.time())))"
        ),
        "True"
    );
}

#[test]
fn sleep_sleeps() {
    let outcome =
        run("import time\nstart = time.monotonic()\ntime.sleep(0.1)\ntime.monotonic() - start >= 0.099");
    assert_eq!(outcome.value.unwrap().text, "True");
    assert!(outcome.usage.wall_ms >= 99.0);
}

#[test]
fn randomness_differs_between_sessions() {
    let code = "import random, os, uuid, secrets\nrandom.random(), os.urandom(8), uuid.uuid4(), secrets.token_hex(), hash('a string') and 0";
    let drawn: std::collections::BTreeSet<String> = (0..4).map(|_| run(code).value.unwrap().text).collect();
    assert_eq!(drawn.len(), 4, "{drawn:?}");
    for part in ["random.random()", "os.urandom(8)", "uuid.uuid4()", "random.SystemRandom().random()"] {
        let code = format!("import random, os, uuid\n{part}");
        assert_ne!(run(code.as_str()).value, run(code.as_str()).value, "{part}");
    }
}

#[test]
fn the_hash_of_a_string_is_stable_within_a_session() {
    let session = session();
    session.run_blocking("h = hash('key')\nd = {'key': 1}").unwrap();
    assert_eq!(text(&session, "hash('key') == h and hash('ke' + 'y') == h and d['key']"), "1");
}

#[test]
fn the_interpreter_is_what_is_promised() {
    assert_eq!(
        run("import sys\nsys.version_info[:2], sys.implementation.name, __debug__").value.unwrap().text,
        "((3, 14), 'cpython', True)"
    );
}

#[test]
fn one_shots_are_independent() {
    sandbox().run_blocking("leak = 1").unwrap();
    assert_eq!(run("'leak' in globals()").value.unwrap().text, "False");
}

#[test]
fn usage_is_told() {
    let outcome = run("x = sum(n * n for n in range(200_000))\nopen('f', 'wb').write(bytes(100_000))");
    let usage = outcome.usage;
    assert!(usage.cpu_ms > 1.0 && usage.wall_ms >= usage.cpu_ms * 0.9, "{usage:?}");
    assert!((1 << 20..256 << 20).contains(&usage.memory_bytes), "{usage:?}");
    assert!((100_000..1_000_000).contains(&usage.file_bytes), "{usage:?}");
    assert_eq!((usage.tool_calls, usage.steps), (0, None));
}

#[test]
fn private_memory_is_told() {
    let session = session();
    session.run_blocking("x = bytearray(b'\\1') * 20_000_000").unwrap();
    assert!((20_000_000..100_000_000).contains(&session.private_memory_blocking()));
}

#[test]
fn standard_input_says_that_it_is_not_there() {
    for code in [
        "import sys; sys.stdin.read()",
        "import sys\nfor line in sys.stdin: pass",
        "import sys; sys.stdin.buffer",
    ] {
        let outcome = run(code);
        assert_eq!(outcome.exception.unwrap().kind, "EOFError", "{code}");
    }
}

#[test]
fn a_cookie_names_the_encoding() {
    let outcome = run(b"# -*- coding: latin-1 -*-\nprint('caf\xe9')".to_vec());
    assert_eq!(outcome.stdout, "caf\u{e9}\n");
}
