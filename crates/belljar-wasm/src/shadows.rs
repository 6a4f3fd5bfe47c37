//! The shadows of all guests of an engine, and their budget.
//!
//! A shadow doubles a guest's own memory. It is needed while a cell runs and useful right after; the
//! shadows of guests that have been idle are given up when all together hold more than the budget, and
//! made again before the next cell.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::shadow::Shadow;

/// What shadows may hold before idle ones are given up.
const BUDGET: usize = 32 << 20;
/// How long a guest must have been idle.
const IDLE: Duration = Duration::from_secs(1);

/// All shadows of an engine.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    held: Arc<AtomicUsize>,
    slots: Mutex<Vec<Weak<ShadowSlot>>>,
}

/// Where one guest's shadow is, or isn't.
#[derive(Debug)]
pub(crate) struct ShadowSlot {
    held: Arc<AtomicUsize>,
    content: Mutex<Content>,
}

#[derive(Debug)]
struct Content {
    shadow: Option<Shadow>,
    bytes: usize,
    used: Instant,
    running: bool,
}

impl Shadows {
    pub(crate) fn slot(&self) -> Arc<ShadowSlot> {
        let content = Content { shadow: None, bytes: 0, used: Instant::now(), running: false };
        let slot = Arc::new(ShadowSlot { held: Arc::clone(&self.held), content: Mutex::new(content) });
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() == slots.capacity() {
            slots.retain(|slot| slot.strong_count() > 0);
        }
        slots.push(Arc::downgrade(&slot));
        slot
    }

    /// Gives up the shadows of idle guests if all hold more than the budget.
    pub(crate) fn sweep(&self) {
        if self.held.load(Ordering::Relaxed) <= BUDGET {
            return;
        }
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for slot in slots.iter().filter_map(Weak::upgrade) {
            let mut content = slot.lock();
            if !content.running && content.used.elapsed() >= IDLE {
                content.shadow = None;
                slot.account(&mut content);
            }
        }
    }
}

impl ShadowSlot {
    /// Makes the shadow if there is none, and keeps it until `update` or `clear`.
    pub(crate) fn ensure(&self, make: impl FnOnce() -> io::Result<Shadow>) -> io::Result<()> {
        let mut content = self.lock();
        if content.shadow.is_none() {
            content.shadow = Some(make()?);
            self.account(&mut content);
        }
        content.running = true;
        Ok(())
    }

    /// Brings the shadow up to date after a cell, and says whether it is. If that fails it is given up.
    pub(crate) fn update(&self, update: impl FnOnce(&mut Shadow) -> io::Result<()>) -> bool {
        let mut content = self.lock();
        content.running = false;
        content.used = Instant::now();
        let updated = content.shadow.as_mut().is_some_and(|shadow| update(shadow).is_ok());
        if !updated {
            content.shadow = None;
        }
        self.account(&mut content);
        updated
    }

    /// Looks at the shadow.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Shadow) -> T) -> Option<T> {
        self.lock().shadow.as_ref().map(look)
    }

    /// Gives the shadow up.
    pub(crate) fn clear(&self) {
        let mut content = self.lock();
        content.shadow = None;
        content.running = false;
        self.account(&mut content);
    }

    fn account(&self, content: &mut Content) {
        let bytes = content.shadow.as_ref().map_or(0, Shadow::bytes);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_sub(content.bytes, Ordering::Relaxed);
        content.bytes = bytes;
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ShadowSlot {
    fn drop(&mut self) {
        self.clear();
    }
}
