//! What comes out of cells: kept, found again, read back, given away, and made again.

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use belljar::{
    ArtifactFilter, ArtifactScope, Error, LinkOptions, Outcome, Refusal, Request, Sandbox, SandboxBuilder,
    Session, Status, StorageKind, Verdict,
};
use belljar_tests::{builder, engine, text};
use tempfile::TempDir;

/// A sandbox with a state directory that goes with it.
struct Root {
    directory: TempDir,
    sandbox: Sandbox,
}

impl Root {
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandbox = change(builder().state_dir(directory.path().join("state"))).build_blocking().unwrap();
        Self { directory, sandbox }
    }

    fn session(&self) -> Session {
        self.sandbox.session_blocking().unwrap()
    }

    fn bytes(&self, id: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.sandbox.artifacts().unwrap().read(id).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }
}

fn run(session: &Session, code: impl Into<Request>) -> Outcome {
    let outcome = session.run_blocking(code).unwrap();
    assert_eq!(outcome.status, Status::Ok, "{outcome:#?}");
    outcome
}

const REPORT: &str = "open('artifacts/report.csv', 'w').write('a,b\\n1,2\\n')";

#[test]
fn what_a_cell_leaves_is_kept_and_leaves_the_workspace() {
    for storage in [StorageKind::Memory, StorageKind::Disk] {
        let root = Root::with(|builder| builder.storage(storage));
        let session = root.session();
        let outcome = run(&session, Request::from(REPORT).tool_call("call_7"));
        let [artifact] = outcome.artifacts.as_slice() else { panic!("{outcome:#?}") };
        assert_eq!(
            (artifact.name.as_str(), artifact.size, artifact.mime.as_str()),
            ("report.csv", 8, "text/csv")
        );
        assert_eq!((artifact.cell, artifact.tool_call.as_deref()), (1, Some("call_7")));
        assert_eq!(artifact.session, session.id().to_string());
        assert!(artifact.url.as_deref().is_some_and(|url| url.contains(artifact.id.as_str())));
        assert!(outcome.artifacts_refused.is_empty() && outcome.files_created.is_empty(), "{outcome:#?}");
        assert_eq!(root.bytes(artifact.id.as_str()), b"a,b\n1,2\n");
        assert_eq!(text(&session, "import os; os.listdir('artifacts')"), "[]");
        // The same once more is another artifact with the same contents.
        let again = run(&session, REPORT).artifacts.remove(0);
        assert_eq!(again.sha256, artifact.sha256);
        assert_ne!(again.id, artifact.id);
        let artifacts = root.sandbox.artifacts().unwrap();
        let usage = artifacts.usage().unwrap();
        assert_eq!((usage.count, usage.bytes, usage.stored_bytes), (2, 16, 8));
        let listed =
            artifacts.list(&ArtifactFilter { session: Some(again.session.clone()), ..Default::default() });
        let listed: Vec<_> = listed.unwrap().into_iter().map(|artifact| artifact.id).collect();
        assert_eq!(listed, [again.id.clone(), artifact.id.clone()]);
    }
}

#[test]
fn directories_and_odd_names_are_kept_as_they_are() {
    let root = Root::new();
    let session = root.session();
    let outcome = run(
        &session,
        "import os\nos.makedirs('artifacts/a/b')\nfor name in ['a/b/deep.txt', 'CON', 'ünï 🙂', 'two\\nlines']:\n    \
         open('artifacts/' + name, 'w').write(name)\nos.symlink('/etc/passwd', 'artifacts/link')",
    );
    let mut names: Vec<&str> = outcome.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["CON", "a/b/deep.txt", "two\nlines", "ünï 🙂"]);
    for artifact in &outcome.artifacts {
        assert_eq!(root.bytes(artifact.id.as_str()), artifact.name.as_bytes());
    }
    let [refused] = outcome.artifacts_refused.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!((refused.name.as_str(), refused.why), ("link", Refusal::NotAFile));
}

#[test]
fn files_can_stay_and_displays_can_be_kept() {
    let root = Root::with(|builder| {
        let policy = belljar::Policy::for_engine(engine());
        let artifacts = belljar::ArtifactPolicy { leave: true, displays: true, ..policy.artifacts.clone() };
        builder.policy(belljar::Policy { artifacts, ..policy })
    });
    let session = root.session();
    let code = "class Plot:\n    def _repr_svg_(self):\n        return '<svg xmlns=\"http://www.w3.org/2000/svg\"/>'\n\
                display(Plot())\nopen('artifacts/a.txt', 'w').write('a')";
    let outcome = run(&session, code);
    let kinds: Vec<_> = outcome.artifacts.iter().map(|one| (one.name.as_str(), one.mime.as_str())).collect();
    assert_eq!(kinds, [("a.txt", "text/plain"), ("display-1-1.svg", "image/svg+xml")]);
    assert_eq!(outcome.files_created, ["/workspace/artifacts/a.txt"]);
    assert_eq!(text(&session, "open('artifacts/a.txt').read()"), "'a'");
    for artifact in outcome.artifacts {
        let verified = root.sandbox.verify_artifact_blocking(artifact.id.as_str()).unwrap();
        assert_eq!(verified.verdict, Verdict::Same, "{verified:#?}");
    }
}

