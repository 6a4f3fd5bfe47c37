//! Packages that code installs into its session. The native engine only, whichever is under test; needs the index.

use std::sync::LazyLock;

use belljar::{CommandOutcome, EngineKind, Policy, Sandbox, Session};
use belljar_tests::text;

fn sandbox() -> &'static Sandbox {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
        let policy = Policy { install: true, ..Policy::for_engine(EngineKind::Native) };
        Sandbox::builder().engine(EngineKind::Native).policy(policy).build_blocking().unwrap()
    });
    &SANDBOX
}

fn session() -> Session {
    sandbox().session_blocking().unwrap()
}

fn command(session: &Session, line: &str) -> CommandOutcome {
    session.command_blocking(line).unwrap()
}

fn good(session: &Session, line: &str) -> String {
    let outcome = command(session, line);
    assert_eq!(outcome.exit_code, Some(0), "{line}\n{outcome:#?}");
    outcome.stdout + &outcome.stderr
}

#[test]
fn a_package_of_the_index() {
    let session = session();
    let said = good(&session, "pip install 'six==1.16.0'");
    assert!(said.ends_with("Successfully installed six-1.16.0\n"), "{said}");
    assert_eq!(
        text(&session, "import six\nsix.__version__, six.__file__.startswith('/workspace/.venv/')"),
        "('1.16.0', True)"
    );
    let said = good(&session, "uv pip install -U six");
    assert!(said.contains(" - six==1.16.0\n + six==1.") && !said.contains("cloudpickle"), "{said}");
    let listed = good(&session, "uv pip list");
    assert!(listed.contains("six ") && listed.contains("cloudpickle "), "{listed}");
    good(&session, "pip uninstall -y six && ! python3 -c 'import six' 2> /dev/null");
    let refused = command(&session, "pip uninstall -y cloudpickle");
    assert!(refused.exit_code == Some(1) && refused.stderr.contains("made with it"), "{refused:#?}");
}

#[test]
fn dependencies_and_programs_come_along() {
    let session = session();
    let code = "import subprocess\nsubprocess.run(['uv', 'pip', 'install', 'markdown-it-py'], check=True)\n\
        import markdown_it\nmarkdown_it.MarkdownIt().render('*x*')";
    assert_eq!(text(&session, code), "'<p><em>x</em></p>\\n'");
    assert_eq!(good(&session, "printf '**y**' > y.md && markdown-it y.md"), "<p><strong>y</strong></p>\n");
    // What is there stays as it is.
    let said = good(&session, "pip install mdurl");
    assert!(said.starts_with("Requirement already satisfied: mdurl in .venv/lib/python3."), "{said}");
}

#[test]
fn installed_files_can_be_changed() {
    let session = session();
    good(&session, "pip install -q six && echo 'changed = 1' >> .venv/lib/python3*/site-packages/six.py");
    assert_eq!(text(&session, "import six\nsix.changed, six.__cached__[-4:]"), "(1, '.pyc')");
    assert_eq!(good(&session, "python3 -c 'import six; print(six.changed)'"), "1\n");
}

