//! Processes that are killed in the middle of anything.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use belljar_store::{CheckpointNote, Lease, Moment, Store, Tenant};

use crate::support::{Contents, Live, Scratch, assert_loaded, id, live};

/// What a session has after so many commits.
fn contents(round: u64) -> Contents {
    contents_of(round).contents
}

fn contents_of(round: u64) -> Live {
    let mut live =
        live((0..200).map(|number| (number, if number % 20 == round % 20 { round } else { number })));
    live.write_file(round.to_le_bytes().to_vec());
    live.write_file(vec![round as u8; 3000]);
    live
}

fn head_round(lease: &Lease) -> u64 {
    let Some(loaded) = lease.load().unwrap() else { return 0 };
    let round = u64::from_le_bytes(loaded.guest.chunks[0].bytes.as_slice().try_into().unwrap());
    assert_loaded(&loaded, &contents(round));
    round
}

/// Run by `nothing_acknowledged_is_lost` in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn child() {
    let Ok(root) = std::env::var("BELLJAR_STORE_TEST_ROOT") else { return };
    let store = Store::open(&root).unwrap();
    let mut acknowledge =
        fs::OpenOptions::new().append(true).create(true).open(format!("{root}.log")).unwrap();
    let mut lease = store.acquire(&Tenant::local(), &id("a"), Duration::from_secs(20), &|| false).unwrap();
    for round in head_round(&lease) + 1.. {
        let guest = contents_of(round);
        let known = lease.load().unwrap().map(|loaded| loaded.guest.memory.known.unwrap());
        let mut saved = guest.saved();
        saved.memory.known = known.map(|mut known| {
            known.changed = (0..64).collect();
            known
        });
        lease.commit(&saved, guest.facts()).unwrap();
        writeln!(acknowledge, "head {round}").unwrap();
        match round % 7 {
            0 => {
                let record = lease.checkpoint_head(CheckpointNote::default()).unwrap();
                writeln!(acknowledge, "checkpoint {} {round}", record.number).unwrap();
            }
            1 => drop(lease.fork(Moment::Head, None).unwrap()),
            2 => lease.fork(Moment::Head, None).unwrap().close().unwrap(),
            3 => drop(store.cool(&Tenant::local(), Duration::ZERO).unwrap()),
            4 => assert!(store.collect().is_ok()),
            5 => drop(store.prune(
                &Tenant::local(),
                &belljar_store::Prune { idle: Some(Duration::from_millis(50)), ..Default::default() },
            )),
            _ => {}
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost() {
    let scratch = Scratch::new();
    drop(scratch.create("a"));
    let log = format!("{}.log", scratch.store.root().display());
    for round in 0..40_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crashes::child", "--exact", "--ignored"])
            .env("BELLJAR_STORE_TEST_ROOT", scratch.store.root())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // From its first commit on, at any moment.
        let length = || fs::metadata(&log).map_or(0, |metadata| metadata.len());
        let before = length();
        while length() == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(round * 7919 % 60_000));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "it ended by itself");

        let lease = scratch.acquire("a").unwrap();
        let head = head_round(&lease);
        for line in fs::read_to_string(&log).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["head", acknowledged] => assert!(head >= acknowledged.parse().unwrap()),
                ["checkpoint", number, saved] => {
                    let loaded = lease.load_checkpoint(number.parse().unwrap()).unwrap();
                    assert_loaded(&loaded, &contents(saved.parse().unwrap()));
                }
                _ => panic!("{line}"),
            }
        }
    }
    let problems = scratch.store.verify(&Tenant::local()).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let lease = scratch.acquire("a").unwrap();
    assert!(head_round(&lease) >= 40);
    drop(lease);
    for listed in scratch.store.sessions(&Tenant::local()).unwrap().sessions {
        assert!(!listed.in_use);
        scratch.acquire(listed.record.id.as_str()).unwrap().close().unwrap();
    }
    scratch.store.collect().unwrap();
    assert_eq!(scratch.store.usage(&Tenant::local()).unwrap(), 0);
}
