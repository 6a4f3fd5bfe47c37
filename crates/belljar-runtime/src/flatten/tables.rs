//! What the element segments put into the tables.

use std::collections::{BTreeMap, HashMap};

use wasmparser::{ElementItems, ElementKind};

use super::{
    component::get,
    constants,
    error::FlattenError,
    resolve::{Definition, Function, Links},
};

#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) function: Function,
    /// Into [`Links::types`].
    pub(super) ty: u32,
}

#[derive(Default)]
pub(super) struct Tables {
    contents: HashMap<Definition, BTreeMap<u32, Slot>>,
}

impl Tables {
    pub(super) fn read(links: &Links<'_>) -> Result<Self, FlattenError> {
        let mut tables = Self::default();
        for (module, parsed) in links.instantiated() {
            for (segment, element) in parsed.elements.iter().enumerate() {
                let refuse = |how| FlattenError::Segment { what: "element segment", module, segment, how };
                let ElementKind::Active { table_index, offset_expr } = &element.kind else {
                    return Err(refuse("passive or declared"));
                };
                let ElementItems::Functions(functions) = &element.items else {
                    return Err(refuse("made of expressions"));
                };
                let table = links.table(module, table_index.unwrap_or(0))?;
                let size = get(&links.module(table.module)?.tables, table.index, "table")?.initial;
                let start = constants::evaluate(links, module, offset_expr)?.cast_unsigned();
                if u64::from(start) + u64::from(functions.count()) > size {
                    return Err(refuse("outside of its table"));
                }
                let contents = tables.contents.entry(table).or_default();
                for (index, slot) in functions.clone().into_iter().zip(start..) {
                    let index = index?;
                    let function = links.function(module, index)?;
                    contents.insert(slot, Slot { function, ty: links.function_type(module, index)? });
                }
            }
        }
        Ok(tables)
    }

    pub(super) fn slot(&self, table: Definition, index: u32) -> Option<Slot> {
        self.contents.get(&table)?.get(&index).copied()
    }

    /// The occupied slots, in order.
    pub(super) fn slots(&self, table: Definition) -> impl Iterator<Item = (u32, Function)> {
        self.contents.get(&table).into_iter().flatten().map(|(index, slot)| (*index, slot.function))
    }
}
