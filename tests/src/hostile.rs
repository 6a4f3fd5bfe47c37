use std::sync::LazyLock;
use std::time::Duration;

use belljar::{Outcome, Policy, Request, Sandbox, Session, SessionState, Status};

use crate::{builder, within};

/// Cells that run for ever are stopped soon, so that the suite is quick.
const SOON: Duration = Duration::from_secs(2);
/// Cells that end by themselves have time to, however busy the machine is.
const LATER: Duration = Duration::from_secs(30);
const MEMORY: u64 = 256 << 20;
/// Longer than any cell may take on a loaded machine.
const HANG: Duration = Duration::from_secs(90);

/// A cell that means harm.
pub struct Hostile {
    sandbox: Sandbox,
    before: Vec<Request>,
}

/// What became of it.
pub struct Witness {
    /// The hostile cell's outcome.
    pub outcome: Outcome,
}

impl Default for Hostile {
    fn default() -> Self {
        static SANDBOX: LazyLock<Sandbox> =
            LazyLock::new(|| builder().policy(Hostile::policy()).build_blocking().unwrap());
        Self::within(SANDBOX.clone())
    }
}

impl Hostile {
    /// For a cell that must end by itself.
    pub fn patient() -> Self {
        static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
            let policy = Policy { timeout: Some(LATER), ..Hostile::policy() };
            builder().policy(policy).build_blocking().unwrap()
        });
        Self::within(SANDBOX.clone())
    }

    /// What hostile cells may use unless a test says otherwise.
    pub fn policy() -> Policy {
        Policy { timeout: Some(SOON), memory: MEMORY, ..Policy::default() }
    }

    /// In a sandbox of the test's own.
    pub fn within(sandbox: Sandbox) -> Self {
        Self { sandbox, before: Vec::new() }
    }

    /// Under a policy of the test's own.
    pub fn under(policy: Policy) -> Self {
        Self::within(builder().policy(policy).build_blocking().unwrap())
    }

    /// Runs this in the session first.
    pub fn after(mut self, code: impl Into<Request>) -> Self {
        self.before.push(code.into());
        self
    }

    /// Runs the cell in a session that holds a variable and a file, beside another session. The host must live,
    /// the other session must not notice, and this one must answer with its variable. If the cell was taken
    /// back, its files must be as they were.
    pub fn run(self, code: impl Into<Request>) -> Witness {
        let code = code.into();
        within(HANG, move || self.run_here(code))
    }

    /// Runs a cell that tears at the kernel inside its own interpreter. Python code can reach all of it, so this
    /// session may be ruined, but it must still answer in some way, and nobody else may notice.
    pub fn ruin(self, code: impl Into<Request>) -> Witness {
        let code = code.into();
        within(HANG, move || {
            let session = self.sandbox.session_blocking().unwrap();
            let neighbour = self.sandbox.session_blocking().unwrap();
            session.run_blocking("keep = 41").unwrap();
            neighbour.run_blocking("other = [7]").unwrap();
            let outcome = session.run_blocking(code).unwrap();
            for next in ["keep", "1/0", "print(1)"] {
                session.run_blocking(next).unwrap();
            }
            assert_eq!(answer(&neighbour, "other"), "[7]");
            let fresh = self.sandbox.session_blocking().unwrap();
            assert_eq!(answer(&fresh, "6 * 7"), "42");
            Witness { outcome }
        })
    }

    fn run_here(self, code: Request) -> Witness {
        let session = self.sandbox.session_blocking().unwrap();
        let neighbour = self.sandbox.session_blocking().unwrap();
        session
            .run_blocking("keep = 41\nwith open('/workspace/kept.txt', 'w') as file: file.write('kept')\n")
            .unwrap();
        neighbour.run_blocking("other = [7]").unwrap();
        for code in self.before {
            let outcome = session.run_blocking(code).unwrap();
            assert_eq!(outcome.status, Status::Ok, "{outcome:#?}");
        }
        let files = answer(&session, FILES);

        let outcome = session.run_blocking(code).unwrap();

        assert_eq!(answer(&neighbour, "other"), "[7]");
        assert_eq!(answer(&session, "keep"), "41");
        assert_eq!(answer(&session, "keep + 1"), "42");
        if rolled_back(&outcome.session) {
            assert_eq!(answer(&session, FILES), files);
            assert!(outcome.files_created.is_empty(), "{outcome:#?}");
        }
        assert!(outcome.stdout.len() < 3 << 20 && outcome.stderr.len() < 3 << 20, "output is bounded");
        Witness { outcome }
    }
}

impl Witness {
    /// The cell must have ended in one of these ways.
    #[track_caller]
    pub fn ended(self, allowed: &[Status]) -> Self {
        let Outcome { status, reason, exception, usage, session, stderr, .. } = &self.outcome;
        let message = exception.as_ref().map(|raised| format!("{}: {:.300}", raised.kind, raised.message));
        assert!(
            allowed.contains(status),
            "{status:?} is none of {allowed:?}: {reason:?} {message:?} {usage:?} {session:?} {stderr:.500}"
        );
        self
    }

    /// The cell must have ended in an exception of this type.
    #[track_caller]
    pub fn raised(self, kind: &str) -> Self {
        let raised = self.outcome.exception.as_ref().map(|raised| raised.kind.as_str());
        assert_eq!(raised, Some(kind), "{:#?}", self.outcome);
        self
    }

    /// The cell must have ended well, with this as its last expression.
    #[track_caller]
    pub fn said(self, text: &str) -> Self {
        let said = self.outcome.value.as_ref().map(|value| value.text.as_str());
        assert_eq!(said, Some(text), "{:#?}", self.outcome);
        self
    }
}

#[track_caller]
fn answer(session: &Session, code: &str) -> String {
    let outcome = session.run_blocking(code).unwrap();
    match (outcome.status, &outcome.value) {
        (Status::Ok, Some(value)) => value.text.clone(),
        _ => panic!("{code:?} was not answered: {outcome:#?}"),
    }
}

fn rolled_back(session: &SessionState) -> bool {
    serde_json::to_value(session.state).is_ok_and(|state| state == "rolled_back")
}

/// Every file of the session and its size.
const FILES: &str = "\
__import__('json').dumps(sorted((path, *sorted((name, __import__('os').path.getsize(path + '/' + name)) \
for name in names)) for top in ('/workspace', '/tmp') for path, _, names in __import__('os').walk(top)))";
