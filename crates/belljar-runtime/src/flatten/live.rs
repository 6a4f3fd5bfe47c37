//! What can still run: everything that the exports reach. The rest is left out.

use std::collections::BTreeSet;

use wasmparser::Operator;

use super::{
    component::{get, variant},
    error::FlattenError,
    exports::Exports,
    resolve::{Definition, Function, Links},
    stubs::Stubs,
    tables::Tables,
};

#[derive(Default)]
pub(super) struct Live {
    pub(super) functions: BTreeSet<Definition>,
    pub(super) hosts: BTreeSet<u32>,
    pub(super) set_globals: BTreeSet<Definition>,
    /// The one table that is called through.
    pub(super) table: Option<Definition>,
    pending: Vec<Definition>,
}

impl Live {
    pub(super) fn trace(
        links: &Links<'_>,
        tables: &Tables,
        stubs: &Stubs,
        exports: &Exports,
    ) -> Result<Self, FlattenError> {
        let mut live = Self::default();
        for (_, function) in &exports.functions {
            live.reach(stubs.target(*function));
        }
        while let Some(Definition { module, index }) = live.pending.pop() {
            let body = get(&links.module(module)?.bodies, index, "function body")?;
            for operator in body.get_operators_reader()? {
                match operator? {
                    Operator::Call { function_index } | Operator::RefFunc { function_index } => {
                        live.reach(stubs.target(links.function(module, function_index)?));
                    }
                    Operator::GlobalSet { global_index } => {
                        live.set_globals.insert(links.global(module, global_index)?);
                    }
                    Operator::CallIndirect { table_index: table, .. }
                    | Operator::TableGet { table }
                    | Operator::TableSize { table } => {
                        live.use_table(links.table(module, table)?, tables, stubs)?;
                    }
                    operator @ (Operator::TableSet { .. }
                    | Operator::TableGrow { .. }
                    | Operator::TableFill { .. }
                    | Operator::TableCopy { .. }
                    | Operator::TableInit { .. }
                    | Operator::ElemDrop { .. }) => {
                        return Err(FlattenError::TableChanged { module, instruction: variant(&operator) });
                    }
                    _ => {}
                }
            }
        }
        Ok(live)
    }

    fn reach(&mut self, function: Function) {
        match function {
            Function::Host(host) => {
                self.hosts.insert(host);
            }
            Function::Defined(definition) => {
                if self.functions.insert(definition) {
                    self.pending.push(definition);
                }
            }
        }
    }

    fn use_table(&mut self, table: Definition, tables: &Tables, stubs: &Stubs) -> Result<(), FlattenError> {
        match self.table {
            Some(used) if used == table => {}
            Some(_) => return Err(FlattenError::SeveralTables),
            None => {
                self.table = Some(table);
                for (_, function) in tables.slots(table) {
                    self.reach(stubs.target(function));
                }
            }
        }
        Ok(())
    }
}
