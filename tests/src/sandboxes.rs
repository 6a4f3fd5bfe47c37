use std::future::Future;
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use belljar::{EngineKind, Outcome, Request, Sandbox, SandboxBuilder, Session};

/// The engine under test, which `BELLJAR_TEST_ENGINE` names; by default `wasm`. Most tests need not know.
pub fn engine() -> EngineKind {
    static ENGINE: LazyLock<EngineKind> = LazyLock::new(|| match std::env::var("BELLJAR_TEST_ENGINE") {
        Ok(name) => name.parse().unwrap(),
        Err(_) => EngineKind::Wasm,
    });
    *ENGINE
}

/// Begins a sandbox with the engine under test: the only place that chooses one.
pub fn builder() -> SandboxBuilder {
    Sandbox::builder().engine(engine())
}

/// The sandbox with the default policy, one for the process.
pub fn sandbox() -> &'static Sandbox {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| builder().build_blocking().unwrap());
    &SANDBOX
}

/// A new session under the default policy.
pub fn session() -> Session {
    sandbox().session_blocking().unwrap()
}

/// Runs code in a session of its own.
pub fn run(code: impl Into<Request>) -> Outcome {
    sandbox().run_blocking(code).unwrap()
}

/// The text of the last expression of a cell that must run to its end.
pub fn text(session: &Session, code: impl Into<Request>) -> String {
    let outcome = session.run_blocking(code).unwrap();
    match outcome.value {
        Some(value) => value.text,
        None => panic!("no value: {outcome:#?}"),
    }
}

/// Runs a future on a runtime with two threads.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.unwrap().block_on(future)
}

/// Fails the test if `body` takes longer than any machine excuses.
pub fn within<T: Send + 'static>(limit: Duration, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || {
        let _ = sender.send(body());
    });
    match receiver.recv_timeout(limit) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs: no end after {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Ok(()) => unreachable!("it sends before it ends"),
            Err(panic) => std::panic::resume_unwind(panic),
        },
    }
}
