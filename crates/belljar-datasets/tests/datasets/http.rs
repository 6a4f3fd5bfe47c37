//! Files that are served by HTTP, well and badly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use belljar_datasets::{DatasetError, FetchOptions, NewDataset, Source};
use proptest::prelude::*;

use crate::server::{Answer, Server};
use crate::support::{Heard, Scratch, TENANT, bytes, options, sha256};

const SIZE: usize = 3_000_000;

#[test]
fn a_file_is_fetched_once_and_then_answered_from_the_cache() {
    let (scratch, body) = (Scratch::new(), bytes(SIZE, 1));
    let served = body.clone();
    let server = Server::new(move |asked, _| Answer::file(asked, &served, "\"1\""));
    let dataset = scratch.add("sales", server.source());
    assert_eq!((dataset.file_name.as_str(), dataset.version.as_str()), ("sales.parquet", "latest"));
    let heard = Heard::default();
    let fetched = scratch.store.fetch(TENANT, "sales", None, &options(), &heard).unwrap();
    assert_eq!((fetched.size, fetched.was_cached), (SIZE as u64, false));
    assert_eq!(fetched.sha256, sha256(&body));
    assert_eq!(std::fs::read(&fetched.path).unwrap(), body);
    assert_eq!(*heard.last.lock().unwrap(), (SIZE as u64, Some(SIZE as u64)));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&fetched.path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o444);

    let again = scratch.fetch("sales").unwrap();
    assert!(again.was_cached);
    assert_eq!((again.path, again.sha256), (fetched.path, fetched.sha256.clone()));
    assert_eq!(server.requests(), 1);
    let known = scratch.store.get(TENANT, "sales", None).unwrap();
    assert_eq!((known.sha256, known.size), (Some(fetched.sha256), Some(SIZE as u64)));
    assert_eq!(scratch.partials(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_empty_file_is_a_file() {
    let scratch = Scratch::new();
    let server = Server::new(|_, _| Answer::ok(b""));
    scratch.add("empty", server.source());
    assert_eq!(scratch.fetch("empty").unwrap().size, 0);
}

#[test]
fn errors_that_pass_are_waited_for_and_a_wait_that_is_asked_for_is_kept() {
    let scratch = Scratch::new();
    let server = Server::new(|_, before| match before {
        0 => Answer::new(500, b"oops"),
        1 => Answer::new(503, b"").with("Retry-After", "1"),
        2 => Answer::new(429, b"").with("Retry-After", "86400"),
        _ => Answer::ok(b"here it is"),
    });
    scratch.add("a", server.source());
    let heard = Heard::default();
    let options = FetchOptions { longest_wait: Duration::from_millis(1_500), ..options() };
    let fetched = scratch.store.fetch(TENANT, "a", None, &options, &heard).unwrap();
    assert_eq!((fetched.size, server.requests()), (10, 4));
    let retries = heard.retries.lock().unwrap();
    let waits: Vec<Duration> = retries.iter().map(|(_, wait)| *wait).collect();
    assert!(waits[0] < Duration::from_secs(1), "{waits:?}");
    assert_eq!(waits[1..], [Duration::from_secs(1), Duration::from_millis(1_500)]);
    assert!(retries[0].0.contains("500"), "{retries:?}");
}

#[test]
fn errors_that_stay_are_given_up_with_what_the_server_said() {
    let scratch = Scratch::new();
    let server = Server::new(|asked, _| match asked.path.as_str() {
        "/missing" => Answer::new(404, b""),
        _ => Answer::new(502, b""),
    });
    scratch.add("missing", Source::http(server.url("/missing")));
    let error = scratch.fetch("missing").unwrap_err();
    assert!(matches!(&error, DatasetError::Refused { reason, .. } if reason.contains("404")), "{error}");
    assert_eq!(server.requests(), 1, "asking again doesn't help");
    scratch.add("broken", Source::http(server.url("/broken")));
    let error = scratch.fetch("broken").unwrap_err();
    assert!(
        matches!(&error, DatasetError::Failed { reason, attempts: 5, kept: 0, .. } if reason.contains("502")),
        "{error}"
    );
    assert!(error.hint().is_some());
    assert_eq!(server.requests(), 6);
    scratch.assert_nothing_was_kept();
}

#[test]
fn after_a_cut_it_goes_on_from_there() {
    for chunked in [false, true] {
        let (scratch, body) = (Scratch::new(), bytes(SIZE, 2));
        let served = body.clone();
        let server = Server::new(move |asked, before| {
            let mut answer = Answer::file(asked, &served, "\"same\"");
            answer.chunked = chunked;
            if before < 3 { answer.cut(700_000) } else { answer }
        });
        scratch.add("cut", server.source());
        assert_eq!(scratch.fetch("cut").unwrap().sha256, sha256(&body));
        let asked = server.asked.lock().unwrap();
        assert_eq!(asked.len(), 4);
        let parts: Vec<_> = asked.iter().map(crate::server::Asked::from).collect();
        assert_eq!(parts[0], None);
        assert!(parts[1..].windows(2).all(|pair| pair[0] < pair[1]), "{parts:?}");
        assert_eq!(asked[1].headers["if-range"], "\"same\"");
    }
}

#[test]
fn many_cuts_are_fine_as_long_as_each_part_brings_something() {
    let (scratch, body) = (Scratch::new(), bytes(9 << 20, 3));
    let served = body.clone();
    let server =
        Server::new(move |asked, _| Answer::file(asked, &served, "\"same\"").cut((1 << 20) + 70_000));
    scratch.add("cut", server.source());
    let options = FetchOptions { attempts: 2, ..options() };
    assert_eq!(scratch.fetch_with("cut", &options).unwrap().sha256, sha256(&body));
    assert!(server.requests() > 7, "{}", server.requests());
}

#[test]
fn what_was_fetched_before_a_failure_is_gone_on_with_the_next_time() {
    let (scratch, body) = (Scratch::new(), bytes(SIZE, 4));
    let served = body.clone();
    let server = Server::new(move |asked, before| match before {
        0 => Answer::file(asked, &served, "\"same\"").cut(1_000_000),
        1 => Answer::new(500, b""),
        _ => Answer::file(asked, &served, "\"same\""),
    });
    scratch.add("cut", server.source());
    let hurried = FetchOptions { attempts: 1, ..options() };
    let error = scratch.fetch_with("cut", &hurried).unwrap_err();
    let DatasetError::Failed { kept, .. } = error else { panic!("{error}") };
    assert!(kept > 0 && kept <= 1_000_000, "{kept}");
    assert!(matches!(scratch.fetch_with("cut", &hurried).unwrap_err(), DatasetError::Failed { .. }));
    assert_eq!(scratch.fetch_with("cut", &hurried).unwrap().sha256, sha256(&body));
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked.last().unwrap().from(), Some(kept as usize));
}

#[test]
fn a_file_that_changes_between_two_parts_is_fetched_from_the_beginning() {
    let (scratch, old, new) = (Scratch::new(), bytes(SIZE, 5), bytes(SIZE, 6));
    let expected = sha256(&new);
    let server = Server::new(move |asked, before| match before {
        0 => Answer::file(asked, &old, "\"old\"").cut(2_000_000),
        _ => Answer::file(asked, &new, "\"new\""),
    });
    scratch.add("changing", server.source());
    assert_eq!(scratch.fetch("changing").unwrap().sha256, expected);
}

#[test]
fn servers_that_ignore_if_range_are_caught_by_their_etag() {
    let (scratch, old, new) = (Scratch::new(), bytes(SIZE, 5), bytes(SIZE, 6));
    let expected = sha256(&new);
    let server = Server::new(move |asked, before| {
        let mut asked = asked.clone();
        asked.headers.remove("if-range");
        match before {
            0 => Answer::file(&asked, &old, "\"old\"").cut(2_000_000),
            _ => Answer::file(&asked, &new, "\"new\""),
        }
    });
    scratch.add("changing", server.source());
    assert_eq!(scratch.fetch("changing").unwrap().sha256, expected);
}

#[test]
fn servers_without_parts_or_with_wrong_ones_are_asked_for_all_of_it() {
    for kind in 0..4 {
        let (scratch, body) = (Scratch::new(), bytes(SIZE, 7));
        let served = body.clone();
        let server = Server::new(move |asked, before| match (before, asked.from()) {
            (0, _) => Answer::ok(&served).with("ETag", "\"1\"").cut(1_500_000),
            (_, None) => Answer::ok(&served).with("ETag", "\"1\""),
            (_, Some(from)) => match kind {
                // All of it, as if nobody had asked for a part.
                0 => Answer::ok(&served).with("ETag", "\"1\""),
                1 => Answer::new(416, b""),
                // Another part.
                2 => Answer::new(206, &served[from - 10..]).with(
                    "Content-Range",
                    &format!("bytes {}-{}/{}", from - 10, served.len() - 1, served.len()),
                ),
                // A part that isn't the rest.
                _ => Answer::new(206, &served[from..from + 100])
                    .with("Content-Range", &format!("bytes {from}-{}/{}", from + 99, served.len())),
            },
        });
        scratch.add("whole", server.source());
        assert_eq!(scratch.fetch("whole").unwrap().sha256, sha256(&body), "kind {kind}");
    }
}

#[test]
fn without_an_etag_parts_are_put_together_only_if_a_hash_was_promised() {
    for promised in [false, true] {
        let (scratch, body) = (Scratch::new(), bytes(SIZE, 8));
        let served = body.clone();
        let server = Server::new(move |asked, before| {
            let mut answer = Answer::file(asked, &served, "W/\"weak\"");
            answer.headers.retain(|(name, _)| name != "ETag");
            if before == 0 { answer.cut(1_500_000) } else { answer }
        });
        let mut new = NewDataset::new("a", server.source());
        new.sha256 = promised.then(|| sha256(&body));
        scratch.store.add(TENANT, new).unwrap();
        assert_eq!(scratch.fetch("a").unwrap().sha256, sha256(&body));
        assert_eq!(server.asked.lock().unwrap()[1].from().is_some(), promised);
    }
}

#[test]
fn parts_that_do_not_belong_together_are_noticed_by_the_promised_hash() {
    let (scratch, old, new) = (Scratch::new(), bytes(SIZE, 9), bytes(SIZE, 10));
    let promised = sha256(&new);
    let server = Server::new(move |asked, before| {
        // No validator at all, and the contents change.
        let mut answer = Answer::file(asked, if before == 0 { &old } else { &new }, "");
        answer.headers.retain(|(name, _)| name != "ETag");
        if before == 0 { answer.cut(1_500_000) } else { answer }
    });
    scratch.store.add(TENANT, NewDataset::new("a", server.source()).sha256(&promised)).unwrap();
    assert_eq!(scratch.fetch("a").unwrap().sha256, promised);
    assert_eq!(server.requests(), 3);
}

/// What a server does instead of sending the file.
#[derive(Clone, Debug)]
enum Fault {
    Error(u16),
    Cut(usize),
    /// From now on it has something else.
    Change,
    /// Then it doesn't tell by its tag.
    ChangeUnsaid,
    NoParts,
    WrongPart(usize),
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let fault = prop_oneof![
        prop_oneof![Just(500_u16), Just(503), Just(416), Just(412), Just(429)].prop_map(Fault::Error),
        (0..PART).prop_map(Fault::Cut),
        (0..PART).prop_map(Fault::Cut),
        Just(Fault::Change),
        Just(Fault::ChangeUnsaid),
        Just(Fault::NoParts),
        (1..PART).prop_map(Fault::WrongPart),
    ];
    proptest::collection::vec(fault, 0..8)
}

const PART: usize = 100_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_server_does_there_is_a_whole_file_or_an_error(faults in faults(), promised in any::<bool>()) {
        let scratch = Scratch::new();
        let unsaid = faults.iter().any(|fault| matches!(fault, Fault::ChangeUnsaid));
        let state = Mutex::new((0_u64, 0_u64));
        let plan = faults.clone();
        let server = Server::new(move |asked, before| {
            let mut state = state.lock().unwrap();
            match plan.get(before) {
                Some(Fault::Change) => *state = (state.0 + 1, state.1 + 1),
                Some(Fault::ChangeUnsaid) => state.0 += 1,
                _ => {}
            }
            let body = bytes(PART, state.0);
            let answer = Answer::file(asked, &body, &format!("\"{}\"", state.1));
            match plan.get(before) {
                Some(Fault::Error(status)) => Answer::new(*status, b""),
                Some(Fault::Cut(after)) => answer.cut(*after),
                // A change alone isn't noticed by anybody; so there is a cut before it.
                Some(Fault::Change | Fault::ChangeUnsaid) => answer.cut(PART / 2),
                Some(Fault::NoParts) => Answer::ok(&body).with("ETag", &format!("\"{}\"", state.1)),
                Some(Fault::WrongPart(from)) => Answer::new(206, &body[*from..])
                    .with("Content-Range", &format!("bytes {from}-{}/{PART}", PART - 1)),
                None => answer,
            }
        });
        let changes = faults.iter().filter(|fault| matches!(fault, Fault::Change | Fault::ChangeUnsaid)).count();
        let states: Vec<String> = (0..=changes as u64).map(|seed| sha256(&bytes(PART, seed))).collect();
        let mut new = NewDataset::new("a", server.source());
        // Without a hash, nobody can tell when a server lies about its tag.
        new.sha256 = (promised || unsaid).then(|| states[states.len() - 1].clone());
        let promised = new.sha256.clone();
        scratch.store.add(TENANT, new).unwrap();
        let fetched = scratch.fetch_with("a", &FetchOptions { attempts: 20, backoff: Duration::from_millis(1), ..options() });
        match fetched {
            Ok(fetched) => {
                prop_assert!(states.contains(&fetched.sha256));
                prop_assert!(promised.is_none_or(|promised| promised == fetched.sha256));
                prop_assert_eq!(sha256(&std::fs::read(fetched.path).unwrap()), fetched.sha256);
            }
            Err(error) => {
                let is_known = matches!(error, DatasetError::Refused { .. } | DatasetError::Broken { .. });
                prop_assert!(is_known, "{}", error);
                prop_assert!(scratch.blobs().is_empty());
            }
        }
    }
}

