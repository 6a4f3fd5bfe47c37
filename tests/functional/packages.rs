use std::fs;
use std::path::Path;

use belljar::{EngineKind, Error, Registry, Runtimes, Sandbox, SandboxBuilder, Status};
use belljar_tests::{builder, engine, text};
use tempfile::TempDir;

/// A `site-packages` with one package, which knows how often it was imported.
fn site() -> TempDir {
    let site = TempDir::new().unwrap();
    write(
        site.path(),
        "greeting/__init__.py",
        "from .words import HELLO\nimport sys\nimported_in = sys.path[0]\n",
    );
    write(site.path(), "greeting/words.py", "HELLO = 'hello'\ndef raises():\n    raise ValueError('deep')\n");
    write(site.path(), "greeting/data/table.csv", "a,b\n1,2\n");
    site
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn with_site(site: &TempDir) -> SandboxBuilder {
    builder().site_packages(site.path())
}

fn build(builder: SandboxBuilder) -> Sandbox {
    builder.build_blocking().unwrap()
}

#[test]
fn packages_are_there_without_being_asked_for() {
    let session = build(with_site(&site())).session_blocking().unwrap();
    assert_eq!(text(&session, "import greeting\ngreeting.HELLO"), "'hello'");
    assert_eq!(text(&session, "greeting.__file__"), "'/data/site-packages/greeting/__init__.py'");
    assert_eq!(text(&session, "import sys\nsys.path[:2]"), "['/data/site-packages', '']");
    // Bytecode was compiled ahead of time.
    assert_eq!(
        text(
            &session,
            "import os\nos.path.basename(greeting.__cached__), os.path.exists(greeting.__cached__)"
        ),
        "('__init__.cpython-314.pyc', True)"
    );
    // Data files are files.
    let table =
        "from importlib.resources import files\nfiles('greeting').joinpath('data/table.csv').read_text()";
    assert_eq!(text(&session, table), "'a,b\\n1,2\\n'");
}

#[test]
fn code_that_names_the_old_path_finds_them_too() {
    let session = build(with_site(&site())).session_blocking().unwrap();
    let code = "import sys, os\nsys.path.insert(0, '/app/site-packages')\nimport greeting\ngreeting.HELLO";
    assert_eq!(text(&session, code), "'hello'");
    // The native engine has no such directory: `/app` is the workspace.
    if engine() == EngineKind::Wasm {
        assert_eq!(text(&session, "sorted(os.listdir('/app/site-packages'))[-1]"), "'greeting'");
    }
}

#[test]
fn the_path_can_be_left_alone() {
    let sandbox = build(with_site(&site()).inject_setup(false));
    let session = sandbox.session_blocking().unwrap();
    assert_eq!(text(&session, "import sys\n'/data/site-packages' in sys.path, sys.path[0]"), "(False, '')");
    let raised = session.run_blocking("import greeting").unwrap().exception.unwrap();
    assert_eq!(raised.kind, "ModuleNotFoundError");
    assert_eq!(
        text(&session, "sys.path.insert(0, '/data/site-packages')\nimport greeting\ngreeting.HELLO"),
        "'hello'"
    );
}

#[test]
fn tracebacks_show_the_users_lines() {
    let session = build(with_site(&site())).session_blocking().unwrap();
    let raised =
        session.run_blocking("import greeting.words\ngreeting.words.raises()").unwrap().exception.unwrap();
    assert_eq!((raised.message.as_str(), raised.frames.len()), ("deep", 1), "{}", raised.traceback);
}

#[test]
fn the_users_own_data_can_be_around_the_packages() {
    for writable in [false, true] {
        let data = TempDir::new().unwrap();
        fs::write(data.path().join("table.csv"), "x\n1\n").unwrap();
        let site = site();
        let builder = with_site(&site);
        let builder = match writable {
            true => builder.mount_writable(data.path(), "/data"),
            false => builder.mount(data.path(), "/data"),
        };
        let session = build(builder).session_blocking().unwrap();
        assert_eq!(text(&session, "import greeting\nopen('/data/table.csv').read()"), "'x\\n1\\n'");
        assert_eq!(
            text(&session, "import os\nsorted(os.listdir('/data'))"),
            "['site-packages', 'table.csv']"
        );
        assert_eq!(text(&session, "os.path.exists('/data/site-packages/../table.csv')"), "True");
        for code in [
            "os.rmdir('/data/site-packages')",
            "os.rename('/data/site-packages', '/data/x')",
            "open('/data/site-packages/x', 'w')",
        ] {
            assert_eq!(session.run_blocking(code).unwrap().status, Status::Error, "{code}");
        }
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1, "nothing is made on the host");
    }
}

#[test]
fn a_mount_that_conflicts_is_refused_with_a_way_out() {
    let data = TempDir::new().unwrap();
    fs::create_dir(data.path().join("site-packages")).unwrap();
    for guest in ["/data/site-packages", "/data/site-packages/inner", "/data", "/app/site-packages"] {
        let session = build(with_site(&site()).mount(data.path(), guest)).session_blocking();
        let Err(error) = session else { panic!("{guest} was mounted") };
        assert!(error.is_refusal(), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("/custom_data"), "{guest}: {error}: {hint}");
    }
}

