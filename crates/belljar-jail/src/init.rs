//! Pid 1 of a session: reaps, starts commands, ends processes.
//!
//! It shares its user with the hostile code around it, so it can't be looked into, and answers nobody but the engine.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use belljar_jail::{InitReply, InitRequest, SessionPlan, Step, wire};

use crate::gate::drain;
use crate::rules;
use crate::steps::{Context, carry_out, read_filters};
use crate::sys::{self, During, Failure, Result};

/// The session's own tree, while it is furnished.
const OWN: &str = "/own";

pub(crate) fn run(plan: SessionPlan, mut descriptors: Vec<OwnedFd>) -> i32 {
    if descriptors.is_empty() {
        return 1;
    }
    let socket = descriptors.remove(0);
    match serve(&plan, &socket, descriptors) {
        Ok(()) => 0,
        Err(failure) => {
            let _ = wire::send(&socket, &failed(&failure), &[]);
            1
        }
    }
}

fn failed(failure: &Failure) -> InitReply {
    InitReply::Failed { reason: failure.to_string(), errno: failure.errno() }
}

fn serve(plan: &SessionPlan, socket: &OwnedFd, mounts: Vec<OwnedFd>) -> Result<()> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as _).during(|| "binding to the gate".to_owned())?;
    let mut context = Context { mounts, ..Context::default() };
    let own = furnish(plan, &context)?;
    context.mounts.clear();
    context.filters = read_filters(&plan.filters)?;
    context.ruleset = plan.landlock.as_ref().and_then(rules::make);
    carry_out(&[Step::Hide], &context)?;
    let children = sys::child_signals().during(|| "watching children".to_owned())?;
    let mut gifts = vec![own.as_fd()];
    gifts.extend(context.ruleset.as_ref().map(AsFd::as_fd));
    let listener = context.listener.take();
    gifts.extend(listener.as_ref().map(AsFd::as_fd));
    let ready = InitReply::Ready { landlock: context.ruleset.is_some(), listener: listener.is_some() };
    wire::send(socket, &ready, &gifts).during(|| "answering".to_owned())?;
    drop((own, listener));
    let mut commands = Vec::new();
    loop {
        let ready = sys::poll(&[socket.as_fd(), children.as_fd()]).during(|| "waiting".to_owned())?;
        if ready[1] {
            drain(&children);
            reap(socket, &mut commands)?;
        }
        if !ready[0] {
            continue;
        }
        let received = wire::receive::<InitRequest>(socket).during(|| "listening".to_owned())?;
        let Some((request, descriptors)) = received else { return Ok(()) };
        let sent = match answer(request, &descriptors, plan, &context, &mut commands) {
            Ok((reply, Some(gift))) => wire::send(socket, &reply, &[gift.as_fd()]),
            Ok((reply, None)) => wire::send(socket, &reply, &[]),
            Err(failure) => wire::send(socket, &failed(&failure), &[]),
        };
        // One answer that can't be given is not the end of the session.
        if let Err(failure) = sent.during(|| "answering".to_owned()) {
            wire::send(socket, &failed(&failure), &[]).during(|| "answering".to_owned())?;
        }
    }
}

/// Waits for all that have ended; of commands the engine hears.
fn reap(socket: &OwnedFd, commands: &mut Vec<i32>) -> Result<()> {
    while let Ok(Some((pid, code))) = sys::wait(-1, false) {
        if let Some(place) = commands.iter().position(|command| *command == pid) {
            commands.swap_remove(place);
            wire::send(socket, &InitReply::Ended { pid, code }, &[]).during(|| "answering".to_owned())?;
        }
    }
    Ok(())
}

/// Carries out the plan. Returns the session's own tree, which has no path afterwards.
fn furnish(plan: &SessionPlan, context: &Context) -> Result<OwnedFd> {
    let forget = plan.steps.iter().position(|step| matches!(step, Step::Forget(path) if path == OWN));
    let (before, after) = plan.steps.split_at(forget.unwrap_or(plan.steps.len()));
    carry_out(before, context)?;
    let tree: OwnedFd = fs::File::open(OWN).during(|| format!("opening {OWN}"))?.into();
    carry_out(after, context)?;
    Ok(tree)
}

