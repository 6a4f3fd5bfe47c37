//! What every pair of a database and a place for contents does alike.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use belljar_artifacts::{
    Admission, ArtifactError, ArtifactStore, Batch, Candidate, CellRecord, CollectOptions, DatasetUse,
    Filter, Origin, Refusal, StoreLimits,
};
use futures_util::TryStreamExt;

use crate::support::{SESSION, TENANT, file, keep, noise, read, read_by, try_keep, try_keep_as};

/// Makes a store that is empty and nobody else's.
pub(crate) type Maker<'m> = &'m dyn Fn(StoreLimits) -> ArtifactStore;

/// A test for each check. `$check` calls it with what makes stores.
macro_rules! tests {
    ($check:path) => {
        $crate::suite::tests! { $check:
            what_is_kept_is_read_back
            contents_are_stored_once
            nobody_sees_what_another_tenant_has
            lists_are_filtered_and_have_pages
            parts_are_read
            streams_give_the_same
            local_files_can_be_linked_and_not_written
            large_files_go_through
            what_may_not_leave_stays
            quotas_are_kept_file_by_file
            the_quota_of_all_counts_what_is_stored
            names_are_only_names
            readers_are_not_believed
            histories_are_followed
            histories_have_holes_that_are_told
            pinned_ones_outlive_their_age
            removed_contents_come_back
            the_same_bytes_from_all_sides_at_once
            garbage_is_collected_while_others_write
            many_tiny_files
            an_empty_batch_is_nothing
        }
    };
    ($check:path: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $check($crate::suite::$name);
            }
        )*
    };
}
pub(crate) use tests;

