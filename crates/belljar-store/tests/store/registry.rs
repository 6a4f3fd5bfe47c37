//! Listing, pruning, and what nothing is made for.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use belljar_store::{HistoryEntry, NewSession, Parent, Prune, Tenant};

use crate::support::{Scratch, id, live};

#[test]
fn looking_makes_nothing() {
    let scratch = Scratch::new();
    let (store, tenant) = (&scratch.store, Tenant::local());
    assert!(store.sessions(&tenant).unwrap().sessions.is_empty());
    assert!(store.tenants().unwrap().is_empty());
    assert!(store.record(&tenant, &id("a")).is_err());
    assert!(store.history(&tenant, &id("a")).is_err());
    assert_eq!(store.usage(&tenant).unwrap(), 0);
    assert_eq!(store.collect().unwrap().files, 0);
    assert!(store.verify(&tenant).unwrap().is_empty());
    assert!(store.prune(&tenant, &Prune::default()).unwrap().closed.is_empty());
    assert_eq!(store.cool(&tenant, Duration::ZERO).unwrap().packs, 0);
    assert!(!store.root().exists());
}

#[test]
fn records_have_what_was_given_and_are_for_their_owner_only() {
    let scratch = Scratch::new();
    let parent = Parent { session: id("p"), checkpoint: Some(2), cell: 7 };
    let new = NewSession {
        id: None,
        environment: "e".into(),
        policy: serde_json::json!({"network": "none", "wall": 1.5}),
        parent: Some(parent.clone()),
        labels: [("key \"\n".to_owned(), "value €".to_owned())].into(),
    };
    let mut lease = scratch.store.create(&Tenant::local(), new).unwrap();
    let name = lease.id().clone();
    lease.update(|settings| settings.policy["wall"] = serde_json::json!(2.5)).unwrap();
    lease.append_history(&HistoryEntry { wall_ms: 1.25, ..HistoryEntry::default() }).unwrap();
    live([(0, 1)]).commit(&mut lease).unwrap();
    let record = scratch.store.record(&Tenant::local(), &name).unwrap();
    assert_eq!(&record, lease.record());
    assert_eq!((record.parent, record.policy["wall"].as_f64()), (Some(parent), Some(2.5)));
    assert_eq!(record.stored_bytes, 4096);
    // People can read it, and so can their tools.
    let path = scratch.session_path(name.as_str()).join("session.json");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!((&json["version"], &json["session"]["environment"]), (&1.into(), &"environment".into()));

    fn check(path: &std::path::Path) {
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        if path.is_dir() {
            std::fs::read_dir(path).unwrap().for_each(|entry| check(&entry.unwrap().path()));
        }
    }
    check(scratch.store.root());
}

#[test]
fn listing_tells_who_is_in_use() {
    let scratch = Scratch::new();
    let held: Vec<_> = (0..100)
        .map(|number| scratch.create(&format!("s{number:03}")))
        .filter(|lease| lease.id().as_str().ends_with('7'))
        .collect();
    let listing = scratch.store.sessions(&Tenant::local()).unwrap();
    assert_eq!((listing.sessions.len(), listing.damaged.len()), (100, 0));
    for listed in &listing.sessions {
        assert_eq!(listed.in_use, listed.record.id.as_str().ends_with('7'));
    }
    assert!(listing.sessions.is_sorted_by_key(|listed| listed.record.id.clone()));
    drop(held);
    assert!(scratch.store.sessions(&Tenant::local()).unwrap().sessions.iter().all(|listed| !listed.in_use));
}

#[test]
fn pruning_takes_the_idle_and_the_least_recently_used_but_nobody_in_use() {
    let scratch = Scratch::new();
    let (store, tenant) = (&scratch.store, Tenant::local());
    let mut first = None;
    for number in 0..6 {
        let mut lease = scratch.create(&format!("s{number}"));
        live((0..64).map(|block| (block, 1001 * number + 2 * block + 1))).commit(&mut lease).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        if number == 0 {
            first = Some(lease);
        }
    }
    let all = store.usage(&tenant).unwrap();
    let prune = Prune { idle: None, keep_bytes: Some(all * 2 / 3 + 10_000), dry_run: true };
    let names = |numbers: &[u32]| numbers.iter().map(|number| id(&format!("s{number}"))).collect::<Vec<_>>();
    let would = store.prune(&tenant, &prune).unwrap();
    assert_eq!(would.closed, names(&[1, 2]));
    assert_eq!(store.usage(&tenant).unwrap(), all);
    let pruned = store.prune(&tenant, &Prune { dry_run: false, ..prune }).unwrap();
    assert_eq!(pruned, would);
    assert_eq!(store.usage(&tenant).unwrap(), pruned.kept_bytes);
    std::thread::sleep(Duration::from_millis(5));
    let idle = Prune { idle: Some(Duration::from_millis(1)), ..Prune::default() };
    assert_eq!(store.prune(&tenant, &idle).unwrap().closed, names(&[3, 4, 5]));
    drop(first);
    assert_eq!(store.prune(&tenant, &idle).unwrap().closed, names(&[0]));
    assert_eq!(store.usage(&tenant).unwrap(), 0);
}