#[test]
fn a_lie_about_the_hash_leaves_nothing_behind() {
    let (scratch, body) = (Scratch::new(), bytes(SIZE, 11));
    let served = body.clone();
    let server = Server::new(move |_, _| Answer::ok(&served));
    let promised = "ab".repeat(32);
    scratch.store.add(TENANT, NewDataset::new("liar", server.source()).sha256(&promised)).unwrap();
    let error = scratch.fetch("liar").unwrap_err();
    assert!(
        matches!(&error, DatasetError::Broken { what: "SHA-256", found, .. } if *found == sha256(&body)),
        "{error}"
    );
    assert_eq!(server.requests(), 1);
    scratch.assert_nothing_was_kept();
    assert_eq!(scratch.store.get(TENANT, "liar", None).unwrap().sha256, Some(promised));
}

#[test]
fn a_version_never_changes_and_the_latest_may() {
    let scratch = Scratch::new();
    let server = Server::new(|_, before| Answer::ok(format!("contents {before}").as_bytes()));
    scratch.store.add(TENANT, NewDataset::new("a", server.source()).version("1")).unwrap();
    scratch.add("b", server.source());
    let first = scratch.fetch("a").unwrap();
    let refresh = FetchOptions { refresh: true, ..options() };
    let error = scratch.fetch_with("a", &refresh).unwrap_err();
    assert!(matches!(error, DatasetError::Broken { .. }), "{error}");
    assert_eq!(scratch.fetch("a").unwrap().sha256, first.sha256, "the first is still there");
    let latest = scratch.fetch("b").unwrap();
    let later = scratch.fetch_with("b", &refresh).unwrap();
    assert_ne!(latest.sha256, later.sha256);
    assert_eq!(scratch.fetch("b").unwrap().sha256, later.sha256);
}