pub(crate) fn what_is_kept_is_read_back(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let kept = keep(&store, vec![file("plots/a.png", b"\x89PNG\r\n\x1a\nrest"), file("empty", b"")]);
    let [first, second] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!((first.name.as_str(), first.size, first.mime.as_str()), ("plots/a.png", 12, "image/png"));
    assert_eq!((first.session.as_str(), first.cell, first.tool_call.as_deref()), (SESSION, 1, Some("call")));
    assert_eq!((first.pinned, first.taken_back, first.url.as_deref()), (false, false, None));
    assert_eq!(second.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert!(first.created_at.ends_with('Z') && first.created_at.len() == 24, "{}", first.created_at);
    assert_eq!(read(&store, first), b"\x89PNG\r\n\x1a\nrest");
    assert_eq!(read(&store, second), b"");
    for artifact in &kept {
        assert_eq!(store.artifact(TENANT, artifact.id.as_str()).unwrap(), *artifact);
        store.verify(TENANT, artifact.id.as_str()).unwrap();
    }
    assert!(first.id < second.id);
}

pub(crate) fn contents_are_stored_once(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let large = noise(1, 3 << 20);
    keep(&store, vec![file("a", b"same"), file("b", b"same"), file("c", &large), file("d", &large)]);
    let again = keep(&store, vec![file("a", b"same"), file("e", &large)]);
    let usage = store.usage(None).unwrap();
    assert_eq!((usage.count, usage.stored_bytes), (6, 4 + large.len() as u64));
    assert_eq!(usage.bytes, 3 * (4 + large.len() as u64));
    assert_eq!(store.usage(Some(TENANT)).unwrap(), usage);
    assert_eq!(store.usage(Some("nobody")).unwrap(), belljar_artifacts::StoreUsage::default());
    assert!(read(&store, &again[1]) == large);
    let collected =
        store.collect(&CollectOptions { grace: Duration::ZERO, ..CollectOptions::default() }).unwrap();
    assert_eq!((collected.artifacts, collected.blobs), (0, 0), "nothing was written in vain");
}

pub(crate) fn nobody_sees_what_another_tenant_has(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let mine = keep(&store, vec![file("a", b"mine")]).remove(0);
    let id = mine.id.as_str();
    let other = "other";
    let refused = [
        store.artifact(other, id).map(drop),
        store.read(other, id, None).map(drop),
        store.local(other, id).map(drop),
        store.pin(other, id, true),
        store.remove(other, id),
        store.provenance(other, id).map(drop),
        store.verify(other, id),
        store.presigned(other, id, Duration::from_secs(1), None).map(drop),
        store.artifact(TENANT, "art_00000000000000000000000000").map(drop),
        store.artifact(TENANT, "../\0").map(drop),
        store.artifact("\0", id).map(drop),
        store.remove(TENANT, "' OR 1 = 1 --"),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(matches!(error, ArtifactError::NotFound { .. }), "{error}");
        assert!(error.hint().is_some());
    }
    assert_eq!(store.take_back(other, SESSION, 1..=1).unwrap(), 0);
    assert!(store.list(other, &Filter::default()).unwrap().is_empty());
    assert_eq!(store.artifact(TENANT, id).unwrap(), mine);
}

pub(crate) fn lists_are_filtered_and_have_pages(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let admission = Admission::default();
    for cell in 1..=3 {
        let (name, bytes) =
            (format!("{cell}.png"), [b"\x89PNG\r\n\x1a\n".as_slice(), &[cell as u8]].concat());
        let files = vec![file(&name, &bytes), file("x.bin", b"x")];
        try_keep_as(&store, (TENANT, SESSION, cell), files, &admission).unwrap();
    }
    try_keep_as(&store, (TENANT, "another", 1), vec![file("y", b"y")], &admission).unwrap();
    let names = |filter: Filter| -> Vec<String> {
        store.list(TENANT, &filter).unwrap().into_iter().map(|artifact| artifact.name).collect()
    };
    let text = |text: &str| Some(text.to_owned());
    let all = names(Filter::default());
    assert_eq!(all, ["y", "x.bin", "3.png", "x.bin", "2.png", "x.bin", "1.png"]);
    assert_eq!(names(Filter { session: text("another"), ..Filter::default() }), ["y"]);
    assert_eq!(names(Filter { cell: Some(2), ..Filter::default() }), ["x.bin", "2.png"]);
    assert_eq!(names(Filter { name: text("1.png"), ..Filter::default() }), ["1.png"]);
    assert_eq!(names(Filter { mime: text("image/*"), ..Filter::default() }), ["3.png", "2.png", "1.png"]);
    assert_eq!(names(Filter { mime: text("image/png"), ..Filter::default() }).len(), 3);
    for mime in ["image", "im%/*", "imag_/*", "image\0/*", "!/*"] {
        assert!(names(Filter { mime: text(mime), ..Filter::default() }).is_empty(), "{mime}");
    }
    assert!(names(Filter { name: text("\0"), ..Filter::default() }).is_empty());
    assert!(names(Filter { name: text("' OR ''='"), ..Filter::default() }).is_empty());

    let some = store.list(TENANT, &Filter { name: text("x.bin"), ..Filter::default() }).unwrap();
    assert_eq!(names(Filter { sha256: Some(some[0].sha256.clone()), ..Filter::default() }).len(), 3);
    store.pin(TENANT, some[0].id.as_str(), true).unwrap();
    assert_eq!(names(Filter { pinned: Some(true), ..Filter::default() }), ["x.bin"]);
    assert_eq!(names(Filter { pinned: Some(false), ..Filter::default() }).len(), 6);

    let mut paged = Vec::new();
    let mut filter = Filter { limit: Some(2), ..Filter::default() };
    loop {
        let page = store.list(TENANT, &filter).unwrap();
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        filter.after = Some(last.id.clone());
        paged.extend(page.into_iter().map(|artifact| artifact.name));
    }
    assert_eq!(paged, all);
}

pub(crate) fn parts_are_read(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let bytes = noise(2, 100_000);
    let id = keep(&store, vec![file("a", &bytes)]).remove(0).id;
    let part = |range: std::ops::Range<u64>| {
        let mut part = Vec::new();
        store.read(TENANT, id.as_str(), Some(range)).unwrap().read_to_end(&mut part).unwrap();
        part
    };
    assert_eq!(part(0..1), bytes[..1]);
    assert!(part(0..100_000) == bytes);
    assert!(part(99_990..200_000) == bytes[99_990..]);
    assert!(part(50_000..60_000) == bytes[50_000..60_000]);
    for nothing in [5..5, 100_000..100_001, u64::MAX - 1..u64::MAX] {
        assert!(part(nothing).is_empty());
    }
    #[expect(clippy::reversed_empty_ranges, reason = "somebody may ask for that")]
    let reversed = part(9..3);
    assert!(reversed.is_empty());
}

pub(crate) fn streams_give_the_same(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let bytes = noise(3, 3 << 20);
    let artifact = keep(&store, vec![file("a", &bytes)]).remove(0);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for (range, wanted) in [(None, &bytes[..]), (Some(7..2_000_000), &bytes[7..2_000_000])] {
            let (told, pieces) = store.stream(TENANT, artifact.id.as_str(), range).await.unwrap();
            let pieces: Vec<_> = pieces.try_collect().await.unwrap();
            assert_eq!(told, artifact);
            assert!(pieces.concat() == wanted);
        }
        let missing = store.stream("other", artifact.id.as_str(), None).await.map(drop).unwrap_err();
        assert!(matches!(missing, ArtifactError::NotFound { .. }));
        // One that nobody reads to its end keeps nobody.
        drop(store.stream(TENANT, artifact.id.as_str(), None).await.unwrap());
        // Nor does it matter where the store ends.
        drop(store);
    });
}

