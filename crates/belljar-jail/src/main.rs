//! The jail: a static binary that makes namespaces, and watches over what runs in them.
#![deny(unsafe_op_in_unsafe_fn)]

mod gate;
mod init;
mod inside;
mod mounts;
mod rules;
mod steps;
mod steward;
mod sys;
mod warden;

fn main() {
    let second = std::env::args().nth(1).is_some_and(|argument| argument == gate::SECOND);
    let code = if second { gate::run() } else { steward::run() };
    sys::exit(code);
}
