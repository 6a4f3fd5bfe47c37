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
