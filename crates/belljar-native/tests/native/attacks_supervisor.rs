//! Processes of the jail, or the one that started it, are killed from outside.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use belljar_engine::{Engine, GuestSpec};
use belljar_native::NativeEngine;

use crate::{LOADING, Session, load_now, within};

/// How long the kernel may take to end what has no supervisor any more.
const ENDING: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    name: String,
    /// In ticks; with the number it says which process it is.
    started: u64,
    zombie: bool,
}

fn processes() -> BTreeMap<i32, Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (before, after) = stat.rsplit_once(") ")?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = after.split(' ').collect();
        let (parent, started) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
        Some((pid, Process { parent, name, started, zombie: fields[0] == "Z" }))
    })
    .collect()
}

/// All processes below one.
fn below(root: i32) -> BTreeMap<i32, Process> {
    let all = processes();
    let descends = |mut pid: i32| loop {
        match all.get(&pid) {
            Some(process) if process.parent == root => return true,
            Some(process) => pid = process.parent,
            None => return false,
        }
    };
    all.iter().filter(|(pid, _)| descends(**pid)).map(|(pid, process)| (*pid, process.clone())).collect()
}

/// Those of them that still live.
fn living(them: &BTreeMap<i32, Process>) -> Vec<(i32, String)> {
    let now = processes();
    let same = |pid: &i32, process: &Process| {
        now.get(pid).is_some_and(|found| found.started == process.started && !found.zombie)
    };
    them.iter()
        .filter(|(pid, process)| same(pid, process))
        .map(|(pid, process)| (*pid, process.name.clone()))
        .collect()
}

/// Waits until a list is empty.
fn until_empty<T: std::fmt::Debug>(what: &str, list: impl Fn() -> Vec<T>) {
    let until = Instant::now() + ENDING;
    loop {
        let left = list();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{what}: {left:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn cgroups(below: &Path, prefix: &str, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        } else if depth > 0 {
            found.extend(cgroups(&entry.path(), prefix, depth - 1));
        }
    }
    found
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "{}", io::Error::last_os_error());
}

/// An engine of one's own, and its steward. Nobody else makes an engine meanwhile, nor do engines whose jail was killed.
fn own_engine() -> (NativeEngine, i32, MutexGuard<'static, ()>) {
    let alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    let this = i32::try_from(std::process::id()).unwrap();
    let stewards = || -> Vec<i32> {
        let all = processes().into_iter();
        all.filter(|(_, found)| found.parent == this && found.name == "belljar-jail")
            .map(|(pid, _)| pid)
            .collect()
    };
    let before = stewards();
    let engine = load_now();
    let new: Vec<i32> = stewards().into_iter().filter(|pid| !before.contains(pid)).collect();
    assert_eq!(new.len(), 1, "{new:?}");
    (engine, new[0], alone)
}

const PART: &str = "BELLJAR_TEST_PART";

/// Not by `println`: what a test prints may be kept back.
fn say(line: &str) {
    io::stdout().write_all(format!("\n> {line}\n").as_bytes()).unwrap();
}

/// Run by other tests in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn victim() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGINT, nothing as *const () as libc::sighandler_t) };
    let (mut one, mut other) = (Session::new(), Session::new());
    one.check("background = subprocess.Popen(['sleep', '1000'], start_new_session=True)");
    let command =
        belljar_engine::Command { line: "sleep 1000 & exec sleep 1000".to_owned(), ..Default::default() };
    one.on_guest("start", |guest| guest.start(command).unwrap());
    other.check("if os.fork() == 0:\n    while True: pass");
    say("ready");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    say(&format!("answer {} {}", one.value("kept"), other.value("kept")));
    // Until it is killed.
    let _ = io::stdin().read_line(&mut line);
}

struct Victim {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Victim {
    fn start() -> Self {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["attacks_supervisor::victim", "--exact", "--ignored", "--nocapture"]).env(PART, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut victim = Self { child, said };
        assert_eq!(victim.hear(), "ready");
        victim
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it ended: {:?}", self.child.wait());
            if let Some(said) = line.strip_prefix("> ") {
                return said.trim_end().to_owned();
            }
        }
    }
}