pub(crate) fn local_files_can_be_linked_and_not_written(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let bytes = noise(4, 70_000);
    let artifact = keep(&store, vec![file("../x".trim_start_matches("../"), &bytes)]).remove(0);
    let path = store.local(TENANT, artifact.id.as_str()).unwrap();
    assert_eq!(store.local(TENANT, artifact.id.as_str()).unwrap(), path);
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o7777, metadata.len()), (0o444, 70_000));
    let link = path.with_file_name("link");
    fs::hard_link(&path, &link).unwrap();
    store.remove(TENANT, artifact.id.as_str()).unwrap();
    assert!(fs::read(&link).unwrap() == bytes, "who has it keeps it");
    fs::remove_file(link).unwrap();
}

pub(crate) fn large_files_go_through(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let sizes = [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (8 << 20) + 5, 21 << 20];
    let files: Vec<Vec<u8>> = sizes.iter().map(|size| noise(*size as u64, *size)).collect();
    for _ in 0..2 {
        let kept = keep(&store, files.iter().map(|bytes| file("large", bytes)).collect());
        for (artifact, bytes) in kept.iter().zip(&files) {
            assert_eq!(artifact.size, bytes.len() as u64);
            assert!(read(&store, artifact) == *bytes);
        }
    }
    assert_eq!(store.usage(None).unwrap().stored_bytes, sizes.iter().sum::<usize>() as u64);
    // The same size, but something else.
    let other = noise(99, sizes[4]);
    let kept = keep(&store, vec![file("other", &other)]);
    assert!(read(&store, &kept[0]) == other);
}

pub(crate) fn what_may_not_leave_stays(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let text = |text: &str| vec![text.to_owned()];
    let keep_by = |admission: &Admission, files| {
        let ingested = try_keep_as(&store, (TENANT, SESSION, 1), files, admission).unwrap();
        let kept: Vec<String> = ingested.kept.into_iter().map(|artifact| artifact.name).collect();
        let refused: Vec<_> =
            ingested.refused.into_iter().map(|refused| (refused.name, refused.why)).collect();
        (kept, refused)
    };
    let refused = |name: &str, why| (name.to_owned(), why);
    let files =
        || vec![file("a.png", b"\x89PNG\r\n\x1a\n"), file("b.bin", b"\x01\x02"), file("c.bin", b"\x01\x03")];

    let images = Admission { mime: text("image/*"), ..Admission::default() };
    let expected = vec![refused("b.bin", Refusal::Mime), refused("c.bin", Refusal::Mime)];
    assert_eq!(keep_by(&images, files()), (text("a.png"), expected));
    let no_images = Admission { deny: text("image/*"), ..Admission::default() };
    assert_eq!(keep_by(&no_images, files()).1, [refused("a.png", Refusal::Mime)]);
    let few = Admission { max_count: Some(1), ..Admission::default() };
    let expected = vec![refused("b.bin", Refusal::TooMany), refused("c.bin", Refusal::TooMany)];
    assert_eq!(keep_by(&few, files()), (text("a.png"), expected));
    let small = Admission { max_bytes: Some(2), ..Admission::default() };
    assert_eq!(keep_by(&small, files()).1, [refused("a.png", Refusal::TooLarge)]);

    let hook = |candidate: &Candidate<'_>| {
        assert_eq!((candidate.tenant, candidate.session, candidate.cell), (TENANT, SESSION, 1));
        assert_eq!(candidate.sha256.len(), 64);
        if candidate.name == "b.bin" { Err(format!("{} bytes of secrets", candidate.size)) } else { Ok(()) }
    };
    let hooked = Admission { hook: Some(Arc::new(hook)), ..Admission::default() };
    let ingested = try_keep_as(&store, (TENANT, SESSION, 1), files(), &hooked).unwrap();
    assert_eq!(ingested.kept.len(), 2);
    assert_eq!(ingested.refused[0].reason, "2 bytes of secrets");
    assert_eq!(ingested.refused[0].why, Refusal::Hook);

    // It is told to be small, and never ends.
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    let endless = read_by("endless", 1, move || Counted(io::repeat(7), Arc::clone(&count)));
    let most = Admission { max_bytes: Some(5 << 20), ..Admission::default() };
    let (kept, refusals) = keep_by(&most, vec![endless, file("b.bin", b"\x01\x02")]);
    assert_eq!((kept, refusals), (text("b.bin"), vec![refused("endless", Refusal::TooLarge)]));
    assert!(taken.load(Ordering::Relaxed) <= (5 << 20) + 1, "{taken:?}");
}

