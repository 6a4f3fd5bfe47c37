//! Environments that sessions need.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use belljar_store::{NewSession, Tenant};

use crate::support::Scratch;

fn age(path: &std::path::Path) {
    let times = fs::FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(7200));
    fs::File::open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn an_environment_stays_while_somebody_names_it() {
    let scratch = Scratch::new();
    let store = &scratch.store;
    assert_eq!(store.environment("0123456789"), None);
    assert!(store.pin_environment("../../etc", |_| Ok(())).is_err());
    assert!(store.pin_environment("0123456789", |_| Err(io::Error::other("no"))).is_err());
    assert_eq!(store.environment("0123456789"), None);
    let fill = |path: &std::path::Path| {
        fs::create_dir(path.join("inner"))?;
        fs::write(path.join("inner/image"), b"image")
    };
    let pinned = store.pin_environment("0123456789", fill).unwrap();
    assert_eq!(fs::read(pinned.join("inner/image")).unwrap(), b"image");
    assert_eq!(store.pin_environment("0123456789", |_| panic!("it is there")).unwrap(), pinned);

    let new = NewSession { environment: "0123456789".into(), ..NewSession::default() };
    let lease = store.create(&Tenant::local(), new).unwrap();
    age(&pinned);
    store.collect().unwrap();
    assert!(pinned.is_dir());
    lease.close().unwrap();
    // Somebody asked for it a moment ago.
    assert_eq!(store.environment("0123456789"), Some(pinned.clone()));
    store.collect().unwrap();
    assert!(pinned.is_dir());
    age(&pinned);
    store.collect().unwrap();
    assert!(!pinned.exists());
}

#[test]
fn many_pin_the_same() {
    let scratch = Scratch::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let fill = |path: &std::path::Path| fs::write(path.join("image"), vec![1; 100_000]);
                let pinned = scratch.store.pin_environment("0123456789", fill).unwrap();
                assert_eq!(fs::read(pinned.join("image")).unwrap().len(), 100_000);
            });
        }
    });
    assert_eq!(fs::read_dir(scratch.store.root().join("environments")).unwrap().count(), 2);
}