#[test]
fn nothing_outlives_the_supervisor() {
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let before = mounts();
    let mut victim = Victim::start();
    let jailed = below(victim.pid());
    assert!(jailed.len() > 8, "{jailed:?}");
    let prefix = format!("belljar-{}-", victim.pid());
    victim.child.kill().unwrap();
    victim.child.wait().unwrap();
    until_empty("processes", || living(&jailed));
    until_empty("cgroups", || cgroups(Path::new("/sys/fs/cgroup"), &prefix, 3));
    assert_eq!(mounts(), before);
}

/// Whoever presses Ctrl-C means the program, and not what runs behind it.
#[test]
fn an_interrupt_at_the_terminal_ends_no_session() {
    let mut victim = Victim::start();
    kill(-victim.pid(), libc::SIGINT);
    thread::sleep(Duration::from_millis(300));
    victim.child.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    let answer = victim.hear();
    victim.child.kill().unwrap();
    victim.child.wait().unwrap();
    assert_eq!(answer, "answer 41 41");
}

#[test]
fn the_zygote_is_killed() {
    let (engine, steward, _alone) = own_engine();
    let mut session = Session::of(&engine, |_| {});
    for _ in 0..3 {
        let interpreters =
            below(steward).into_iter().filter(|(_, process)| process.name.starts_with("python"));
        let (zygote, _) = interpreters.min_by_key(|(pid, process)| (process.started, *pid)).unwrap();
        kill(zygote, libc::SIGKILL);
        let other = engine.clone();
        let mut next = within("booting", move || Session::of(&other, |_| {}));
        next.survives();
        drop(next);
        session.survives();
    }
}

/// Sessions end with what they stand on; later ones stand on something new.
#[test]
fn the_jail_is_killed() {
    for whom in ["steward", "warden", "gate"] {
        let (engine, steward, _alone) = own_engine();
        let mut spec = GuestSpec::default();
        spec.limits.memory = 512 << 20;
        let spec = Arc::new(spec);
        let mut doomed = Session::from(engine.boot(Arc::clone(&spec)).unwrap());
        // What is made ahead of time is there.
        thread::sleep(Duration::from_millis(300));
        let jailed = below(steward);
        let child =
            |of: i32| jailed.iter().find(|(_, process)| process.parent == of).map(|(pid, _)| *pid).unwrap();
        let victim = match whom {
            "steward" => steward,
            "warden" => child(steward),
            _ => child(child(child(steward))),
        };
        kill(victim, libc::SIGKILL);
        until_empty(whom, || living(&jailed));
        let gone = doomed.on_guest("a cell of the dead", |guest| {
            let cell = belljar_engine::Cell { number: 9, file: None, code: b"1".to_vec() };
            guest.run(cell, Arc::new(crate::Host::default())).is_err()
        });
        assert!(gone, "{whom}");
        let guest = doomed.guest.take().unwrap();
        within("ending the dead", move || drop(guest));
        for _ in 0..3 {
            let (engine, spec) = (engine.clone(), Arc::clone(&spec));
            let guest = within("booting", move || engine.boot(spec));
            let guest = guest.unwrap_or_else(|error| panic!("after the {whom} was killed: {error}"));
            Session::from(guest).survives();
        }
        within("ending an engine", move || drop(engine));
    }
}

/// An engine that is dropped leaves nothing behind.
#[test]
fn an_engine_ends_with_all_that_it_started() {
    let (engine, steward, _alone) = own_engine();
    let mut session = Session::of(&engine, |_| {});
    session.check("subprocess.Popen(['sleep', '1000'], start_new_session=True)");
    let jailed = below(steward);
    drop(session);
    within("ending an engine", move || drop(engine));
    until_empty("processes", || living(&jailed));
}