/// Counts what is read.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.0.read(room)?;
        self.1.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

pub(crate) fn quotas_are_kept_file_by_file(make: Maker<'_>) {
    let limits = StoreLimits {
        session_bytes: Some(100),
        session_count: Some(4),
        tenant_bytes: Some(150),
        tenant_count: Some(6),
        ..StoreLimits::default()
    };
    let store = make(limits);
    let keep_in =
        |session, files| try_keep_as(&store, (TENANT, session, 1), files, &Admission::default()).unwrap();
    let bytes = noise(5, 200);
    let ingested =
        keep_in("a", vec![file("60", &bytes[..60]), file("50", &bytes[..50]), file("40", &bytes[..40])]);
    assert_eq!(ingested.kept.iter().map(|kept| kept.size).collect::<Vec<_>>(), [60, 40]);
    let refused = &ingested.refused[0];
    assert_eq!((refused.name.as_str(), refused.size, refused.why), ("50", 50, Refusal::SessionQuota));
    assert_eq!(refused.reason, "the session may keep 100 bytes, has 60 bytes, and this is 50 bytes");

    // The same bytes twice count twice for whoever has them.
    let ingested = keep_in("b", vec![file("60", &bytes[..60]), file("0", b""), file("1", b"1")]);
    assert_eq!(ingested.refused[0].why, Refusal::TenantQuota);
    let ingested = keep_in("b", vec![file("2", b"2"), file("3", b"3"), file("4", b"4")]);
    assert_eq!(ingested.kept.len(), 2);
    assert_eq!(ingested.refused[0].why, Refusal::SessionQuota, "{}", ingested.refused[0].reason);
    let ingested = keep_in("c", vec![file("5", b"5")]);
    assert_eq!(ingested.refused[0].reason, "the tenant may keep 6 files, and has 6");

    // What is removed makes room.
    for artifact in store.list(TENANT, &Filter { session: Some("a".into()), ..Filter::default() }).unwrap() {
        store.remove(TENANT, artifact.id.as_str()).unwrap();
    }
    assert_eq!(keep_in("a", vec![file("100", &bytes[..100])]).kept.len(), 1);
    // Another tenant has room of its own.
    let other =
        try_keep_as(&store, ("other", "a", 1), vec![file("100", &bytes[..100])], &Admission::default());
    assert_eq!(other.unwrap().kept.len(), 1);
    // It is told to be small, but isn't.
    let liar = read_by("liar", 1, || io::repeat(1));
    assert_eq!(keep_in("d", vec![liar]).refused[0].why, Refusal::TenantQuota);
}

pub(crate) fn the_quota_of_all_counts_what_is_stored(make: Maker<'_>) {
    let limits = StoreLimits {
        total_bytes: Some(3 << 20),
        total_count: Some(5),
        session_bytes: None,
        session_count: None,
        tenant_bytes: None,
        tenant_count: None,
        max_age: None,
    };
    let store = make(limits);
    let bytes = noise(6, 2 << 20);
    let keep_all = |files| try_keep(&store, files).unwrap();
    assert_eq!(keep_all(vec![file("a", &bytes), file("b", &bytes), file("c", &bytes[1..])]).kept.len(), 2);
    let endless = keep_all(vec![read_by("endless", 5, || io::repeat(1))]);
    assert_eq!(endless.refused[0].why, Refusal::StoreQuota, "{}", endless.refused[0].reason);
    assert_eq!(keep_all(vec![file("d", &bytes), file("e", b"e"), file("f", b"f")]).kept.len(), 3);
    let full = keep_all(vec![file("g", b"g")]);
    assert_eq!(full.refused[0].reason, "the store may keep 5 files, and has 5");
    let collected =
        store.collect(&CollectOptions { grace: Duration::ZERO, ..CollectOptions::default() }).unwrap();
    assert_eq!(collected.blobs, 0, "what was refused is gone already");
}