#[test]
fn what_is_preloaded_is_in_memory_from_the_start() {
    let site = site();
    let sandbox = build(
        with_site(&site)
            .preload("greeting.words")
            .setup("import greeting\nstarted = [greeting.HELLO]\nopen('/tmp/made', 'w').write('once')"),
    );
    for _ in 0..2 {
        let session = sandbox.session_blocking().unwrap();
        assert_eq!(text(&session, "import sys\n'greeting.words' in sys.modules"), "True");
        assert_eq!(
            text(&session, "started.append(2)\nstarted"),
            "['hello', 2]",
            "its variables are each session's own"
        );
        assert_eq!(text(&session, "open('/tmp/made').read()"), "'once'");
        // A crash leads back to where it began.
        let outcome = session.run_blocking("import os\nos._exit(3)").unwrap();
        assert_eq!(outcome.status, Status::Exited);
        assert_eq!(text(&session, "started"), "['hello', 2]");
    }
}

#[test]
fn randomness_is_not_preloaded() {
    let sandbox = build(builder().setup("import random, uuid\nfirst = random.random()"));
    let draw = || text(&sandbox.session_blocking().unwrap(), "random.random(), uuid.uuid4().hex");
    assert_ne!(draw(), draw());
}

#[test]
fn what_cannot_be_preloaded_is_told() {
    for (builder, expected) in [
        (builder().preload("no_such_module"), "No module named 'no_such_module'"),
        (builder().setup("1 / 0"), "ZeroDivisionError"),
        (builder().setup("import sys\nsys.exit(3)"), "sys.exit"),
        (builder().setup("import os\nos._exit(3)"), "stopped"),
        (builder().setup("import asyncio\nawait asyncio.sleep(9)"), "awaits"),
    ] {
        let Err(error) = builder.build_blocking() else { panic!("{expected}: it was made") };
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn a_kept_session_finds_its_packages_again() {
    let state = TempDir::new().unwrap();
    let site = site();
    let sandbox = build(with_site(&site).preload("greeting").state_dir(state.path()));
    let session = sandbox.create_blocking(Some("work")).unwrap();
    session
        .run_blocking(
            "import greeting\nfile = open('/data/site-packages/greeting/words.py')\nfile.readline()",
        )
        .unwrap();
    session.hibernate_blocking().unwrap();
    drop((session, sandbox));
    // A sandbox without packages opens it: a session keeps the environment it was made in.
    let plain = build(builder().state_dir(state.path()));
    let session = plain.open_blocking("work").unwrap();
    assert_eq!(text(&session, "greeting.HELLO, file.readline()"), "('hello', 'def raises():\\n')");
    assert_eq!(text(&session, "import greeting.words\ngreeting.words.HELLO"), "'hello'");
    let children = session.fork_blocking(2).unwrap();
    assert_eq!(text(&children[1], "greeting.HELLO"), "'hello'");
    // New ones of the plain sandbox have none.
    let fresh = plain.session_blocking().unwrap();
    assert_eq!(fresh.run_blocking("import greeting").unwrap().status, Status::Error);
}

#[test]
fn an_exported_session_brings_its_packages_along() {
    let (state, other, files) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let sandbox = build(with_site(&site()).state_dir(state.path()));
    let session = sandbox.create_blocking(Some("work")).unwrap();
    session.run_blocking("import greeting").unwrap();
    let parcel = files.path().join("work.belljar");
    session.export_blocking(&parcel).unwrap();
    let registry = Registry::open(other.path()).unwrap();
    registry.import(&parcel, None, &Runtimes::default()).unwrap();
    let there = build(builder().state_dir(other.path()));
    let session = there.open_blocking("work").unwrap();
    assert_eq!(
        text(&session, "import greeting.words, importlib\nimportlib.reload(greeting.words).HELLO"),
        "'hello'"
    );
}

/// Only a part of an environment is in its name, so what came with a session must not serve others.
#[test]
fn an_imported_environment_gives_way_to_ones_own() {
    let (state, other, files) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let site = site();
    let sandbox = build(with_site(&site).state_dir(state.path()));
    let session = sandbox.create_blocking(Some("work")).unwrap();
    session.run_blocking("import greeting\nx = 5").unwrap();
    let parcel = files.path().join("work.belljar");
    session.export_blocking(&parcel).unwrap();
    Registry::open(other.path()).unwrap().import(&parcel, None, &Runtimes::default()).unwrap();
    let foreign = || {
        let environments = fs::read_dir(other.path().join("environments")).unwrap().flatten();
        environments.filter(|environment| environment.path().join("foreign").exists()).count()
    };
    assert_eq!(foreign(), 1);
    let there = build(with_site(&site).state_dir(other.path()));
    let own = there.create_blocking(Some("own")).unwrap();
    assert_eq!(foreign(), 0);
    assert_eq!(text(&own, "import greeting\ngreeting.HELLO"), "'hello'");
    assert_eq!(text(&there.open_blocking("work").unwrap(), "x, greeting.HELLO"), "(5, 'hello')");
}

#[test]
fn one_environment_is_made_once_and_never_changes() {
    let site = site();
    let first = build(with_site(&site));
    // What is changed afterwards in the user's directory is another environment.
    write(site.path(), "greeting/words.py", "HELLO = 'changed'\n");
    let second = build(with_site(&site));
    let say =
        |sandbox: &Sandbox| text(&sandbox.session_blocking().unwrap(), "import greeting\ngreeting.HELLO");
    assert_eq!((say(&first), say(&second)), ("'hello'".to_owned(), "'changed'".to_owned()));
}

#[test]
fn nothing_need_be_written_to_the_cache() {
    let site = site();
    write(site.path(), "only_in_memory.py", "x = 1\n");
    let sandbox = build(with_site(&site).in_memory_cache());
    let session = sandbox.session_blocking().unwrap();
    assert_eq!(text(&session, "import only_in_memory\nonly_in_memory.x"), "1");
    // The memory is given back with the last sandbox.
    let own = format!("belljar-memory-{}-", std::process::id());
    let left = || {
        let found = fs::read_dir("/dev/shm").unwrap().flatten();
        found.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
    };
    assert_eq!(left(), 1);
    drop((session, sandbox));
    assert_eq!(left(), 0);
}

#[test]
fn a_standard_library_of_ones_own() {
    let library = TempDir::new().unwrap();
    let session = build(builder()).session_blocking().unwrap();
    let Err(error) = builder().stdlib(library.path()).build_blocking() else { panic!("it is empty") };
    assert!(matches!(error, Error::NoStandardLibrary { .. }), "{error}");
    // Made from the interpreter's own, with one module changed.
    let names =
        text(&session, "import os\n' '.join(sorted(n for n in os.listdir('/python') if n.endswith('.py')))");
    for name in names.trim_matches('\'').split(' ') {
        fs::write(library.path().join(name), session.read_file_blocking(&format!("/python/{name}")).unwrap())
            .unwrap();
    }
    fs::create_dir(library.path().join("encodings")).unwrap();
    fs::write(library.path().join("encodings/__init__.py"), "").unwrap();
    fs::write(library.path().join("this.py"), "zen = 'mine'\n").unwrap();
    let session = build(builder().stdlib(library.path())).session_blocking().unwrap();
    assert_eq!(text(&session, "import this\nthis.zen"), "'mine'");
}

/// Each with a small use; all in one environment, as an agent would have it.
const USES: &[(&str, &str, &str)] = &[
    (
        "tabulate",
        "from tabulate import tabulate\ntabulate([[1, 2]], headers=['A', 'B']).splitlines()[0]",
        "'  A    B'",
    ),
    (
        "openpyxl",
        "import openpyxl\nbook = openpyxl.Workbook()\nbook.active['A1'] = 42\nbook.save('/tmp/a.xlsx')\nopenpyxl.load_workbook('/tmp/a.xlsx').active['A1'].value",
        "42",
    ),
    ("jinja2", "import jinja2\njinja2.Template('{{ x }}!', autoescape=True).render(x='<b>')", "'&lt;b&gt;!'"),
    ("sympy", "import sympy\nx = sympy.symbols('x')\nstr(sympy.integrate(sympy.sin(x), x))", "'-cos(x)'"),
    ("networkx", "import networkx\nnetworkx.shortest_path(networkx.path_graph(4), 0, 3)", "[0, 1, 2, 3]"),
    ("beautifulsoup4", "import bs4\nbs4.BeautifulSoup('<p>a<b>c</b></p>', 'html.parser').b.text", "'c'"),
    ("pyyaml", "import yaml\nyaml.safe_load(yaml.safe_dump({'a': [1, None]}))", "{'a': [1, None]}"),
    (
        "python-dateutil",
        "from dateutil import parser\nstr(parser.parse('3 May 2024'))",
        "'2024-05-03 00:00:00'",
    ),
    ("attrs", "import attrs\nP = attrs.make_class('P', ['x'])\nP(3)", "P(x=3)"),
    (
        "rich",
        "import io, rich.console, rich.table\nt = rich.table.Table('k')\nt.add_row('v')\nf = io.StringIO()\nrich.console.Console(file=f, width=20).print(t)\n'v' in f.getvalue()",
        "True",
    ),
];

#[test]
fn packages_that_agents_use_work() {
    let mut builder = builder();
    for (package, _, _) in USES {
        builder = builder.package(package).unwrap();
    }
    let sandbox = build(builder);
    for (package, code, expected) in USES {
        let session = sandbox.session_blocking().unwrap();
        assert_eq!(text(&session, *code), *expected, "{package}");
    }
    // Its native parts were left out, and it works without.
    let session = sandbox.session_blocking().unwrap();
    assert_eq!(text(&session, "import markupsafe._native, yaml\nyaml.__with_libyaml__"), "False");
}
