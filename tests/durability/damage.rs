//! Damage in every kind of file: an error that names it, and nothing else is harmed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar::{Error, Policy, Sandbox, StoreError};
use tempfile::TempDir;

use crate::noise::Noise;
use crate::places::{files, keeping};
use crate::tally;

/// What the victim has, what it had at its checkpoint, and what the other has.
const NUMBER: u64 = 11;
const BEFORE: u64 = 10;
const OTHER: u64 = 22;

/// A state directory with a session that has all that one can have, and another that has nothing to do with it.
struct Scene {
    directory: TempDir,
}

impl Scene {
    fn new(cold: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Broken memory may make anything of a cell.
        let policy = Policy { timeout: Some(Duration::from_secs(10)), ..Policy::default() };
        let sandbox = keeping(&directory.path().join("state")).policy(policy).build_blocking().unwrap();
        let other = sandbox.create_blocking(Some("other")).unwrap();
        tally::begin(&other, OTHER);
        let victim = sandbox.create_blocking(Some("victim")).unwrap();
        tally::begin(&victim, BEFORE);
        victim.checkpoint_blocking(Some("before")).unwrap();
        // What it shares with a child is marked.
        drop(victim.fork_named_blocking(None, "child").unwrap());
        tally::mark(&victim, NUMBER);
        victim.hibernate_blocking().unwrap();
        other.hibernate_blocking().unwrap();
        if cold {
            sandbox.registry().unwrap().cool(Duration::ZERO).unwrap();
        }
        Self { directory }
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// All files but thousands of small ones that are all the same to us.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        files(&self.state()).into_iter().filter(|path| !path.iter().any(|part| part == "zoneinfo"))
    }

    /// Files that aren't the other session's, by kind.
    fn kinds(&self) -> BTreeMap<String, Vec<PathBuf>> {
        let mut kinds = BTreeMap::<String, Vec<PathBuf>>::new();
        let others = self.packs_of_the_other();
        for path in self.files() {
            let relative = path.strip_prefix(self.state()).unwrap().to_owned();
            if relative.starts_with("tenants/local/sessions/other") || others.contains(&relative) {
                continue;
            }
            let name = relative.file_name().unwrap().to_str().unwrap();
            let kind = match relative.extension() {
                Some(extension) if relative.starts_with("tenants") => extension.to_str().unwrap(),
                _ if relative.starts_with("environments") && name != "lock" => "environment",
                _ => name,
            };
            kinds.entry(kind.to_owned()).or_default().push(relative);
        }
        kinds
    }

    /// Those that nothing is left of when all others are closed.
    fn packs_of_the_other(&self) -> Vec<PathBuf> {
        let copy = self.copy();
        let registry = belljar::Registry::open(copy.path()).unwrap();
        for name in ["child", "victim"] {
            registry.close(name).unwrap();
        }
        registry.collect().unwrap();
        let packs = files(&copy.path().join("tenants/local/packs"));
        packs.iter().map(|path| path.strip_prefix(copy.path()).unwrap().to_owned()).collect()
    }

    /// The same again. Files that never change are shared: whoever wants to change one replaces it.
    fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        for path in self.files() {
            let relative = path.strip_prefix(self.state()).unwrap();
            let to = copy.path().join(relative);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            let name = relative.file_name().unwrap().to_str().unwrap();
            let constant = relative.starts_with("environments")
                || [".point", ".hot", ".cold"].iter().any(|ending| name.ends_with(ending));
            if constant && name != "lock" && fs::hard_link(&path, &to).is_ok() {
                continue;
            }
            fs::copy(&path, &to).unwrap();
        }
        copy
    }
}

/// Replaces a file by a damaged one, and says what was done to it. Nothing may be left to do: then it isn't damage.
fn harm(path: &Path, noise: &mut Noise) -> Option<&'static str> {
    let before = fs::read(path).unwrap();
    fs::remove_file(path).unwrap();
    let mut bytes = before.clone();
    let what = match noise.below(8) {
        0..=2 if !bytes.is_empty() => {
            let at = noise.below(bytes.len());
            bytes[at] ^= 1 << noise.below(8);
            "a bit"
        }
        3 if !bytes.is_empty() => {
            let at = noise.below(bytes.len());
            for byte in bytes[at..].iter_mut().take(1 + at % 64) {
                *byte = noise.next() as u8;
            }
            "some bytes"
        }
        4 if !bytes.is_empty() => {
            let page = noise.below(bytes.len()) / 4096 * 4096;
            bytes[page..].iter_mut().take(4096).for_each(|byte| *byte = 0);
            "a page"
        }
        5 if !bytes.is_empty() => {
            bytes.truncate(noise.below(bytes.len()));
            "the end"
        }
        6 => {
            let count = 1 + noise.below(5000);
            bytes.extend(noise.bytes(count));
            "something more"
        }
        _ => return Some("all"),
    };
    fs::write(path, &bytes).unwrap();
    (bytes != before).then_some(what)
}