#[test]
fn too_much_is_refused_before_it_comes_and_while_it_does() {
    let scratch = Scratch::new();
    let server = Server::new(|asked, _| {
        let mut answer = Answer::ok(&bytes(2_000_000, 1));
        // It doesn't say how much there is.
        answer.chunked = asked.path != "/said";
        answer
    });
    let options = FetchOptions { max_bytes: 1_000_000, ..options() };
    for path in ["/said", "/unsaid"] {
        scratch.store.add(TENANT, NewDataset::new("big", Source::http(server.url(path))).replace()).unwrap();
        let error = scratch.fetch_with("big", &options).unwrap_err();
        assert!(matches!(error, DatasetError::TooLarge { most: 1_000_000, .. }), "{error}");
        scratch.assert_nothing_was_kept();
    }
    assert_eq!(server.requests(), 2);
    let mut sized = NewDataset::new("sized", server.source());
    sized.size = Some(1_000);
    scratch.store.add(TENANT, sized).unwrap();
    let error = scratch.fetch("sized").unwrap_err();
    assert!(matches!(error, DatasetError::Broken { what: "size", .. }), "{error}");
    scratch.assert_nothing_was_kept();
}

#[test]
fn half_a_body_without_a_length_is_not_taken_for_a_whole_one() {
    let scratch = Scratch::new();
    let body = bytes(100_000, 12);
    let served = body.clone();
    let server = Server::new(move |_, _| Answer { length: None, ..Answer::ok(&served) });
    scratch.add("endless", server.source());
    let error = scratch.fetch("endless").unwrap_err();
    assert!(matches!(&error, DatasetError::Refused { reason, .. } if reason.contains("promise")), "{error}");
    scratch.assert_nothing_was_kept();
    let promised = NewDataset::new("promised", server.source()).sha256(sha256(&body));
    scratch.store.add(TENANT, promised).unwrap();
    assert_eq!(scratch.fetch("promised").unwrap().size, 100_000);
    for (name, size, whole) in [("sized", 100_000, true), ("longer", 100_001, false)] {
        let new = NewDataset { size: Some(size), ..NewDataset::new(name, server.source()) };
        scratch.store.add(TENANT, new).unwrap();
        assert_eq!(scratch.fetch(name).is_ok(), whole);
    }
}

