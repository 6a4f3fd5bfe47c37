//! The functions that the flat module imports.

use std::collections::HashMap;

use wasmparser::{FuncType, ValType};

use super::{
    component::get,
    error::FlattenError,
    exports::{Exports, WASI_REALLOC},
    facts::ImportFact,
    live::Live,
    polls::{POLL, Polls},
    resolve::Links,
    stubs::Stubs,
};

pub(super) struct Import {
    pub(super) module: String,
    pub(super) name: String,
    pub(super) ty: FuncType,
    realloc: Option<&'static str>,
    /// The component's host function; `None` for the poll.
    host: Option<u32>,
}

pub(super) struct Imports {
    pub(super) list: Vec<Import>,
    numbers: HashMap<u32, u32>,
    /// The number of the imported poll.
    pub(super) poll: Option<u32>,
}

impl Imports {
    pub(super) fn collect(
        links: &Links<'_>,
        stubs: &Stubs,
        exports: &Exports,
        live: &Live,
        polls: Polls,
    ) -> Result<Self, FlattenError> {
        let mut list = Vec::new();
        for &number in &live.hosts {
            let host = get(&links.component.hosts, number, "host function")?;
            let realloc = match host.realloc {
                Some(realloc) => exports.realloc_name(stubs.target(links.core_function(realloc)?)),
                None => None,
            };
            let missing = FlattenError::Index { what: "host function", index: number };
            let ty = *links.host_types.get(&number).ok_or(missing)?;
            let ty = get(&links.types, ty, "type")?.clone();
            let (module, name) = (host.module.to_owned(), host.name.clone());
            list.push(Import { module, name, ty, realloc, host: Some(number) });
        }
        if polls == Polls::Call {
            let (module, name) = (POLL.0.to_owned(), POLL.1.to_owned());
            list.push(Import { module, name, ty: FuncType::new([], []), realloc: None, host: None });
        }
        list.sort_by(|left, right| (&left.module, &left.name).cmp(&(&right.module, &right.name)));
        rename_repeated(&mut list);
        let numbers = (0..).zip(&list).filter_map(|(number, import)| Some((import.host?, number))).collect();
        let poll = (0..).zip(&list).find(|(_, import)| import.host.is_none()).map(|(number, _)| number);
        Ok(Self { list, numbers, poll })
    }

    pub(super) fn number(&self, host: u32) -> Result<u32, FlattenError> {
        self.numbers.get(&host).copied().ok_or(FlattenError::Index { what: "host function", index: host })
    }

    pub(super) fn facts(&self) -> Vec<ImportFact> {
        let names = |types: &[ValType]| types.iter().map(ValType::to_string).collect();
        let fact = |import: &Import| ImportFact {
            module: import.module.clone(),
            name: import.name.clone(),
            params: names(import.ty.params()),
            results: names(import.ty.results()),
            realloc: import.realloc.map(str::to_owned),
        };
        self.list.iter().map(fact).collect()
    }
}

/// The C library and the language runtime import some functions alike, but allocate apart. The C library's
/// keeps the plain name.
fn rename_repeated(list: &mut [Import]) {
    let mut counts = HashMap::<_, usize>::new();
    for import in &*list {
        *counts.entry((import.module.clone(), import.name.clone())).or_default() += 1;
    }
    for import in list {
        let repeated =
            counts.get(&(import.module.clone(), import.name.clone())).is_some_and(|count| *count > 1);
        if let (true, Some(realloc)) = (repeated, import.realloc.filter(|realloc| *realloc != WASI_REALLOC)) {
            import.name = format!("{}#{realloc}", import.name);
        }
    }
}
