//! Large stacks for guests.
//!
//! CPython's C recursion (the parser, `json`, `repr`) is bounded by counters that assume a generous
//! stack. A guest whose stack is the tighter limit is stopped hard where CPython would have raised
//! `RecursionError`, so guests run on stacks of their own, whatever thread they are called from.

use std::cell::RefCell;
use std::io;

use corosensei::stack::{DefaultStack, Stack};
use rustix::mm::{Advice, madvise};

/// What wasm code may use.
pub(crate) const WASM_STACK: usize = 64 << 20;
/// Room for the host functions that it calls.
const HOST_STACK: usize = 4 << 20;
/// What stays backed by memory in a stack that waits for its next use.
const KEPT: usize = 128 << 10;
/// How many stacks a thread keeps.
const SPARE: usize = 2;

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body` on a large stack.
pub(crate) fn on_large_stack<T>(body: impl FnOnce() -> T) -> io::Result<T> {
    let mut stack = match STACKS.with_borrow_mut(Vec::pop) {
        Some(stack) => stack,
        None => DefaultStack::new(WASM_STACK + HOST_STACK)?,
    };
    let result = corosensei::on_stack(&mut stack, body);
    release(&stack);
    STACKS.with_borrow_mut(|stacks| {
        if stacks.len() < SPARE {
            stacks.push(stack);
        }
    });
    Ok(result)
}

/// Gives back what a deep recursion used.
fn release(stack: &DefaultStack) {
    let low = stack.limit().get();
    let high = stack.base().get() - KEPT;
    // SAFETY: the range is the unused lower part of a stack that nobody runs on; its contents don't
    // matter any more.
    let _ = unsafe { madvise(low as *mut _, high - low, Advice::LinuxDontNeed) };
}
