//! What saving shares, and what it leaves behind.

use std::time::Duration;

use belljar_engine::EXTENT;
use belljar_store::{CheckpointNote, Facts, Moment, NewSession, StoreError, Tenant};

use crate::support::{Scratch, assert_head, assert_loaded, id, live};

fn bytes(scratch: &Scratch) -> u64 {
    scratch.store.usage(&Tenant::local()).unwrap()
}

#[test]
fn a_state_comes_back_in_another_lease() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    assert!(lease.load().unwrap().is_none());
    let mut live = live((0..100).map(|number| (number * 7, number)));
    live.write_file(b"hello".to_vec());
    live.write_file(Vec::new());
    live.write_file(vec![7; EXTENT as usize]);
    live.contents.undo = vec![9; 100_000];
    live.commit(&mut lease).unwrap();
    assert_head(&lease, &live.contents);
    drop(lease);
    let lease = scratch.acquire("a").unwrap();
    assert_head(&lease, &live.contents);
    assert_eq!(lease.record().cells, 1);
    assert_eq!(lease.record().memory_bytes, 100 * 4096);
}

#[test]
fn a_full_memory_is_one_run() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut live = live((0..1024).map(|number| (number, number)));
    live.commit(&mut lease).unwrap();
    let loaded = lease.load().unwrap().unwrap();
    assert_eq!(loaded.guest.memory.runs.len(), 1);
    assert!(!loaded.unverified.is_empty());
    assert_eq!(loaded.unverified.bytes(), 1024 * 4096);
    assert_loaded(&loaded, &live.contents);
    // Cold it is one run of a file in memory, which is verified.
    scratch.store.cool(&Tenant::local(), Duration::ZERO).unwrap();
    let loaded = lease.load().unwrap().unwrap();
    assert_eq!(loaded.guest.memory.runs.len(), 1);
    assert!(loaded.unverified.is_empty());
    assert_loaded(&loaded, &live.contents);
}

#[test]
fn only_what_changed_is_written() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut live = live((0..1024).map(|number| (number, 2 * number + 1)));
    live.write_file(vec![3; 50_000]);
    live.commit(&mut lease).unwrap();
    let before = bytes(&scratch);
    live.write(5, 4711);
    live.commit(&mut lease).unwrap();
    let grown = bytes(&scratch) - before;
    assert!((EXTENT..2 * EXTENT).contains(&grown), "{grown}");
    // Said to have changed, but with the same bytes as before.
    live.changed = (0..64).collect();
    live.commit(&mut lease).unwrap();
    assert!(bytes(&scratch) - before < 2 * EXTENT);
    assert_eq!(scratch.packs().len(), 2);
    assert_head(&lease, &live.contents);
}

#[test]
fn a_thousand_commits_dont_fill_the_disk() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut live = live((0..512).map(|number| (number, 2 * number + 1)));
    for round in 0..300_u64 {
        for step in 0..20 {
            live.write((round * 37 + step * 29) % 512, round * 1001 + 2 * step);
        }
        live.write_file(vec![round as u8; 1000]);
        live.commit(&mut lease).unwrap();
        assert!(scratch.packs().len() <= 17, "{} packs in round {round}", scratch.packs().len());
    }
    assert!(bytes(&scratch) < 3 * 512 * 4096, "{}", bytes(&scratch));
    assert_eq!(scratch.points("a").len(), 1);
    assert_head(&lease, &live.contents);
    assert_eq!(scratch.store.collect().unwrap().files, 0);
}

#[test]
fn forks_that_go_their_own_ways_dont_fill_the_disk_either() {
    let scratch = Scratch::new();
    let mut parent = scratch.create("parent");
    let mut live = live((0..1024).map(|number| (number, 2 * number + 1)));
    live.commit(&mut parent).unwrap();
    let mut child = parent.fork(Moment::Head, Some(id("child"))).unwrap();
    let mut other = live.clone();
    for round in 0..60_u64 {
        for number in 0..1024 {
            live.write(number, round * 10_000 + 2 * number + 1);
            other.write(number, round * 10_001 + 2 * number + 1);
        }
        live.commit(&mut parent).unwrap();
        other.commit(&mut child).unwrap();
    }
    assert!(bytes(&scratch) < 80 << 20, "{}", bytes(&scratch));
    assert_head(&parent, &live.contents);
    assert_head(&child, &other.contents);
}

#[test]
fn what_was_collected_meanwhile_is_written_again() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut live = live((0..64).map(|number| (number, number)));
    live.write_file(b"a file".to_vec());
    let (_, tag) = lease.checkpoint(&live.saved(), live.facts(), CheckpointNote::default()).unwrap();
    live.now_known(tag);
    lease.delete_checkpoint(1).unwrap();
    assert_eq!(scratch.packs().len(), 0);
    live.commit(&mut lease).unwrap();
    assert_head(&lease, &live.contents);
    // The chunk's tag was moved along: nothing is written for it now.
    live.commit(&mut lease).unwrap();
    assert_eq!(scratch.packs().len(), 1);
}