/// An error must say which file it is.
fn assert_names(error: &Error, path: &Path) {
    // A pack that isn't there is named in one of its two forms.
    let name = path.file_stem().unwrap().to_str().unwrap();
    assert!(error.to_string().contains(name), "{error}");
}

fn assert_damaged(error: &Error, path: &Path) {
    assert!(matches!(error, Error::Store(StoreError::Damaged { .. })), "{error}");
    assert_names(error, path);
}

/// What became of a damaged session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// It can't be used, and the error says why.
    Refused,
    /// It can be used, but not kept, and the error says why.
    NotKept,
    /// It was as it should be.
    Right,
}

/// Uses the victim after `prepare`, when it should have this number. Right or not at all: never wrong, and kept.
fn examine(
    sandbox: &Sandbox,
    path: &Path,
    number: u64,
    prepare: impl Fn(&belljar::Session) -> Result<(), Error>,
) -> Fate {
    let opened = sandbox.open_blocking("victim").and_then(|session| prepare(&session).map(|()| session));
    let session = match opened {
        Ok(session) => session,
        Err(error) => {
            assert_names(&error, path);
            return Fate::Refused;
        }
    };
    let right = match tally::look(&session) {
        Ok(seen) => seen == Ok(number),
        Err(Error::Store(error)) => {
            assert_names(&Error::Store(error), path);
            return Fate::Refused;
        }
        // It broke while it ran.
        Err(error) => {
            assert!(error.to_string().contains("damaged"), "{error}");
            false
        }
    };
    // More than one attempt, for whoever lets go of a session tries once more.
    for attempt in 0..2 {
        let kept = session.run_blocking("changed = 1").and_then(|_| session.hibernate_blocking());
        match kept {
            Ok(_) => {
                assert!(right && attempt == 0, "what is wrong was kept, in attempt {attempt}");
                assert_eq!(tally::look(&session).unwrap(), Ok(number));
                return Fate::Right;
            }
            Err(error @ Error::Store(_)) => assert_damaged(&error, path),
            Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        }
    }
    drop(session);
    // Letting go of it has kept nothing either: whoever comes next finds the same.
    match sandbox.open_blocking("victim").and_then(|session| {
        prepare(&session)?;
        session.run_blocking("changed = 2")?;
        session.hibernate_blocking()
    }) {
        Ok(_) => panic!("what is wrong was kept by letting go of it"),
        Err(error @ Error::Store(_)) => assert_damaged(&error, path),
        Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
    }
    Fate::NotKept
}

fn case(scene: &Scene, relative: &Path, noise: &mut Noise) -> Option<Fate> {
    let copy = scene.copy();
    let path = copy.path().join(relative);
    harm(&path, noise)?;
    let sandbox = match keeping(copy.path()).build_blocking() {
        Ok(sandbox) => sandbox,
        Err(error) => {
            assert_names(&error, &path);
            return Some(Fate::Refused);
        }
    };
    let registry = sandbox.registry().unwrap();
    let list = registry.sessions().unwrap();
    assert!(list.sessions.iter().any(|session| session.id.as_str() == "other"));
    list.damaged.iter().for_each(|error| assert_names(error, &path));
    for error in registry.verify().unwrap() {
        assert_names(&error, &path);
    }
    if let Ok(history) = registry.history("victim")
        && let Some(error) = &history.damaged
    {
        assert_names(error, &path);
    }
    let fate = examine(&sandbox, &path, NUMBER, |_| Ok(()));
    let before = examine(&sandbox, &path, BEFORE, |session| session.rollback_blocking("before").map(drop));

    let other = sandbox.open_blocking("other").unwrap();
    assert_eq!(tally::number(&other), OTHER);
    tally::mark(&other, OTHER + 1);
    other.checkpoint_blocking(None).unwrap();
    other.hibernate_blocking().unwrap();
    assert_eq!(tally::number(&other), OTHER + 1);
    // Cleaning up goes by it, and what is damaged can be closed.
    registry.collect().unwrap();
    registry.close("victim").unwrap();
    registry.collect().unwrap();
    assert_eq!(tally::number(&other), OTHER + 1);
    Some(fate.min(before))
}