pub(crate) fn names_are_only_names(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let long = "n".repeat(300);
    let longest = "é".repeat(512);
    let strange = [
        "CON",
        "NUL.txt",
        "🦀/🦀.png",
        "a\nb",
        "\u{1b}[31mred",
        "-rf",
        "%2e%2e%2f",
        "a\\..\\b",
        "' --",
        &long,
        &longest,
    ];
    let too_long = "n".repeat(1025);
    let megabyte = "n".repeat(1 << 20);
    let refused = [
        "",
        "/etc/passwd",
        "../../x",
        "a/../../x",
        "..",
        "a//b",
        "./a",
        "a/.",
        "nul\0byte",
        &too_long,
        &megabyte,
    ];
    let files = strange.iter().chain(&refused).map(|name| file(name, name.as_bytes())).collect();
    let ingested = try_keep(&store, files).unwrap();
    assert_eq!(ingested.kept.iter().map(|kept| kept.name.as_str()).collect::<Vec<_>>(), strange);
    assert_eq!(ingested.refused.len(), refused.len());
    for refused in &ingested.refused {
        assert_eq!(refused.why, Refusal::Name, "{:?}", refused.name);
        assert!(refused.name.len() <= 1024);
    }
    for artifact in &ingested.kept {
        assert_eq!(store.artifact(TENANT, artifact.id.as_str()).unwrap(), *artifact);
        assert_eq!(read(&store, artifact), artifact.name.as_bytes());
        let path = store.local(TENANT, artifact.id.as_str()).unwrap();
        assert!(path.to_str().unwrap().ends_with(&artifact.sha256[2..]));
    }
    for (tenant, session) in [("", "s"), ("t", ""), ("t\0", "s"), ("t", "s\0")] {
        let error = try_keep_as(&store, (tenant, session, 1), Vec::new(), &Admission::default()).unwrap_err();
        assert!(matches!(error, ArtifactError::Invalid { .. }), "{error}");
    }
}

pub(crate) fn readers_are_not_believed(make: Maker<'_>) {
    /// Gives some bytes, and fails.
    struct Breaks(usize);
    impl Read for Breaks {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::other("the disk is on fire"));
            }
            let length = self.0.min(room.len()).min(4096);
            room[..length].fill(1);
            self.0 -= length;
            Ok(length)
        }
    }
    let store = make(StoreLimits::default());
    let large = noise(7, 2 << 20);
    let mut opened = 0;
    let unopened = belljar_artifacts::NewFile {
        name: "unopened".into(),
        open: Box::new(|| Err(io::Error::from(io::ErrorKind::PermissionDenied))),
        size: 3,
    };
    let changing = read_by("changing", large.len() as u64, || {
        opened += 1;
        io::repeat(opened).take(2 << 20)
    });
    keep(&store, vec![file("same size", &large)]);
    let files = vec![
        read_by("breaks early", 10, || Breaks(5)),
        read_by("breaks late", 10, || Breaks(3 << 20)),
        unopened,
        read_by("fewer", 1 << 40, || &b"fewer"[..]),
        read_by("more", 0, || &b"more"[..]),
        read_by("many more", 1, || io::repeat(7).take(3 << 20)),
        changing,
        file("good", b"good"),
    ];
    // It isn't opened: it says itself that it is too large.
    let ingested = try_keep(&store, files).unwrap();
    let refused: Vec<_> =
        ingested.refused.iter().map(|refused| (refused.name.as_str(), refused.why)).collect();
    let in_any_case = [
        ("breaks early", Refusal::Failed),
        ("breaks late", Refusal::Failed),
        ("unopened", Refusal::Failed),
        ("fewer", Refusal::SessionQuota),
    ];
    assert_eq!(refused[..4], in_any_case);
    // Where it would have to be the same each time that it is read, it can't be kept.
    assert!(refused.len() == 4 || refused[4..] == [("changing", Refusal::Failed)], "{refused:?}");
    assert!(ingested.refused[1].reason.contains("the disk is on fire"), "{}", ingested.refused[1].reason);
    for artifact in &ingested.kept {
        store.verify(TENANT, artifact.id.as_str()).unwrap();
    }
    let sizes: Vec<_> = ingested.kept.iter().map(|kept| (kept.name.as_str(), kept.size)).collect();
    assert_eq!(sizes[..2], [("more", 4), ("many more", 3 << 20)]);
    assert_eq!(*sizes.last().unwrap(), ("good", 4));
}