#[test]
fn what_the_index_lacks_is_said_in_words() {
    let session = session();
    let outcome = command(&session, "pip install 'six==0.0.0.1'");
    assert_eq!(outcome.exit_code, Some(1), "{outcome:#?}");
    assert!(outcome.stderr.contains("six") && !outcome.stderr.contains("://"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("/root") && !outcome.stderr.contains("/home"), "{}", outcome.stderr);
}

#[test]
fn without_permission() {
    let sandbox = Sandbox::builder().engine(EngineKind::Native).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    let outcome = command(&session, "python3 -m pip install six");
    assert_eq!(outcome.exit_code, Some(1));
    let words = "this session may not install packages: allow it with --allow-install (Policy.install)";
    assert!(outcome.stderr.contains(words), "{outcome:#?}");
}

#[test]
fn two_threads_have_nothing_in_common() {
    let (first, second) = (session(), session());
    for (number, session, version) in [(1, &first, "0.8.10"), (2, &second, "0.9.0")] {
        good(session, &format!("echo 'Thread {number}' > thread.txt"));
        good(session, &format!("echo 'export THREAD={number}' > .bashrc; test ! -e .venv"));
        good(session, &format!("uv pip install tabulate=={version}"));
        good(
            session,
            &format!("npm install --silent semver@{}", if number == 1 { "6.3.1" } else { "7.6.0" }),
        );
    }
    for (number, session, version, node) in [(1, &first, "0.8.10", "6.3.1"), (2, &second, "0.9.0", "7.6.0")] {
        assert_eq!(command(session, "cat thread.txt").stdout, format!("Thread {number}\n"));
        let asked = "python -c \"import tabulate; print(tabulate.__version__)\"";
        assert_eq!(command(session, asked).stdout, format!("{version}\n"));
        assert_eq!(text(session, "import tabulate\ntabulate.__version__"), format!("'{version}'"));
        assert_eq!(text(session, "import os\nos.getcwd() == os.environ['HOME']"), "True");
        assert_eq!(command(session, "which python").stdout, "/workspace/.venv/bin/python\n");
        let listed = good(session, "uv pip list");
        assert!(listed.contains(&format!("tabulate    {version}")), "{listed}");
        let manifest = good(
            session,
            "grep '\"version\"' node_modules/semver/package.json; printenv HOME PYTHONUNBUFFERED",
        );
        assert!(manifest.contains(node) && manifest.ends_with("/workspace\n1\n"), "{manifest}");
    }
    good(
        &first,
        "rm -rf .venv node_modules && ! python -c 'import tabulate' 2> /dev/null && uv pip install -q tabulate==0.9.0",
    );
    assert_eq!(
        command(&second, "python -c 'import tabulate; print(tabulate.__version__)'").stdout,
        "0.9.0\n"
    );
}

#[test]
fn what_a_thread_installs_comes_before_the_environment() {
    let sandbox = |preload: bool| {
        let policy = Policy { install: true, ..Policy::for_engine(EngineKind::Native) };
        let builder =
            Sandbox::builder().engine(EngineKind::Native).policy(policy).package("tabulate==0.9.0").unwrap();
        let builder = if preload { builder.preload("tabulate") } else { builder };
        builder.build_blocking().unwrap()
    };
    let version = "import tabulate\ntabulate.__version__";
    let asked = "python -c 'import tabulate; print(tabulate.__version__)'";
    let plain = sandbox(false);
    let (own, other) = (plain.session_blocking().unwrap(), plain.session_blocking().unwrap());
    good(&own, "pip install -q tabulate==0.8.10");
    assert_eq!((text(&own, version), text(&other, version)), ("'0.8.10'".to_owned(), "'0.9.0'".to_owned()));
    assert_eq!((good(&own, asked), good(&other, asked)), ("0.8.10\n".to_owned(), "0.9.0\n".to_owned()));
    // What was imported ahead of time is in the interpreter's memory already, as after any import.
    let preloaded = sandbox(true).session_blocking().unwrap();
    good(&preloaded, "pip install -q tabulate==0.8.10");
    assert_eq!(
        (text(&preloaded, version), good(&preloaded, asked)),
        ("'0.9.0'".to_owned(), "0.8.10\n".to_owned())
    );
}

#[test]
fn packages_for_node_from_the_registry() {
    let session = session();
    let said = good(&session, "npm install left-pad@1.3.0 semver@^7 && npm install -D is-odd@3.0.1");
    assert!(said.contains("added 2 packages"), "{said}");
    let manifest = good(&session, "cat package.json");
    assert!(
        manifest.contains("\"left-pad\": \"^1.3.0\"") && manifest.contains("\"semver\": \"^7\""),
        "{manifest}"
    );
    assert_eq!(
        good(&session, "node -e 'console.log(require(\"left-pad\")(7, 3, 0))'; npx semver 1.2.3"),
        "007\n1.2.3\n"
    );
    let lock = good(&session, "cat package-lock.json");
    assert!(lock.contains("\"node_modules/is-number\"") && !lock.contains("://"), "{lock}");
    good(
        &session,
        "rm -rf node_modules && npm ci --omit=dev && test ! -e node_modules/is-odd && semver 1.0.0",
    );
    // A second thread that wants the same has it from the cache.
    let other = self::session();
    assert_eq!(good(&other, "npm install --silent left-pad@1.3.0 semver@^7 && semver 3.2.1"), "3.2.1\n");
    let refused = command(&session, "npm install no-such-package-of-belljar");
    assert!(
        refused.exit_code == Some(1) && refused.stderr.contains("no-such-package-of-belljar"),
        "{refused:#?}"
    );
    assert!(!refused.stderr.contains("://") && !refused.stderr.contains("/root"), "{refused:#?}");
}

#[test]
fn what_a_project_asks_for_is_not_believed() {
    let session = session();
    let ask = |text: &str| {
        session.write_file_blocking("package.json", text.as_bytes()).unwrap();
        let outcome = command(&session, "npm install");
        assert_eq!(outcome.exit_code, Some(1), "{text}\n{outcome:#?}");
        outcome.stderr
    };
    for range in [
        "git+ssh://git@x/y.git",
        "https://127.0.0.1/x.tgz",
        "file:../../etc",
        "link:..",
        "user/repo",
        "1\\n2",
        "$HOME",
    ] {
        let said = ask(&format!(r#"{{"dependencies": {{"left-pad": "{range}"}}}}"#));
        assert!(said.contains("not a version, a range or a tag"), "{said}");
    }
    for name in ["__proto__", "../x", "--prefix=/", "a\\nb", ".bin", "node_modules"] {
        let said = ask(&format!(r#"{{"dependencies": {{"{name}": "1"}}}}"#));
        assert!(said.contains("not the name of a package"), "{said}");
    }
    let many: Vec<String> = (0..600).map(|number| format!("\"a{number}\": \"1\"")).collect();
    assert!(ask(&format!("{{\"dependencies\": {{{}}}}}", many.join(","))).contains("more than"));
    // Nor is a lock: where packages come from, the registry says.
    let manifest = r#"{"dependencies": {"left-pad": "1.3.0"}, "scripts": {"preinstall": "touch ran"}}"#;
    session.write_file_blocking("package.json", manifest.as_bytes()).unwrap();
    session.write_file_blocking(".npmrc", b"registry=http://127.0.0.1:1/\nignore-scripts=false\n").unwrap();
    let lock = r#"{"lockfileVersion": 3, "packages": {"": {}, "node_modules/left-pad": {"version": "1.3.0", "resolved": "http://127.0.0.1:1/x.tgz"}}}"#;
    session.write_file_blocking("package-lock.json", lock.as_bytes()).unwrap();
    good(&session, "npm ci && test -e node_modules/left-pad/index.js && test ! -e ran");
    for (place, package) in [
        ("node_modules/../../x", r#"{"version": "1.3.0"}"#),
        ("node_modules/left-pad", r#"{"resolved": "..", "link": true}"#),
        ("node_modules/left-pad", r#"{"version": "1.3.0", "bin": {"x": "../../../../x"}}"#),
    ] {
        let lock = format!(r#"{{"lockfileVersion": 3, "packages": {{"{place}": {package}}}}}"#);
        session.write_file_blocking("package-lock.json", lock.as_bytes()).unwrap();
        let outcome = command(&session, "npm ci");
        assert!(outcome.exit_code == Some(1) && outcome.stderr.contains("package-lock.json"), "{outcome:#?}");
    }
}