#[test]
fn a_length_that_is_too_long_is_a_cut() {
    let scratch = Scratch::new();
    let server = Server::new(|_, _| Answer { length: Some(2_000), ..Answer::ok(&bytes(1_000, 13)) });
    scratch.add("short", server.source());
    let error = scratch.fetch("short").unwrap_err();
    assert!(matches!(error, DatasetError::Failed { attempts: 5, .. }), "{error}");
    scratch.assert_nothing_was_kept();
}

#[test]
fn a_server_that_falls_silent_is_left_and_asked_again() {
    let (scratch, body) = (Scratch::new(), bytes(SIZE, 14));
    let served = body.clone();
    let server = Server::new(move |asked, before| {
        let mut answer = Answer::file(asked, &served, "\"1\"");
        if before == 0 {
            answer.pause = Some((1_000_000, Duration::from_secs(60)));
        }
        answer
    });
    scratch.add("silent", server.source());
    let heard = Heard::default();
    let options = FetchOptions { stall_timeout: Duration::from_secs(1), ..options() };
    let fetched = scratch.store.fetch(TENANT, "silent", None, &options, &heard).unwrap();
    assert_eq!(fetched.sha256, sha256(&body));
    assert!(heard.retries.lock().unwrap()[0].0.contains("nothing came"));
    assert!(server.asked.lock().unwrap()[1].from().is_some());
}