#[test]
fn a_live_fork_that_becomes_a_session_keeps_what_it_shares() {
    let scratch = Scratch::new();
    let mut parent = scratch.create("parent");
    let mut live = live((0..64).map(|number| (number, number)));
    live.commit(&mut parent).unwrap();
    // No fork in the store: the engine forked the guest, and its tags came along.
    let mut forked = live.clone();
    let mut child = scratch.create("child");
    forked.commit(&mut child).unwrap();
    assert_eq!(scratch.packs().len(), 1);
    for number in 0..64 {
        live.write(number, 1000 + number);
    }
    live.commit(&mut parent).unwrap();
    assert_head(&child, &forked.contents);
    parent.close().unwrap();
    assert_head(&child, &forked.contents);
    scratch.store.collect().unwrap();
    assert_head(&child, &forked.contents);
    child.close().unwrap();
    scratch.store.collect().unwrap();
    assert_eq!(scratch.packs().len(), 0);
}

#[test]
fn nothing_is_shared_between_tenants() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut live = live((0..64).map(|number| (number, number)));
    live.write_file(b"a file".to_vec());
    live.commit(&mut lease).unwrap();
    let other = Tenant::parse("other").unwrap();
    let mut theirs = scratch.store.create(&other, NewSession::default()).unwrap();
    live.clone().commit(&mut theirs).unwrap();
    lease.close().unwrap();
    std::fs::remove_dir_all(scratch.tenant_path()).unwrap();
    assert_head(&theirs, &live.contents);
    assert_eq!(scratch.store.tenants().unwrap(), [other]);
}

#[test]
fn checkpoints() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut live = live([(0, 1), (5, 2)]);
    live.contents.undo = b"undo".to_vec();
    live.commit(&mut lease).unwrap();
    let note = |name: &str| CheckpointNote { name: Some(name.into()), cell: 3, ..CheckpointNote::default() };
    let (one, tag) = lease.checkpoint(&live.saved(), live.facts(), note("one")).unwrap();
    assert_eq!((one.number, one.name.as_deref(), one.cell, one.bytes), (1, Some("one"), 3, 8192));
    // The same moment as the head is the same point.
    assert_eq!(scratch.points("a").len(), 1);
    live.now_known(tag);
    let first = live.contents.clone();
    live.write(9, 9);
    live.commit(&mut lease).unwrap();
    let again = lease.checkpoint(&live.saved(), live.facts(), note("one"));
    assert!(matches!(again, Err(StoreError::NameTaken { .. })));
    assert_eq!(lease.checkpoint_head(CheckpointNote::default()).unwrap().number, 2);
    assert!(matches!(lease.load_checkpoint(7), Err(StoreError::NoCheckpoint { number: 7, .. })));
    drop(lease);

    let mut lease = scratch.acquire("a").unwrap();
    assert_loaded(&lease.load_checkpoint(1).unwrap(), &first);
    assert_loaded(&lease.load_checkpoint(2).unwrap(), &live.contents);
    lease.reset_head_to(1, Facts { cells: 8, ..Facts::default() }).unwrap();
    let mut without_undo = first.clone();
    without_undo.undo.clear();
    assert_head(&lease, &without_undo);
    assert_eq!(lease.record().cells, 8);
    lease.delete_checkpoint(2).unwrap();
    lease.delete_checkpoint(1).unwrap();
    assert_head(&lease, &without_undo);
    // Numbers aren't used again.
    assert_eq!(lease.checkpoint_head(note("one")).unwrap().number, 3);
    lease.close().unwrap();
    assert_eq!(scratch.packs().len(), 0);
}

#[test]
fn a_guest_that_breaks_its_rules_is_refused() {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut sound = live([(0, 1), (5, 2)]);
    sound.commit(&mut lease).unwrap();
    let refuse = |lease: &mut belljar_store::Lease, change: &dyn Fn(&mut belljar_engine::SavedGuest)| {
        let mut guest = sound.saved();
        guest.memory.known = None;
        change(&mut guest);
        assert!(matches!(lease.commit(&guest, Facts::default()), Err(StoreError::Unfit { .. })));
    };
    refuse(&mut lease, &|guest| guest.memory.runs.reverse());
    refuse(&mut lease, &|guest| guest.memory.runs[0].start = 100);
    refuse(&mut lease, &|guest| guest.memory.runs[1].length = 0);
    refuse(&mut lease, &|guest| guest.memory.runs[1].start = u64::MAX - 4095);
    refuse(&mut lease, &|guest| guest.memory.runs[1].offset = 1 << 30);
    refuse(&mut lease, &|guest| guest.memory.length = 4096);
    refuse(&mut lease, &|guest| guest.memory.length = 8 << 30);
    refuse(&mut lease, &|guest| {
        let bytes = std::sync::Arc::new(vec![0; 65537]);
        guest.chunks = vec![belljar_engine::SavedChunk { bytes, tag: Default::default() }];
    });
    assert_head(&lease, &sound.contents);
    assert_eq!(scratch.store.collect().unwrap().files, 0);
}
