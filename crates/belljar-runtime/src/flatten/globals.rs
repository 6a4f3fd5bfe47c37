//! Globals that live code never sets become constants; only the others stay globals.

use std::collections::HashMap;

use super::{
    constants,
    error::FlattenError,
    live::Live,
    resolve::{Definition, Links},
};

/// What every library of the component keeps its C stack in.
const STACK_POINTER: &str = "__stack_pointer";

pub(super) struct Globals {
    constants: HashMap<Definition, i32>,
    numbers: HashMap<Definition, u32>,
    /// The initial values of those that stay, by their number.
    pub(super) initial: Vec<i32>,
    /// The stack pointer's number.
    pub(super) stack_pointer: u32,
}

impl Globals {
    pub(super) fn sort(links: &Links<'_>, live: &Live) -> Result<Self, FlattenError> {
        let stack_pointer = links
            .exported_global(STACK_POINTER)?
            .ok_or_else(|| FlattenError::MissingExport(STACK_POINTER.into()))?;
        let mut globals = Self {
            constants: HashMap::new(),
            numbers: HashMap::new(),
            initial: Vec::new(),
            stack_pointer: 0,
        };
        for (module, parsed) in links.instantiated() {
            for (index, _) in (0..).zip(&parsed.globals) {
                let global = Definition { module, index };
                let value = constants::global(links, global)?;
                if live.set_globals.contains(&global) || global == stack_pointer {
                    globals.numbers.insert(global, globals.initial.len() as u32);
                    globals.initial.push(value);
                } else {
                    globals.constants.insert(global, value);
                }
            }
        }
        globals.stack_pointer = globals.number(stack_pointer)?;
        Ok(globals)
    }

    pub(super) fn constant(&self, global: Definition) -> Option<i32> {
        self.constants.get(&global).copied()
    }

    pub(super) fn number(&self, global: Definition) -> Result<u32, FlattenError> {
        let missing = FlattenError::Index { what: "global", index: global.index };
        self.numbers.get(&global).copied().ok_or(missing)
    }
}