#[test]
fn a_later_cell_reads_back_what_its_session_may() {
    let root = Root::new();
    let first = root.session();
    let made = run(&first, REPORT).artifacts.remove(0);
    let id = made.id.as_str();
    assert_eq!(text(&first, format!("artifacts.open({id:?}).read()")), "b'a,b\\n1,2\\n'");
    assert_eq!(text(&first, format!("artifacts.open({id:?}, 'r').readline()")), "'a,b\\n'");
    assert_eq!(text(&first, format!("artifacts.path({id:?}).name")), "'report.csv'");
    assert_eq!(text(&first, "[one['name'] for one in artifacts.list()]"), "['report.csv']");
    let derived =
        run(&first, format!("data = artifacts.read({id:?})\nopen('artifacts/copy', 'wb').write(data)"));
    assert_eq!(derived.artifacts[0].parents, std::slice::from_ref(&made.id).to_vec());
    // It is read-only, whatever is tried.
    let outcome = first.run_blocking(format!("open(artifacts.path({id:?}), 'a').write('more')")).unwrap();
    assert_eq!(outcome.status, Status::Error);
    assert_eq!(root.bytes(id), b"a,b\n1,2\n");
    // A child may, a stranger may not, unless the policy says so.
    let child = first.fork_blocking(1).unwrap().remove(0);
    assert_eq!(text(&child, format!("artifacts.read({id:?})[:3]")), "b'a,b'");
    let stranger = root.session();
    let outcome = stranger.run_blocking(format!("artifacts.path({id:?})")).unwrap();
    assert_eq!(outcome.exception.unwrap().kind, "FileNotFoundError");
    let friend = root.sandbox.session_with_blocking(|policy| policy.artifacts.read = ArtifactScope::Tenant);
    assert_eq!(text(&friend.unwrap(), format!("artifacts.read({id:?})[:3]")), "b'a,b'");
    let blind =
        root.sandbox.session_with_blocking(|policy| policy.artifacts.read = ArtifactScope::None).unwrap();
    assert_eq!(blind.run_blocking("artifacts").unwrap().exception.unwrap().kind, "NameError");
}

#[test]
fn what_does_not_fit_stays_in_the_workspace_and_is_told() {
    let root = Root::with(|builder| {
        builder.artifact_hook(|candidate| match candidate.name.contains("secret") {
            true => Err("nothing secret leaves".to_owned()),
            false => Ok(()),
        })
    });
    let session = root
        .sandbox
        .session_with_blocking(|policy| {
            policy.artifacts.max_bytes = Some(100);
            policy.artifacts.max_count = Some(4);
            policy.artifacts.deny = vec!["text/html".to_owned()];
        })
        .unwrap();
    let outcome = run(
        &session,
        "for name, contents in {'a.txt': 'a', 'b.html': '<html><body>', 'big': 'x' * 101, 'secret.txt': 's', 'z1': '1', \
         'z2': '2', 'z3': '3'}.items():\n    open('artifacts/' + name, 'w').write(contents)",
    );
    let kept: Vec<&str> = outcome.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    let refused: Vec<_> = outcome.artifacts_refused.iter().map(|one| (one.name.as_str(), one.why)).collect();
    assert!(kept.contains(&"a.txt"), "{outcome:#?}");
    for expected in [("b.html", Refusal::Mime), ("big", Refusal::TooLarge), ("secret.txt", Refusal::Hook)] {
        assert!(refused.contains(&expected), "{refused:?}");
    }
    assert_eq!(kept.len() + refused.len(), 7);
    let secret = outcome.artifacts_refused.iter().find(|one| one.name == "secret.txt").unwrap();
    assert!(secret.reason.contains("nothing secret leaves"), "{}", secret.reason);
    let mut left: Vec<_> = refused.iter().map(|(name, _)| format!("'{name}'")).collect();
    left.sort();
    let listed = text(&session, "import os; sorted(os.listdir('artifacts'))");
    assert_eq!(listed, format!("[{}]", left.join(", ")));
}