/// Cells that follow each other.
fn chain(session: &str, origin: &Origin, codes: &[&str], after: Option<&CellRecord>) -> Vec<CellRecord> {
    let mut cells: Vec<CellRecord> = Vec::new();
    for code in codes {
        let previous = cells.last().or(after).map(CellRecord::id);
        let dataset =
            DatasetUse { name: "d".into(), version: "1".into(), sha256: "00".into(), file: String::new() };
        cells.push(CellRecord {
            previous,
            origin: origin.id(),
            session: session.into(),
            number: cells.len() as u32 + 1,
            code: (*code).to_owned(),
            datasets: vec![dataset],
            ..CellRecord::default()
        });
    }
    cells
}

fn batch<'a>(
    session: &'a str,
    origin: &'a Origin,
    cells: &'a [CellRecord],
    admission: &'a Admission,
    bytes: &'a [u8],
) -> Batch<'a, 'a> {
    let files = vec![file("f", bytes)];
    let cell = cells.last().map_or(0, |cell| cell.number);
    Batch {
        tenant: TENANT,
        session,
        cell,
        tool_call: None,
        origin,
        cells,
        parents: Vec::new(),
        files,
        admission,
    }
}

fn codes(cells: &[CellRecord]) -> Vec<&str> {
    cells.iter().map(|cell| cell.code.as_str()).collect()
}

pub(crate) fn histories_are_followed(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let admission = Admission::default();
    let policy = serde_json::json!({"z": 1, "a": ["\0", 1.5], "m": {"b": null, "a": true}});
    let origin = Origin { lock: Some("lock".into()), policy, seed: Some(u64::MAX), ..Origin::default() };
    let cells = chain("s", &origin, &["a = 1", "b = '\0'", "write()"], None);
    let first = store.ingest(batch("s", &origin, &cells, &admission, b"1")).unwrap().kept.remove(0);
    let later = chain("s", &origin, &["c = 3", "write(2)"], cells.last());
    let mut second = batch("s", &origin, &later, &admission, b"2");
    second.parents = vec![first.id.clone()];
    let second = store.ingest(second).unwrap().kept.remove(0);
    assert_eq!(second.parents, std::slice::from_ref(&first.id));

    let of_first = store.provenance(TENANT, first.id.as_str()).unwrap();
    assert_eq!((&of_first.artifact, &of_first.origin, &of_first.cells), (&first, &origin, &cells));
    assert!(of_first.missing.is_empty(), "{:?}", of_first.missing);
    let of_second = store.provenance(TENANT, second.id.as_str()).unwrap();
    assert_eq!(codes(&of_second.cells), ["a = 1", "b = '\0'", "write()", "c = 3", "write(2)"]);
    assert_eq!(of_second.artifact.parents, std::slice::from_ref(&first.id));

    // A fork goes on from the first one's end, and has another origin.
    let forked = Origin { engine: "native".into(), ..origin.clone() };
    let fork = chain("fork", &forked, &["forked()"], cells.last());
    let third = store.ingest(batch("fork", &forked, &fork, &admission, b"3")).unwrap().kept.remove(0);
    let of_third = store.provenance(TENANT, third.id.as_str()).unwrap();
    assert_eq!(codes(&of_third.cells), ["a = 1", "b = '\0'", "write()", "forked()"]);
    assert_eq!(of_third.origin, forked);

    assert_eq!(store.take_back(TENANT, "s", 2..=2).unwrap(), 1);
    assert_eq!(store.take_back(TENANT, "s", 2..=2).unwrap(), 0, "it was taken back already");
    assert!(store.artifact(TENANT, second.id.as_str()).unwrap().taken_back);
    assert!(!store.artifact(TENANT, first.id.as_str()).unwrap().taken_back);
    // Given again, they are the same.
    store.ingest(batch("s", &origin, &cells, &admission, b"4")).unwrap();
    assert_eq!(store.provenance(TENANT, first.id.as_str()).unwrap(), of_first);
}