fn answer(
    request: InitRequest,
    descriptors: &[OwnedFd],
    plan: &SessionPlan,
    context: &Context,
    commands: &mut Vec<i32>,
) -> Result<(InitReply, Option<OwnedFd>)> {
    match request {
        InitRequest::Command { argv, env, directory } => {
            let pid = sys::clone(0).during(|| "starting a command".to_owned())?;
            if pid == 0 {
                command(&argv, &env, &directory, descriptors, plan, context);
            }
            commands.push(pid);
            let pidfd = sys::pidfd(pid).during(|| "watching a command".to_owned())?;
            Ok((InitReply::Started { pid }, Some(pidfd)))
        }
        InitRequest::End { since, also, keep } => {
            let count = end(since, &also, &keep);
            Ok((InitReply::Done { count }, None))
        }
        InitRequest::EndGroup { pid, signal } => {
            let done = sys::kill(-pid, signal).or_else(|_| sys::kill(pid, signal));
            Ok((InitReply::Done { count: u64::from(done.is_ok()) }, None))
        }
        InitRequest::Watch { pid } => {
            let pidfd = sys::pidfd(pid).during(|| "watching a process".to_owned())?;
            Ok((InitReply::Started { pid }, Some(pidfd)))
        }
        InitRequest::List => {
            let list = processes().into_iter().map(|process| process.pid).collect();
            Ok((InitReply::Processes(list), None))
        }
    }
}

fn command(
    argv: &[String],
    env: &[String],
    directory: &str,
    descriptors: &[OwnedFd],
    plan: &SessionPlan,
    context: &Context,
) -> ! {
    sys::reset_signals();
    sys::new_session();
    let started = carry_out(&plan.lockdown, context).and_then(|()| {
        let standard: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        std::env::set_current_dir(directory).during(|| format!("entering {directory}"))?;
        sys::arrange(&standard).during(|| "arranging descriptors".to_owned())?;
        sys::exec(argv, env).during(|| format!("starting {}", argv.first().map_or("", String::as_str)))
    });
    if let Err(failure) = started {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "belljar: {failure}");
    }
    sys::exit(127)
}

struct Process {
    pid: i32,
    /// In clock ticks since the machine started.
    started: u64,
}

/// All processes of the session but this one.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| *pid > 1);
    pids.filter_map(|pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses, and may have any character.
        let (_, fields) = stat.rsplit_once(") ")?;
        let started = fields.split(' ').nth(19)?.parse().ok()?;
        Some(Process { pid, started })
    })
    .collect()
}

/// Ends processes until no new ones appear: whoever forks faster is ended with its children sooner or later.
fn end(since: u64, also: &[i32], keep: &[i32]) -> u64 {
    const LONGEST: Duration = Duration::from_secs(3);
    let until = Instant::now() + LONGEST;
    let mut count = 0;
    loop {
        if Instant::now() > until {
            // They multiply faster than they can be counted: all at once, whoever it is.
            let _ = sys::kill(-1, libc::SIGKILL);
            break;
        }
        let condemned: Vec<i32> = processes()
            .into_iter()
            .filter(|process| !keep.contains(&process.pid))
            .filter(|process| process.started >= since || also.contains(&process.pid))
            .map(|process| process.pid)
            .collect();
        // Zombies of other parents stay in the list until these have seen them.
        let alive: Vec<i32> = condemned.into_iter().filter(|pid| !is_zombie(*pid)).collect();
        if alive.is_empty() {
            break;
        }
        for pid in alive {
            count += u64::from(sys::kill(pid, libc::SIGKILL).is_ok());
        }
    }
    count
}

fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X'])))
}