#[test]
fn quotas_are_kept_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = belljar::ArtifactSettings::in_directory(directory.path().join("artifacts"));
    settings.limits.session_bytes = Some(1000);
    let root = Root::with(|builder| builder.artifacts(settings));
    let session = root.session();
    let outcome =
        run(&session, "for n in range(3):\n    open(f'artifacts/{n}', 'wb').write(bytes([n]) * 400)");
    assert_eq!(outcome.artifacts.len(), 2, "{outcome:#?}");
    let [refused] = outcome.artifacts_refused.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!((refused.why, refused.size), (Refusal::SessionQuota, 400));
    // Another session has its own.
    let other = run(&root.session(), "open('artifacts/x', 'wb').write(b'x' * 900)");
    assert_eq!(other.artifacts.len(), 1);
    // When there is room again, what is written again is kept.
    root.sandbox.artifacts().unwrap().remove(outcome.artifacts[0].id.as_str()).unwrap();
    let again = run(
        &session,
        "import os\nname = os.listdir('artifacts')[0]\nopen('artifacts/' + name, 'wb').write(b'y' * 400)",
    );
    assert_eq!(again.artifacts.len(), 1, "{again:#?}");
}

#[test]
fn a_database_that_is_gone_costs_no_cell() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("not a directory");
    fs::write(&place, "").unwrap();
    let root =
        Root::with(|builder| builder.artifacts(belljar::ArtifactSettings::in_directory(place.join("x"))));
    let session = root.session();
    let outcome = run(&session, format!("x = 1\n{REPORT}"));
    let [refused] = outcome.artifacts_refused.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!((refused.why, refused.name.as_str()), (Refusal::Failed, "report.csv"));
    assert_eq!(text(&session, "x, open('artifacts/report.csv').read()"), "(1, 'a,b\\n1,2\\n')");
}

#[test]
fn provenance_is_what_led_to_it_and_no_secret() {
    let root = Root::with(|builder| builder.env("API_TOKEN", "hunter2-hunter2"));
    let session = root.session();
    run(&session, "rows = [1, 2]");
    run(&session, "rows.append(99)");
    assert_eq!(session.undo_blocking(1).unwrap(), [2]);
    let failed = session.run_blocking("token = 'hunter2-hunter2'; rows.append(3); 1 / 0").unwrap();
    assert_eq!(failed.status, Status::Error);
    let made = run(&session, "import os, json\njson.dump(rows, open('artifacts/rows.json', 'w'))")
        .artifacts
        .remove(0);
    let artifacts = root.sandbox.artifacts().unwrap();
    let found = artifacts.provenance(made.id.as_str()).unwrap();
    let numbers: Vec<u32> = found.cells.iter().map(|cell| cell.number).collect();
    assert_eq!(numbers, [1, 3, 4], "{found:#?}");
    assert_eq!(found.cells[1].status, "error");
    assert!(found.missing.is_empty());
    assert_eq!(found.origin.environment, root.sandbox.environment());
    let recorded = serde_json::to_string(&found).unwrap();
    assert!(!recorded.contains("hunter2") && recorded.contains("[redacted:API_TOKEN]"), "{recorded}");
    let verified = root.sandbox.verify_artifact_blocking(made.id.as_str()).unwrap();
    assert_eq!((verified.verdict, verified.cells), (Verdict::Same, 3), "{verified:#?}");
    assert!(verified.differences.is_empty());
    // What is taken back later stays, marked.
    session.undo_blocking(1).unwrap();
    assert!(artifacts.get(made.id.as_str()).unwrap().taken_back);
}

#[test]
fn randomness_can_be_made_again_and_other_contents_are_told() {
    let root = Root::new();
    let session = root.session();
    let code = "import random\nopen('artifacts/dice', 'w').write(str([random.random() for _ in range(5)]))";
    let made = run(&session, code).artifacts.remove(0);
    let other = run(&root.session(), code).artifacts.remove(0);
    assert_ne!(made.sha256, other.sha256);
    let verified = root.sandbox.verify_artifact_blocking(made.id.as_str()).unwrap();
    assert_eq!(verified.verdict, Verdict::Same, "{verified:#?}");
    // What depends on more than is recorded isn't the same, and that is told.
    let code = "seen = open('seen').read()\nopen('artifacts/once', 'w').write(seen)";
    session.write_file_blocking("seen", b"by the host").unwrap();
    let made = run(&session, code).artifacts.remove(0);
    let verified = root.sandbox.verify_artifact_blocking(made.id.as_str()).unwrap();
    assert_eq!(verified.verdict, Verdict::Missing);
    assert!(verified.differences.len() == 1 && !verified.doubts.is_empty(), "{verified:#?}");
}