pub(crate) fn histories_have_holes_that_are_told(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let admission = Admission::default();
    let origin = Origin::default();
    let cells = chain("s", &origin, &["a", "b", "c"], None);
    let unrecorded = store.ingest(batch("s", &origin, &[], &admission, b"0")).unwrap().kept.remove(0);
    let told = store.provenance(TENANT, unrecorded.id.as_str()).unwrap();
    assert_eq!((told.cells.len(), told.missing.len()), (0, 1));

    let last = store.ingest(batch("s", &origin, &cells[2..], &admission, b"1")).unwrap().kept.remove(0);
    let told = store.provenance(TENANT, last.id.as_str()).unwrap();
    assert_eq!(codes(&told.cells), ["c"]);
    assert!(told.missing[0].contains(&cells[1].id()), "{:?}", told.missing);
    assert!(store.knows(&cells[2].id()).unwrap());
    assert!(!store.knows(&cells[1].id()).unwrap());

    // Cells are recorded though nothing is kept of them.
    let refusing = Admission { max_count: Some(0), ..Admission::default() };
    assert!(store.ingest(batch("s", &origin, &cells[..2], &refusing, b"2")).unwrap().kept.is_empty());
    let told = store.provenance(TENANT, last.id.as_str()).unwrap();
    assert_eq!((codes(&told.cells), told.missing.len()), (vec!["a", "b", "c"], 0));

    // What nothing comes from goes, once it is old.
    let unused = chain("s", &origin, &["x", "y"], None);
    store.ingest(batch("s", &origin, &unused, &refusing, b"2")).unwrap();
    let now = CollectOptions { record_grace: Duration::ZERO, ..CollectOptions::default() };
    assert_eq!(store.collect(&CollectOptions::default()).unwrap().records, 0);
    assert_eq!(store.collect(&CollectOptions { dry_run: true, ..now.clone() }).unwrap().records, 2);
    assert_eq!(store.collect(&now).unwrap().records, 2);
    assert!(store.knows(&cells[0].id()).unwrap() && !store.knows(&unused[0].id()).unwrap());
    store.remove(TENANT, last.id.as_str()).unwrap();
    assert_eq!(store.collect(&now).unwrap().records, 3);
}

pub(crate) fn pinned_ones_outlive_their_age(make: Maker<'_>) {
    let store = make(StoreLimits { max_age: Some(Duration::from_secs(1000)), ..StoreLimits::default() });
    let kept = keep(&store, vec![file("a", b"a"), file("b", b"b"), file("c", b"a")]);
    store.pin(TENANT, kept[2].id.as_str(), true).unwrap();
    assert_eq!(store.usage(None).unwrap().pinned, 1);
    let now_ms =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let at = |now_ms| CollectOptions { now_ms: Some(now_ms), ..CollectOptions::default() };
    // Young; and a clock that went back, by a little and by all.
    for now_ms in [now_ms, now_ms - 100_000_000, 0] {
        assert_eq!(store.collect(&at(now_ms)).unwrap().artifacts, 0);
    }
    let later = at(now_ms + 2_000_000);
    let dry = store.collect(&CollectOptions { dry_run: true, ..later.clone() }).unwrap();
    assert_eq!((dry.artifacts, store.usage(None).unwrap().count), (2, 3));
    let collected = store.collect(&later).unwrap();
    assert_eq!((collected.artifacts, collected.blobs, collected.bytes), (2, 1, 1));
    assert_eq!(read(&store, &kept[2]), b"a");
    assert!(store.artifact(TENANT, kept[0].id.as_str()).is_err());
    let usage = store.usage(None).unwrap();
    assert_eq!((usage.count, usage.bytes, usage.stored_bytes), (1, 1, 1));
    store.pin(TENANT, kept[2].id.as_str(), false).unwrap();
    let sooner = CollectOptions { max_age: Some(Duration::from_secs(5000)), ..later.clone() };
    assert_eq!(store.collect(&sooner).unwrap().artifacts, 0);
    assert_eq!(store.collect(&later).unwrap().artifacts, 1);
    // Nothing is counted any more.
    assert_eq!(store.usage(None).unwrap(), belljar_artifacts::StoreUsage::default());
}