fn fuzz(cold: bool, cases: usize) {
    let scene = Scene::new(cold);
    let kinds = scene.kinds();
    let mut expected =
        vec!["environment", "format", "history", "lease", "lock", "point", "json", "shared", "sharing"];
    expected.push(if cold { "cold" } else { "hot" });
    expected.sort_unstable();
    assert_eq!(kinds.keys().collect::<Vec<_>>(), expected);
    // Most of it where most can go wrong.
    let weights = ["hot", "cold", "hot", "cold", "point", "point", "json"];
    let order: Vec<&str> = expected
        .iter()
        .copied()
        .chain(weights.into_iter().filter(|kind| kinds.contains_key(*kind)))
        .collect();
    let mut noise = Noise::new(u64::from(cold));
    let mut fates = BTreeMap::<(&str, Fate), u32>::new();
    for number in 0..cases {
        let kind = order[number % order.len()];
        let paths = &kinds[kind];
        let path = &paths[noise.below(paths.len())];
        #[expect(clippy::print_stderr, reason = "names the case that fails")]
        {
            eprintln!("case {number}: {}", path.display());
        }
        if let Some(fate) = case(&scene, path, &mut noise) {
            *fates.entry((kind, fate)).or_default() += 1;
        }
    }
    #[expect(clippy::print_stderr, reason = "for those who look")]
    {
        eprintln!("{fates:?}");
    }
    for kind in ["point", "json", expected.iter().find(|kind| ["hot", "cold"].contains(kind)).unwrap()] {
        let refused = [Fate::Refused, Fate::NotKept].iter().filter_map(|fate| fates.get(&(kind, *fate)));
        assert!(refused.sum::<u32>() > 0, "{kind} was never found to be damaged");
    }
    for kind in ["environment", "history", "lease", "lock", "sharing"] {
        let refused = [Fate::Refused, Fate::NotKept].iter().filter_map(|fate| fates.get(&(kind, *fate)));
        assert_eq!(refused.sum::<u32>(), 0, "{kind} isn't needed");
    }
}

/// What couldn't be kept once can't be kept by trying again, or by letting go of it.
#[test]
fn what_is_wrong_stays_wrong() {
    let state = tempfile::tempdir().unwrap();
    let sandbox = keeping(state.path()).build_blocking().unwrap();
    let session = sandbox.create_blocking(Some("s")).unwrap();
    session
        .run_blocking("big = bytearray(b'y' * (4 << 20)); big[2 << 20:(2 << 20) + 8] = b'MARKED' + b'41'")
        .unwrap();
    session.hibernate_blocking().unwrap();
    let packs = files(&state.path().join("tenants/local/packs"));
    let (path, bytes) = packs
        .iter()
        .map(|path| (path, fs::read(path).unwrap()))
        .find(|(_, bytes)| bytes.windows(8).any(|window| window == b"MARKED41"))
        .unwrap();
    let at = bytes.windows(8).position(|window| window == b"MARKED41").unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"WRONG", at as u64).unwrap();
    // The extent is written again with the next commit, with whatever is in it.
    session.run_blocking("big[(2 << 20) + 100] = 1").unwrap();
    for _ in 0..3 {
        assert_damaged(&session.hibernate_blocking().unwrap_err(), path);
        assert_damaged(&session.checkpoint_blocking(None).unwrap_err(), path);
        assert_damaged(&session.fork_blocking(1).map(drop).unwrap_err(), path);
    }
    drop(session);
    let found = sandbox.registry().unwrap().verify().unwrap();
    assert!(!found.is_empty(), "the damage was made good by keeping what is wrong");
    found.iter().for_each(|error| assert_damaged(error, path));
}

#[test]
fn damage_while_hot() {
    fuzz(false, cases());
}

#[test]
fn damage_while_cold() {
    fuzz(true, cases());
}

/// How many; `cargo xtask heavy` asks for more.
fn cases() -> usize {
    if std::env::var_os("BELLJAR_HEAVY").is_some() { 1500 } else { 150 }
}
