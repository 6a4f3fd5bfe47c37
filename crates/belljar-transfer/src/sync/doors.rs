//! From one tree to another.

use belljar_engine::{FileErrorCode, FileKind, FileStat};

use crate::error::{Result, TransferError};
use crate::files::{Files, PIECE};
use crate::import::place_link;
use crate::names::leads_out;
use crate::sync::inventory::Inventory;
use crate::sync::{Run, Step, Synced};
use crate::walk::is_of_one;

impl Run<'_> {
    pub(super) fn between(mut self, from: Files<'_>, to: Files<'_>) -> Result<Synced> {
        let source = Inventory::take(from, self.options)?;
        let there = Inventory::take(to, self.options)?;
        self.sweep(to, &there);
        for (path, stat) in &source.items {
            self.advance(path)?;
            match self.one(from, to, path, stat, &there) {
                Err(TransferError::Files(error)) if is_of_one(&error) => {
                    self.synced.skipped.add(path, error.message);
                }
                other => other?,
            }
        }
        let is_gone = |path: &str| !source.items.contains_key(path) && !source.may_have(path);
        self.remove_gone(to, &there, &is_gone)?;
        self.synced.skipped.extend(source.skipped);
        Ok(self.synced)
    }

    /// Removes what interrupted runs left.
    pub(super) fn sweep(&self, to: Files<'_>, there: &Inventory) {
        if !self.options.dry_run {
            for part in &there.parts {
                let _ = to.remove(part);
            }
        }
    }

    fn one(
        &mut self,
        from: Files<'_>,
        to: Files<'_>,
        path: &str,
        stat: &FileStat,
        there: &Inventory,
    ) -> Result<()> {
        if let Some(above) = there.in_the_way(path) {
            // What is a directory at the source was put there in place of a file before.
            let replaced =
                !self.options.dry_run && to.stat(above)?.is_some_and(|stat| stat.kind == FileKind::Directory);
            if !replaced && !self.options.dry_run {
                self.synced.skipped.add(path, format!("{above} isn't a directory there"));
                return Ok(());
            }
        }
        let known = there.items.get(path);
        match stat.kind {
            FileKind::Directory => self.directory(to, path, known),
            FileKind::Link => self.link(to, path, &from.read_link(path)?, stat.modified_ns, there),
            FileKind::File => self.file(from, to, path, stat, there),
            FileKind::Other => Ok(()),
        }
    }

    pub(super) fn directory(&mut self, to: Files<'_>, path: &str, known: Option<&FileStat>) -> Result<()> {
        if known.is_some_and(|known| known.kind == FileKind::Directory) {
            self.synced.unchanged += 1;
            return Ok(());
        }
        if !self.options.dry_run {
            if known.is_some() {
                to.remove(path)?;
            }
            to.make_directory(path)?;
        }
        self.act(path, Step::Directory, 0);
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        to: Files<'_>,
        path: &str,
        target: &str,
        modified_ns: i64,
        there: &Inventory,
    ) -> Result<()> {
        if !self.options.links_out && leads_out(path, target) {
            let reason = format!("it leads out, to {}", crate::skipped::printable(target));
            self.synced.skipped.add(path, reason);
            return Ok(());
        }
        match there.kind(path) {
            Some(FileKind::Link) if to.read_link(path)? == target => {
                self.synced.unchanged += 1;
                return Ok(());
            }
            Some(FileKind::Directory) if !self.clear(to, path, there)? => return Ok(()),
            _ => {}
        }
        if !self.options.dry_run {
            place_link(to, path, target, Some(modified_ns))?;
        }
        self.act(path, Step::Link, 0);
        Ok(())
    }

    fn file(
        &mut self,
        from: Files<'_>,
        to: Files<'_>,
        path: &str,
        stat: &FileStat,
        there: &Inventory,
    ) -> Result<()> {
        match there.items.get(path) {
            Some(known) if known.kind == FileKind::File && known.size == stat.size => {
                let as_listed = known.modified_ns == stat.modified_ns && !self.options.checksum;
                if as_listed || from.hash(path, stat.size)? == to.hash(path, stat.size)? {
                    return self.touch(to, path, stat, known);
                }
            }
            Some(known) if known.kind == FileKind::Directory && !self.clear(to, path, there)? => {
                return Ok(());
            }
            _ => {}
        }
        self.allow(path, stat.size)?;
        let mut bytes = stat.size;
        if !self.options.dry_run {
            let mut file = to.begin(path);
            let mut offset = 0;
            loop {
                let piece = from.read(path, offset, PIECE)?;
                if piece.is_empty() {
                    break;
                }
                offset += piece.len() as u64;
                // It may grow faster than it is read.
                self.allow(path, offset)?;
                file.write(&piece)?;
                self.advance(path)?;
            }
            // With the time of before: if it changed since, the next run sees that.
            bytes = file.finish(stat.executable, Some(stat.modified_ns))?;
        }
        self.act(path, Step::Copy, bytes);
        Ok(())
    }

    /// The contents are the same; what else there is to a file may not be.
    pub(super) fn touch(
        &mut self,
        to: Files<'_>,
        path: &str,
        stat: &FileStat,
        known: &FileStat,
    ) -> Result<()> {
        if (known.modified_ns, known.executable) == (stat.modified_ns, stat.executable) {
            self.synced.unchanged += 1;
            return Ok(());
        }
        if !self.options.dry_run {
            to.set(path, Some(stat.executable), Some(stat.modified_ns))?;
        }
        self.act(path, Step::Touch, 0);
        Ok(())
    }

    /// Removes a directory that stands where something else will be, if that is wanted.
    pub(super) fn clear(&mut self, to: Files<'_>, path: &str, there: &Inventory) -> Result<bool> {
        if self.cleared.contains(path) {
            return Ok(true);
        }
        if !self.options.delete {
            self.synced.skipped.add(path, "there is a directory of that name");
            return Ok(false);
        }
        let below = format!("{path}/");
        let items = there.items.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
        let items: Vec<_> = items.map(|(path, _)| path.as_str()).collect();
        // What isn't wanted may still be in it; then the last one fails, and is reported.
        for path in items.into_iter().rev().chain([path]) {
            if !self.options.dry_run {
                to.remove(path)?;
            }
            self.act(path, Step::Remove, 0);
        }
        self.cleared.insert(path.to_owned());
        Ok(true)
    }

    /// Removes what is gone at the source, the deepest first.
    pub(super) fn remove_gone(
        &mut self,
        to: Files<'_>,
        there: &Inventory,
        is_gone: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        if !self.options.delete {
            return Ok(());
        }
        let was_cleared = |run: &Self, path: &str| {
            path.match_indices('/').any(|(end, _)| run.cleared.contains(&path[..end]))
        };
        for path in there.items.keys().rev().filter(|path| is_gone(path)) {
            if was_cleared(self, path) {
                continue;
            }
            self.advance(path)?;
            if self.options.dry_run {
                self.act(path, Step::Remove, 0);
                continue;
            }
            match to.remove(path) {
                Ok(()) => self.act(path, Step::Remove, 0),
                // Somebody else removed it, or it has something in it that isn't ours to remove.
                Err(error) if matches!(error.code, FileErrorCode::FileNotFound | FileErrorCode::NotEmpty) => {
                }
                Err(error) if is_of_one(&error) => self.synced.skipped.add(path, error.message),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