#[test]
fn all_of_it_has_a_bound_and_can_be_cancelled() {
    let scratch = Scratch::new();
    let server = Server::new(|asked, _| {
        let mut answer = Answer::file(asked, &bytes(SIZE, 15), "\"1\"");
        answer.pause = Some((100_000, Duration::from_secs(60)));
        answer
    });
    scratch.add("slow", server.source());
    let options = FetchOptions { timeout: Duration::from_millis(300), ..options() };
    let error = scratch.fetch_with("slow", &options).unwrap_err();
    assert!(matches!(error, DatasetError::TimedOut { .. }), "{error}");
    let cancel = Arc::new(AtomicBool::new(false));
    let options = FetchOptions { cancel: Some(Arc::clone(&cancel)), ..crate::support::options() };
    thread::scope(|scope| {
        let fetching = scope.spawn(|| scratch.fetch_with("slow", &options));
        while server.requests() < 2 {
            thread::sleep(Duration::from_millis(5));
        }
        cancel.store(true, Ordering::Relaxed);
        let error = fetching.join().unwrap().unwrap_err();
        assert!(matches!(error, DatasetError::Stopped { .. }), "{error}");
    });
}

#[test]
fn redirects_are_followed_but_not_in_a_circle_nor_elsewhere() {
    let scratch = Scratch::new();
    let other = Server::new(|asked, _| {
        assert!(!asked.headers.contains_key("x-key") && !asked.headers.contains_key("authorization"));
        Answer::ok(b"from elsewhere")
    });
    let elsewhere = other.url("/x");
    let server = Server::new(move |asked, _| match asked.path.as_str() {
        "/a" => Answer::new(302, b"").with("Location", "/b"),
        "/b" => {
            assert_eq!(asked.headers["x-key"], "secret-key");
            Answer::new(307, b"").with("Location", &elsewhere)
        }
        "/circle" => Answer::new(301, b"").with("Location", "/circle"),
        "/file" => Answer::new(302, b"").with("Location", "file:///etc/passwd"),
        _ => Answer::new(302, b"").with("Location", "http://[nonsense"),
    });
    let headers = [("X-Key".to_owned(), "secret-key".to_owned())].into();
    scratch.add("a", Source::Http { url: server.url("/a"), headers });
    assert_eq!(std::fs::read(scratch.fetch("a").unwrap().path).unwrap(), b"from elsewhere");
    assert_eq!(other.requests(), 1);
    for (path, word) in [("/circle", "more than 10"), ("/file", "isn't HTTP"), ("/nonsense", "no sense")] {
        let name = path.trim_start_matches('/');
        scratch.add(name, Source::http(server.url(path)));
        let error = scratch.fetch(name).unwrap_err();
        assert!(matches!(&error, DatasetError::Refused { reason, .. } if reason.contains(word)), "{error}");
    }
}

