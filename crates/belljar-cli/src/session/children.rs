//! Children of a session.

use std::process::ExitCode;

use belljar::{Error, Session, Which};
use serde_json::json;

use super::arguments::ForkArguments;
use super::{awake, which};

/// So many are awake at once.
const TOGETHER: u16 = 32;

pub(super) fn fork(arguments: ForkArguments) -> anyhow::Result<ExitCode> {
    let ForkArguments { name, new_name, from, count, waking } = arguments;
    let (answer, keeping, sandbox) = waking.sandbox(&name)?;
    let registry = keeping.registry()?;
    let from = from.map(|from| which(Some(&from)));
    let mut children = Vec::with_capacity(count.into());
    let forked = awake(&sandbox, &name, |session| match new_name {
        Some(new_name) => fork_named(session, from.as_ref(), &names(&new_name, count), &mut children),
        None => fork_unnamed(session, from.as_ref(), count, &mut children),
    });
    if let Err(error) = forked {
        // All of them or none.
        for child in &children {
            registry.close(child)?;
        }
        return Err(error.into());
    }
    let document = || json!({ "session": name, "children": children });
    answer.give(document, || children.join("\n"))
}

fn fork_named(
    session: &Session,
    from: Option<&Which>,
    names: &[String],
    children: &mut Vec<String>,
) -> Result<(), Error> {
    for name in names {
        session.fork_named_blocking(from.cloned(), name)?.hibernate_blocking()?;
        children.push(name.clone());
    }
    Ok(())
}

fn fork_unnamed(
    session: &Session,
    from: Option<&Which>,
    count: u16,
    children: &mut Vec<String>,
) -> Result<(), Error> {
    for first in (0..count).step_by(TOGETHER.into()) {
        let some = usize::from(TOGETHER.min(count - first));
        let made = match from {
            Some(from) => session.fork_from_blocking(from.clone(), some)?,
            None => session.fork_blocking(some)?,
        };
        children.extend(made.iter().map(|child| child.id().to_string()));
        for child in made {
            child.hibernate_blocking()?;
        }
    }
    Ok(())
}

fn names(name: &str, count: u16) -> Vec<String> {
    match count {
        1 => vec![name.to_owned()],
        _ => (1..=count).map(|number| format!("{name}-{number}")).collect(),
    }
}
