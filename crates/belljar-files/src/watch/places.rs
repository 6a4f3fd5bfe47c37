//! Where watched directories are in a tree.

use std::collections::{BTreeMap, HashMap};

use super::{DEEPEST, join};

/// Watched directories by their watch descriptors.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: HashMap<i32, Place>,
    root: Option<i32>,
}

#[derive(Debug, Default)]
struct Place {
    parent: Option<i32>,
    name: Vec<u8>,
    children: BTreeMap<Vec<u8>, i32>,
}

impl Places {
    pub(super) fn root(&self) -> Option<i32> {
        self.root
    }

    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    pub(super) fn has(&self, watch: i32) -> bool {
        self.places.contains_key(&watch)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = i32> {
        self.places.keys().copied()
    }

    pub(super) fn child(&self, watch: i32, name: &[u8]) -> Option<i32> {
        self.places.get(&watch)?.children.get(name).copied()
    }

    /// The path of a directory and how deep it is. None if it isn't here, or if what is known makes no sense: directories
    /// that were moved while they were walked may seem to be in each other.
    pub(super) fn path(&self, watch: i32) -> Option<(Vec<u8>, usize)> {
        let mut names = Vec::new();
        let mut place = self.places.get(&watch)?;
        while let Some(parent) = place.parent {
            names.push(place.name.as_slice());
            if names.len() > DEEPEST {
                return None;
            }
            place = self.places.get(&parent)?;
        }
        let path = names.iter().rev().fold(Vec::new(), |path, name| join(&path, name));
        Some((path, names.len()))
    }

    /// A directory is found, maybe where it wasn't before. Returns whether its parent is here, and what was thought to be
    /// in its place until now.
    pub(super) fn put(&mut self, watch: i32, parent: Option<i32>, name: &[u8]) -> (bool, Option<i32>) {
        let Some(parent) = parent else {
            self.root = Some(watch);
            self.places.entry(watch).or_default();
            return (true, None);
        };
        let place = self.places.entry(watch).or_default();
        let former = (place.parent.replace(parent), std::mem::replace(&mut place.name, name.to_vec()));
        if let (Some(former_parent), former_name) = former
            && (former_parent, former_name.as_slice()) != (parent, name)
            && let Some(former) = self.places.get_mut(&former_parent)
            && former.children.get(&former_name) == Some(&watch)
        {
            former.children.remove(&former_name);
        }
        let Some(above) = self.places.get_mut(&parent) else { return (false, None) };
        let replaced = above.children.insert(name.to_vec(), watch);
        let Some(replaced) = replaced.filter(|replaced| *replaced != watch) else { return (true, None) };
        // It is apart from its parent now, so that its removal doesn't touch what took its place.
        if let Some(place) = self.places.get_mut(&replaced) {
            place.name.clear();
        }
        (true, Some(replaced))
    }

    /// Removes a directory and those below it, and returns them.
    pub(super) fn remove(&mut self, watch: i32) -> Vec<i32> {
        let mut gone = Vec::new();
        if let Some(place) = self.places.get(&watch)
            && let Some(parent) = place.parent
        {
            let name = place.name.clone();
            if let Some(parent) = self.places.get_mut(&parent)
                && parent.children.get(&name) == Some(&watch)
            {
                parent.children.remove(&name);
            }
        }
        let mut waiting = vec![watch];
        while let Some(watch) = waiting.pop() {
            if let Some(place) = self.places.remove(&watch) {
                waiting.extend(place.children.into_values());
                gone.push(watch);
            }
        }
        if self.root.is_some_and(|root| gone.contains(&root)) {
            self.root = None;
        }
        gone
    }
}