#[test]
fn a_kept_session_knows_its_lineage_after_waking() {
    let root = Root::new();
    let session = root.sandbox.create_blocking(Some("kept")).unwrap();
    run(&session, "total = 1");
    let point = session.checkpoint_blocking(None).unwrap();
    run(&session, "total = 100");
    session.rollback_blocking(point.number).unwrap();
    drop(session);
    let session = root.sandbox.open_blocking("kept").unwrap();
    run(&session, "total += 1");
    let child = session.fork_named_blocking(None, "child").unwrap();
    drop(child);
    let child = root.sandbox.open_blocking("child").unwrap();
    let made = run(&child, "open('artifacts/total', 'w').write(str(total))").artifacts.remove(0);
    let found = root.sandbox.artifacts().unwrap().provenance(made.id.as_str()).unwrap();
    let cells: Vec<_> = found.cells.iter().map(|cell| (cell.session.as_str(), cell.number)).collect();
    assert_eq!(cells, [("kept", 1), ("kept", 3), ("child", 4)], "{found:#?}");
    let verified = root.sandbox.verify_artifact_blocking(made.id.as_str()).unwrap();
    assert_eq!(verified.verdict, Verdict::Same, "{verified:#?}");
    // Its artifacts outlive the session, and so does what is known of them.
    child.close_blocking().unwrap();
    session.close_blocking().unwrap();
    let verified = root.sandbox.verify_artifact_blocking(made.id.as_str()).unwrap();
    assert_eq!(verified.verdict, Verdict::Same, "{verified:#?}");
    assert!(fs::read_dir(root.directory.path().join("state/shelves/local")).unwrap().count() <= 1);
}

#[test]
fn links_are_good_for_whom_and_as_long_as_they_say() {
    let root = Root::new();
    let made = run(&root.session(), REPORT).artifacts.remove(0);
    let artifacts = root.sandbox.artifacts().unwrap();
    let grant = artifacts.check_link(made.url.as_deref().unwrap(), None).unwrap();
    assert_eq!(grant.artifact, made.id);
    let options = LinkOptions { audience: Some("ada".to_owned()), ..LinkOptions::default() };
    let link = artifacts.link(made.id.as_str(), &options).unwrap();
    assert!(artifacts.check_link(&link, Some("ada")).is_ok());
    for wrong in [None, Some("bob")] {
        assert!(matches!(artifacts.check_link(&link, wrong), Err(Error::Link(_))));
    }
    let spent = LinkOptions { life: Some(Duration::ZERO), ..LinkOptions::default() };
    let link = artifacts.link(made.id.as_str(), &spent).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert!(artifacts.check_link(&link, None).is_err());
    artifacts.rotate_keys().unwrap();
    assert!(artifacts.check_link(made.url.as_deref().unwrap(), None).is_ok());
    assert!(matches!(
        artifacts.link(made.id.as_str(), &LinkOptions { direct: true, ..LinkOptions::default() }),
        Err(Error::NoBucket)
    ));
}

#[test]
fn tenants_do_not_see_each_others() {
    let directory = tempfile::tempdir().unwrap();
    let of = |tenant: &str| {
        let tenant = belljar::Tenant::parse(tenant).unwrap();
        builder().state_dir(directory.path()).tenant(tenant).build_blocking().unwrap()
    };
    let (ada, bob) = (of("ada"), of("bob"));
    let made = run(&ada.session_blocking().unwrap(), REPORT).artifacts.remove(0);
    let id = made.id.as_str();
    let theirs = bob.artifacts().unwrap();
    assert!(theirs.get(id).is_err() && theirs.read(id).is_err() && theirs.remove(id).is_err());
    assert!(theirs.provenance(id).is_err() && theirs.pin(id, true).is_err());
    assert!(theirs.list(&ArtifactFilter::default()).unwrap().is_empty());
    let nosy = bob.session_with_blocking(|policy| policy.artifacts.read = ArtifactScope::Tenant).unwrap();
    let outcome = nosy.run_blocking(format!("artifacts.path({id:?})")).unwrap();
    assert_eq!(outcome.exception.unwrap().kind, "FileNotFoundError");
}

#[test]
fn many_sessions_keep_at_once() {
    let root = Root::new();
    let sandbox = Arc::new(root.sandbox.clone());
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let sandbox = Arc::clone(&sandbox);
            std::thread::spawn(move || {
                let session = sandbox.session_blocking().unwrap();
                for cell in 0..5 {
                    let code = format!(
                        "for n in range(20):\n    open(f'artifacts/{{n}}', 'w').write(f'{{n}} {cell}')"
                    );
                    let outcome = session.run_blocking(code).unwrap();
                    assert_eq!(outcome.artifacts.len(), 20, "{thread}: {outcome:#?}");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let usage = root.sandbox.artifacts().unwrap().usage().unwrap();
    // The same hundred contents, four times.
    assert_eq!(usage.count, 400);
    let distinct: u64 =
        (0..5).flat_map(|cell| (0..20).map(move |n| format!("{n} {cell}").len() as u64)).sum();
    assert_eq!(usage.stored_bytes, distinct);
}
