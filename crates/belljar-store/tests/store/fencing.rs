//! Owners that lost their session can't write to it.

use std::fs;
use std::time::Duration;

use belljar_store::{CheckpointNote, Facts, HistoryEntry, StoreError, Tenant};

use crate::support::{Scratch, assert_head, id, live};

#[test]
fn an_owner_whose_lease_file_was_replaced_is_fenced_off() {
    let scratch = Scratch::new();
    let mut old = scratch.create("a");
    let mut first = live([(1, 1)]);
    first.commit(&mut old).unwrap();
    fs::remove_file(scratch.session_path("a").join("lease")).unwrap();
    let mut new = scratch.acquire("a").unwrap();
    assert!(new.token() > old.token());
    let mut second = live([(2, 2)]);
    second.commit(&mut new).unwrap();

    let third = live([(3, 3)]);
    let lost = |result: Result<(), StoreError>| assert!(matches!(result, Err(StoreError::LeaseLost { .. })));
    lost(old.commit(&third.saved(), Facts::default()).map(drop));
    lost(old.checkpoint(&third.saved(), Facts::default(), CheckpointNote::default()).map(drop));
    lost(old.update(|settings| settings.labels.clear()));
    lost(old.append_history(&HistoryEntry::default()));
    lost(old.close());
    assert_head(&new, &second.contents);
    assert_eq!(scratch.store.record(&Tenant::local(), &id("a")).unwrap(), *new.record());
    // The one that is fenced off left nothing behind.
    new.close().unwrap();
    scratch.store.collect().unwrap();
    assert_eq!(scratch.store.usage(&Tenant::local()).unwrap(), 0);
}

#[test]
fn an_owner_whose_token_was_overwritten_is_fenced_off() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let path = scratch.session_path("a").join("lease");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("token 1 ", "token 2 ", 1)).unwrap();
    assert!(matches!(live([]).commit(&mut lease), Err(StoreError::LeaseLost { .. })));
    // It isn't found under its own name any more.
    drop(lease);
    fs::rename(scratch.session_path("a"), scratch.session_path("b")).unwrap();
    assert!(matches!(scratch.acquire("a"), Err(StoreError::NotFound { .. })));
    assert!(scratch.acquire("b").unwrap_err().is_damage());
}

#[test]
fn the_token_survives_the_lease_file() {
    let scratch = Scratch::new();
    let mut tokens = vec![scratch.create("a").token()];
    for round in 0..20 {
        if round % 3 == 0 {
            fs::write(scratch.session_path("a").join("lease"), "").unwrap();
        }
        let mut lease = scratch.store.acquire(&Tenant::local(), &id("a"), Duration::ZERO, &|| false).unwrap();
        tokens.push(lease.token());
        if round % 2 == 0 {
            lease.touch().unwrap();
        }
    }
    assert!(tokens.is_sorted_by(|one, other| one < other), "{tokens:?}");
}
