//! Many at once in one state directory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_store::{CheckpointNote, Moment, NewSession, Store, StoreError, Tenant};

use crate::support::{Scratch, assert_head, assert_loaded, id, live};

#[test]
fn commits_while_garbage_is_collected() {
    let scratch = Scratch::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let scratch = &scratch;
        let workers: Vec<_> = ["a", "b"]
            .map(|name| {
                scope.spawn(move || {
                    let mut lease = scratch.create(name);
                    let mut live = live((0..60).map(|number| (number * 5, number)));
                    let mut kept = Vec::new();
                    for round in 0..60_u64 {
                        live.write(round * 3 % 300, round);
                        live.write_file(vec![round as u8; 100]);
                        live.commit(&mut lease).unwrap();
                        if round % 7 == 0 {
                            let (guest, facts) = (live.saved(), live.facts());
                            let note = CheckpointNote::default();
                            kept.push((
                                lease.checkpoint(&guest, facts, note).unwrap().0.number,
                                live.contents.clone(),
                            ));
                        }
                        if round % 11 == 5 {
                            let child = lease.fork(Moment::Head, None).unwrap();
                            assert_head(&child, &live.contents);
                            if round % 2 == 0 {
                                child.close().unwrap();
                            }
                        }
                        assert_head(&lease, &live.contents);
                    }
                    for (number, contents) in kept {
                        assert_loaded(&lease.load_checkpoint(number).unwrap(), &contents);
                    }
                })
            })
            .into_iter()
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                scratch.store.collect().unwrap();
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(scratch.store.cool(&Tenant::local(), Duration::ZERO).unwrap().damaged.is_empty());
                assert!(scratch.store.sessions(&Tenant::local()).unwrap().damaged.is_empty());
            }
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        for result in results {
            result.unwrap();
        }
    });
    let problems = scratch.store.verify(&Tenant::local()).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn one_name_is_created_once() {
    let scratch = Scratch::new();
    for round in 0..20 {
        let name = format!("session-{round}");
        let created: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let store = Store::open(scratch.store.root()).unwrap();
                        let new = NewSession { id: Some(id(&name)), ..NewSession::default() };
                        store.create(&Tenant::local(), new)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(created.iter().filter(|result| result.is_ok()).count(), 1);
        let exists = |result: &&Result<_, StoreError>| matches!(result, Err(StoreError::Exists { .. }));
        assert_eq!(created.iter().filter(exists).count(), 3, "{created:?}");
    }
    assert_eq!(scratch.store.sessions(&Tenant::local()).unwrap().sessions.len(), 20);
}