pub(crate) fn removed_contents_come_back(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let large = noise(8, 2 << 20);
    for _ in 0..3 {
        let kept = keep(&store, vec![file("a", b"a"), file("b", &large), file("c", b"a")]);
        assert!(read(&store, &kept[1]) == large);
        store.remove(TENANT, kept[0].id.as_str()).unwrap();
        assert_eq!(read(&store, &kept[2]), b"a", "another one has it still");
        for artifact in &kept[1..] {
            store.remove(TENANT, artifact.id.as_str()).unwrap();
            assert!(matches!(
                store.remove(TENANT, artifact.id.as_str()),
                Err(ArtifactError::NotFound { .. })
            ));
        }
        assert_eq!(store.usage(None).unwrap(), belljar_artifacts::StoreUsage::default());
    }
}

pub(crate) fn the_same_bytes_from_all_sides_at_once(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let (large, small) = (noise(9, 2 << 20), noise(10, 9_000));
    thread::scope(|scope| {
        for number in 0..8 {
            let (store, large, small) = (store.clone(), &large, &small);
            scope.spawn(move || {
                let session = format!("s{number}");
                for _ in 0..3 {
                    let files = vec![file("large", large), file("small", small)];
                    let kept = try_keep_as(&store, (TENANT, &session, 1), files, &Admission::default())
                        .unwrap()
                        .kept;
                    assert!(read(&store, &kept[0]) == *large && read(&store, &kept[1]) == *small);
                }
            });
        }
    });
    let usage = store.usage(None).unwrap();
    assert_eq!((usage.count, usage.stored_bytes), (48, (large.len() + small.len()) as u64));
}

pub(crate) fn garbage_is_collected_while_others_write(make: Maker<'_>) {
    // In a bucket this takes some grace.
    collect_while_others_write(&make(StoreLimits::default()), Duration::from_secs(60));
}

pub(crate) fn collect_while_others_write(store: &ArtifactStore, grace: Duration) {
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|number| {
                let store = store.clone();
                scope.spawn(move || {
                    for round in 0..25 {
                        let bytes = noise(round % 3, if round % 5 == 0 { 2 << 20 } else { 500 });
                        let session = format!("s{number}");
                        let files = vec![file("a", &bytes), file("b", b"b")];
                        let kept = try_keep_as(&store, (TENANT, &session, 1), files, &Admission::default());
                        let kept = kept.unwrap().kept;
                        for artifact in &kept {
                            store.verify(TENANT, artifact.id.as_str()).unwrap();
                            store.remove(TENANT, artifact.id.as_str()).unwrap();
                        }
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            store.collect(&CollectOptions { grace, ..CollectOptions::default() }).unwrap();
        }
    });
    assert_eq!(store.usage(None).unwrap(), belljar_artifacts::StoreUsage::default());
}

pub(crate) fn many_tiny_files(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let names: Vec<String> = (0..2300).map(|number| format!("{number}.txt")).collect();
    let admission = Admission { max_count: Some(1000), ..Admission::default() };
    let files = names.iter().map(|name| file(name, name.as_bytes())).collect();
    let ingested = try_keep_as(&store, (TENANT, SESSION, 1), files, &admission).unwrap();
    assert_eq!((ingested.kept.len(), ingested.refused.len(), ingested.more_refused), (1000, 1000, 300));
    assert!(ingested.refused.iter().all(|refused| refused.why == Refusal::TooMany));
    assert!(ingested.kept.iter().zip(&names).all(|(kept, name)| kept.name == *name));
    assert!(ingested.kept.is_sorted_by(|one, two| one.id < two.id));
    for artifact in ingested.kept.iter().step_by(97) {
        assert_eq!(read(&store, artifact), artifact.name.as_bytes());
    }
    assert_eq!(store.usage(None).unwrap().count, 1000);
    assert_eq!(
        store.list(TENANT, &Filter { limit: Some(u64::MAX), ..Filter::default() }).unwrap().len(),
        1000
    );
}

pub(crate) fn an_empty_batch_is_nothing(make: Maker<'_>) {
    let store = make(StoreLimits::default());
    let ingested = try_keep(&store, Vec::new()).unwrap();
    assert!(ingested.kept.is_empty() && ingested.refused.is_empty());
    assert_eq!(store.usage(None).unwrap().count, 0);
}
