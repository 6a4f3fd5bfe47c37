//! Sessions as files.

use std::fs;

use belljar_store::{CheckpointNote, HistoryEntry, StoreError, Tenant};

use crate::support::{Contents, Scratch, assert_head, assert_loaded, id, live};

fn exported() -> (Scratch, std::path::PathBuf, Contents, Contents) {
    let scratch = Scratch::new();
    let mut lease = scratch.create("a");
    let mut live = live((0..40).map(|number| (number * 2, number)));
    live.write_file(b"a file".to_vec());
    lease.checkpoint(&live.saved(), live.facts(), CheckpointNote::default()).unwrap();
    let first = live.contents.clone();
    live.write(7, 7);
    live.commit(&mut lease).unwrap();
    lease.append_history(&HistoryEntry { number: 1, code: "x".into(), ..Default::default() }).unwrap();
    let file = scratch.directory.path().join("a.belljar");
    let mut reports = Vec::new();
    let along = file.with_extension("along");
    fs::write(&along, "what goes along").unwrap();
    let length = lease.export(&file, Some(&along), &mut |done, total| reports.push((done, total))).unwrap();
    assert_eq!(length, fs::metadata(&file).unwrap().len());
    assert!(reports.len() > 1 && reports.last().is_some_and(|(done, total)| done == total));
    (scratch, file, first, live.contents)
}

#[test]
fn out_and_in_again() {
    let (_old, file, first, last) = exported();
    let scratch = Scratch::new();
    let tenant = Tenant::parse("other").unwrap();
    let (lease, attachment) = scratch.store.import(&tenant, &file, None).unwrap();
    assert_eq!((lease.id().as_str(), lease.tenant()), ("a", &tenant));
    assert_eq!(std::io::read_to_string(attachment.unwrap()).unwrap(), "what goes along");
    assert_head(&lease, &last);
    assert_loaded(&lease.load_checkpoint(1).unwrap(), &first);
    assert_eq!(scratch.store.history(&tenant, &id("a")).unwrap().entries[0].code, "x");
    assert!(matches!(scratch.store.import(&tenant, &file, None), Err(StoreError::Exists { .. })));
    assert_head(&lease, &last);
    let (twin, _) = scratch.store.import(&tenant, &file, Some(id("twin"))).unwrap();
    lease.close().unwrap();
    scratch.store.collect().unwrap();
    assert_head(&twin, &last);
    assert!(scratch.store.verify(&tenant).unwrap().is_empty());
}

#[test]
fn a_damaged_parcel_is_refused_whole() {
    let (_old, file, ..) = exported();
    let whole = fs::read(&file).unwrap();
    let scratch = Scratch::new();
    let refuse = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        match scratch.store.import(&Tenant::local(), &file, None) {
            Err(error @ (StoreError::Damaged { .. } | StoreError::Future { .. })) => {
                assert!(error.to_string().contains("a.belljar"), "{what}: {error}");
            }
            other => panic!("{what}: {other:?}"),
        }
    };
    let mut random = blake3::Hasher::new().finalize_xof();
    let mut places: Vec<usize> = (0..100).chain(whole.len() - 100..whole.len()).collect();
    places.extend((0..100).map(|_| {
        let mut bytes = [0; 4];
        random.fill(&mut bytes);
        u32::from_le_bytes(bytes) as usize % whole.len()
    }));
    for place in places {
        let mut bad = whole.clone();
        bad[place] ^= 1 << (place % 8);
        refuse(&bad, &format!("a flip at {place}"));
    }
    for cut in [0, 1, 8, 12, 20, 53, 1000, whole.len() / 2, whole.len() - 1] {
        refuse(&whole[..cut], &format!("{cut} bytes"));
    }
    refuse(&[&whole[..], b"x"].concat(), "more at the end");
    let mut later = whole.clone();
    later[8] = 2;
    refuse(&later, "a later version");
    assert!(scratch.store.sessions(&Tenant::local()).unwrap().sessions.is_empty());
    scratch.store.collect().unwrap();
    assert_eq!(scratch.store.usage(&Tenant::local()).unwrap(), 0);
}
