//! One owner at a time.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_store::{StoreError, Tenant};

use crate::support::{Scratch, id};

#[test]
fn a_busy_session_says_who_has_it() {
    let scratch = Scratch::new();
    let tenant = Tenant::local();
    let missing = scratch.store.acquire(&tenant, &id("a"), Duration::ZERO, &|| false);
    assert!(matches!(missing, Err(StoreError::NotFound { .. })));
    let lease = scratch.create("a");
    match scratch.store.acquire(&tenant, &id("a"), Duration::from_millis(30), &|| false) {
        Err(error @ StoreError::Busy { .. }) => {
            assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
            assert!(error.hint().is_some());
        }
        other => panic!("{other:?}"),
    }
    let cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            cancelled.store(true, Ordering::Relaxed);
        });
        let result =
            scratch.store.acquire(&tenant, &id("a"), Duration::MAX, &|| cancelled.load(Ordering::Relaxed));
        assert!(matches!(result, Err(StoreError::Cancelled { .. })));
    });
    assert!(scratch.store.in_use(&tenant, &id("a")));
    drop(lease);
    assert!(!scratch.store.in_use(&tenant, &id("a")));
    scratch.acquire("a").unwrap();
}

#[test]
fn whoever_waits_gets_it_when_it_is_free_or_closed() {
    let scratch = Scratch::new();
    let lease = scratch.create("a");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| scratch.acquire("a").map(|lease| lease.token()));
        std::thread::sleep(Duration::from_millis(50));
        drop(lease);
        assert_eq!(waiting.join().unwrap().unwrap(), 2);
        let lease = scratch.acquire("a").unwrap();
        let waiting = scope.spawn(|| scratch.acquire("a").map(drop));
        std::thread::sleep(Duration::from_millis(50));
        lease.close().unwrap();
        assert!(matches!(waiting.join().unwrap(), Err(StoreError::NotFound { .. })));
    });
}

#[test]
fn the_lease_of_a_dead_process_is_free() {
    let scratch = Scratch::new();
    drop(scratch.create("a"));
    let path = scratch.session_path("a").join("lease");
    let mut other = Command::new("flock").arg("--no-fork").arg(&path).args(["sleep", "60"]).spawn().unwrap();
    let busy = || {
        let lease = scratch.store.acquire(&Tenant::local(), &id("a"), Duration::ZERO, &|| false);
        matches!(lease, Err(StoreError::Busy { .. }))
    };
    while !busy() {
        std::thread::sleep(Duration::from_millis(5));
    }
    other.kill().unwrap();
    other.wait().unwrap();
    scratch.acquire("a").unwrap();
}

/// Run by `processes_take_turns` in processes of their own.
#[test]
#[ignore = "a part of another test"]
fn child() {
    let Ok(root) = std::env::var("BELLJAR_STORE_TEST_ROOT") else { return };
    let store = belljar_store::Store::open(root).unwrap();
    for _ in 0..40 {
        let wait = Duration::from_secs(60);
        let mut lease = store.acquire(&Tenant::local(), &id("a"), wait, &|| false).unwrap();
        let token = lease.token().to_string();
        lease
            .update(|settings| {
                let count = settings.labels.get("count").map_or(0, |count| count.parse::<u32>().unwrap());
                settings.labels.insert("count".into(), (count + 1).to_string());
                assert_eq!(settings.labels.insert(format!("token-{token}"), String::new()), None);
            })
            .unwrap();
    }
}

#[test]
fn processes_take_turns() {
    let scratch = Scratch::new();
    drop(scratch.create("a"));
    let spawn = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["leases::child", "--exact", "--ignored"])
            .env("BELLJAR_STORE_TEST_ROOT", scratch.store.root())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..3).map(|_| spawn()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let record = scratch.store.record(&Tenant::local(), &id("a")).unwrap();
    assert_eq!(record.labels["count"], "120");
    assert_eq!(record.labels.len(), 121);
}
