//! Functions that only pass their arguments on through a constant table slot. Libraries that need each other
//! are linked by those, and so are the shim and fix-up modules around the host's functions.

use std::collections::HashMap;

use wasmparser::{FunctionBody, Operator};

use super::{
    error::FlattenError,
    resolve::{Definition, Function, Links},
    tables::Tables,
};

/// How many stubs may stand in a row. Real components have two.
const CHAIN: usize = 8;

#[derive(Default)]
pub(super) struct Stubs {
    targets: HashMap<Definition, Function>,
}

impl Stubs {
    pub(super) fn find(links: &Links<'_>, tables: &Tables) -> Result<Self, FlattenError> {
        let mut stubs = Self::default();
        for (module, parsed) in links.instantiated() {
            for ((index, body), ty) in (0..).zip(&parsed.bodies).zip(&parsed.functions) {
                let Some((table, slot, called)) = call_through(body)? else { continue };
                let ty = links.type_index(module, *ty)?;
                // A call with the wrong type traps, so only exact matches may become direct.
                if links.type_index(module, called)? != ty {
                    continue;
                }
                match tables.slot(links.table(module, table)?, slot) {
                    Some(slot) if slot.ty == ty => {
                        stubs.targets.insert(Definition { module, index }, slot.function)
                    }
                    _ => None,
                };
            }
        }
        Ok(stubs)
    }

    /// What a call of `function` ends up calling.
    pub(super) fn target(&self, function: Function) -> Function {
        let mut target = function;
        for _ in 0..CHAIN {
            let Function::Defined(definition) = target else { break };
            let Some(next) = self.targets.get(&definition) else { break };
            target = *next;
        }
        target
    }
}

/// Table, slot and type, if the body is `local.get 0; …; i32.const slot; call_indirect`.
fn call_through(body: &FunctionBody<'_>) -> Result<Option<(u32, u32, u32)>, FlattenError> {
    let mut operators = body.get_operators_reader()?;
    let mut next_local = 0;
    let slot = loop {
        match operators.read()? {
            Operator::LocalGet { local_index } if local_index == next_local => next_local += 1,
            Operator::I32Const { value } => break value.cast_unsigned(),
            _ => return Ok(None),
        }
    };
    let Operator::CallIndirect { type_index, table_index } = operators.read()? else { return Ok(None) };
    Ok(match operators.read()? {
        Operator::End if operators.eof() => Some((table_index, slot, type_index)),
        _ => None,
    })
}
