//! What a process that was killed had said about its sessions, and so what may be found on disk.

use std::collections::{BTreeMap, BTreeSet};

use belljar::{Registry, Sandbox, SessionLife};

use crate::tally;

/// A line with `?` comes before something is done, one with `!` after it is durable:
///
/// ```text
/// head? SESSION NUMBER         head! SESSION NUMBER
/// point? SESSION NUMBER        point! SESSION CHECKPOINT NUMBER
/// drop? SESSION CHECKPOINT     drop! SESSION CHECKPOINT
/// fork? CHILD NUMBER           fork! CHILD NUMBER
/// gone? CHILD                  gone! CHILD
/// ```
#[derive(Default)]
pub(crate) struct Ledger {
    heads: BTreeMap<String, Head>,
    points: BTreeMap<(String, u32), u64>,
    /// Checkpoints that may be there, by session: what they would have.
    new_points: BTreeMap<String, u64>,
    /// Checkpoints that may be gone.
    old_points: BTreeSet<(String, u32)>,
    children: BTreeMap<String, u64>,
    /// Children that may be there.
    new_children: BTreeMap<String, u64>,
}

#[derive(Clone, Copy)]
struct Head {
    surely: u64,
    maybe: Option<u64>,
}

impl Ledger {
    pub(crate) fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().unwrap();
        match words[..] {
            ["head?", session, n] => {
                if let Some(head) = self.heads.get_mut(session) {
                    head.maybe = Some(number(n));
                }
            }
            ["head!", session, n] => {
                self.heads.insert(session.to_owned(), Head { surely: number(n), maybe: None });
            }
            ["point?", session, n] => {
                self.new_points.insert(session.to_owned(), number(n));
            }
            ["point!", session, point, n] => {
                assert_eq!(self.new_points.remove(session), Some(number(n)));
                self.points.insert((session.to_owned(), point.parse().unwrap()), number(n));
            }
            ["drop?", session, point] => {
                self.old_points.insert((session.to_owned(), point.parse().unwrap()));
            }
            ["drop!", session, point] => {
                let point = (session.to_owned(), point.parse().unwrap());
                assert!(self.old_points.remove(&point) && self.points.remove(&point).is_some());
            }
            ["fork?", child, n] => {
                self.new_children.insert(child.to_owned(), number(n));
            }
            ["fork!", child, n] => {
                self.new_children.remove(child);
                self.children.insert(child.to_owned(), number(n));
            }
            ["gone?", child] => {
                let n = self.children.remove(child).unwrap();
                self.new_children.insert(child.to_owned(), n);
            }
            ["gone!", child] => {
                assert!(self.new_children.remove(child).is_some());
            }
            _ => panic!("not a line of a ledger: {line:?}"),
        }
    }

    /// Fails unless all that was said is there, whole. Then goes on with every session, and closes all children.
    pub(crate) fn settle(&mut self, sandbox: &Sandbox, next: u64) {
        let registry = sandbox.registry().unwrap();
        self.check_list(&registry);
        let sessions: Vec<(String, Head)> =
            self.heads.iter().map(|(name, head)| (name.clone(), *head)).collect();
        for (name, head) in sessions {
            let session = sandbox.open_blocking(&name).unwrap();
            let found = tally::number(&session);
            assert!(
                found == head.surely || Some(found) == head.maybe,
                "{name} has {found}, not {} or {:?}",
                head.surely,
                head.maybe
            );
            let mut expected: BTreeMap<u32, u64> =
                self.points.iter().filter(|((of, _), _)| *of == name).map(|((_, k), n)| (*k, *n)).collect();
            for point in session.checkpoints_blocking().unwrap() {
                let new = expected.remove(&point.number).or_else(|| self.new_points.remove(&name));
                let number = new.unwrap_or_else(|| panic!("nobody made {point:?} of {name}"));
                session.rollback_blocking(&point).unwrap();
                assert_eq!(tally::number(&session), number, "checkpoint {} of {name}", point.number);
                self.points.insert((name.clone(), point.number), number);
            }
            for (lost, _) in expected {
                let point = (name.clone(), lost);
                assert!(self.old_points.contains(&point), "checkpoint {lost} of {name} is lost");
                self.points.remove(&point);
            }
            tally::mark(&session, next);
            session.hibernate_blocking().unwrap();
            self.heads.insert(name, Head { surely: next, maybe: None });
        }
        for name in self.children.keys().chain(self.new_children.keys()) {
            self.check_child(sandbox, name);
        }
        self.new_points.clear();
        self.old_points.clear();
        self.children.clear();
        self.new_children.clear();
    }

    /// All sessions can be listed, nobody has one, and there is none that nobody made.
    fn check_list(&self, registry: &Registry) {
        let list = registry.sessions().unwrap();
        assert!(list.damaged.is_empty(), "{:?}", list.damaged);
        let mut missing: BTreeSet<&str> =
            self.heads.keys().chain(self.children.keys()).map(String::as_str).collect();
        for session in &list.sessions {
            let name = session.id.as_str();
            assert_eq!(session.state, SessionLife::Hibernated, "{name} is locked by the dead");
            assert!(missing.remove(name) || self.new_children.contains_key(name), "nobody made {name}");
        }
        assert!(missing.is_empty(), "{missing:?} are lost");
    }

    fn check_child(&self, sandbox: &Sandbox, name: &str) {
        let registry = sandbox.registry().unwrap();
        if !registry.contains(name).unwrap() {
            assert!(!self.children.contains_key(name));
            return;
        }
        let session = sandbox.open_blocking(name).unwrap();
        let number = self.children.get(name).or_else(|| self.new_children.get(name)).unwrap();
        assert_eq!(tally::number(&session), *number, "{name}");
        session.close_blocking().unwrap();
    }
}