#[test]
fn private_addresses_are_refused_unless_allowed_however_they_are_written() {
    let scratch = Scratch::new();
    let server = Server::new(|_, _| Answer::ok(b"secret of the host"));
    let port = server.port;
    for (number, host) in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433", "0.0.0.0"]
            .iter()
            .enumerate()
    {
        let name = format!("d{number}");
        scratch.add(&name, Source::http(format!("http://{host}:{port}/x")));
        let error =
            scratch.fetch_with(&name, &FetchOptions { allow_private: false, ..options() }).unwrap_err();
        assert!(matches!(error, DatasetError::Private { .. }), "{host}: {error}");
    }
    assert_eq!(server.requests(), 0);
    scratch.assert_nothing_was_kept();
}

#[test]
fn what_is_sent_packed_is_not_taken_for_the_file() {
    let scratch = Scratch::new();
    let server = Server::new(|asked, _| {
        assert_eq!(asked.headers["accept-encoding"], "identity");
        Answer::ok(b"\x1f\x8b packed").with("Content-Encoding", "gzip")
    });
    scratch.add("packed", server.source());
    let error = scratch.fetch("packed").unwrap_err();
    assert!(matches!(&error, DatasetError::Refused { reason, .. } if reason.contains("packed")), "{error}");
    scratch.add("named", Source::http(server.url("/data.csv.gz")));
    assert_eq!(scratch.store.get(TENANT, "named", None).unwrap().file_name, "named.csv.gz");
    assert_eq!(std::fs::read(scratch.fetch("named").unwrap().path).unwrap(), b"\x1f\x8b packed");
}

#[test]
fn nobody_at_home_is_a_failure_and_not_a_hang() {
    let scratch = Scratch::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    scratch.add("nobody", Source::http(format!("http://127.0.0.1:{port}/x")));
    let error = scratch.fetch_with("nobody", &FetchOptions { attempts: 2, ..options() }).unwrap_err();
    assert!(matches!(error, DatasetError::Failed { attempts: 2, .. }), "{error}");
    scratch.add("unnamed", Source::http("http://nobody.invalid/x"));
    let error = scratch.fetch_with("unnamed", &FetchOptions { attempts: 2, ..options() }).unwrap_err();
    assert!(matches!(error, DatasetError::Failed { .. }), "{error}");
}

#[test]
fn it_works_on_threads_of_somebody_elses_runtime() {
    let scratch = Scratch::new();
    let server = Server::new(|_, _| Answer::ok(b"hello"));
    scratch.add("a", server.source());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let size = runtime.block_on(async { scratch.fetch("a").unwrap().size });
    assert_eq!(size, 5);
    runtime.block_on(async { drop(scratch) });
}
