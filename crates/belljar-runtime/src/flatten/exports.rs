//! The functions that the flat module exports.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    error::FlattenError,
    resolve::{Function, Links},
    stubs::Stubs,
};

/// Allocates for what the world's own functions get and return.
const CABI_REALLOC: &str = "cabi_realloc";
/// Allocates for what the other imports return, where the C library brings its own.
pub(super) const WASI_REALLOC: &str = "wasi_realloc";

pub(super) struct Exports {
    pub(super) functions: Vec<(String, Function)>,
    reallocs: BTreeMap<Function, &'static str>,
}

impl Exports {
    pub(super) fn collect(links: &Links<'_>, stubs: &Stubs, keep: &[&str]) -> Result<Self, FlattenError> {
        let resolve = |core: u32| links.core_function(core).map(|function| stubs.target(function));
        let mut functions = Vec::new();
        for export in &links.component.exports {
            functions.push((export.name.to_owned(), resolve(export.lift.function)?));
            if let Some(post_return) = export.lift.post_return {
                functions.push((format!("cabi_post_{}", export.name), resolve(post_return)?));
            }
        }
        let reallocs = name_reallocs(links, resolve)?;
        functions.extend(reallocs.iter().map(|(function, name)| ((*name).to_owned(), *function)));
        for name in keep {
            let function = links.exported_function(name)?.map(|function| stubs.target(function));
            functions.push((
                (*name).to_owned(),
                function.ok_or_else(|| FlattenError::MissingExport((*name).into()))?,
            ));
        }
        let mut names = BTreeSet::new();
        match functions.iter().find(|(name, _)| !names.insert(name)) {
            Some((name, _)) => Err(FlattenError::DuplicateExport(name.clone())),
            None => Ok(Self { functions, reallocs }),
        }
    }

    /// The export to allocate with, for a host function's result.
    pub(super) fn realloc_name(&self, realloc: Function) -> Option<&'static str> {
        self.reallocs.get(&realloc).copied()
    }
}

/// The world's own functions are the lifted ones and what it imports directly. They share one allocator, and
/// all else has one at most.
fn name_reallocs(
    links: &Links<'_>,
    resolve: impl Fn(u32) -> Result<Function, FlattenError>,
) -> Result<BTreeMap<Function, &'static str>, FlattenError> {
    let (own, others): (Vec<_>, Vec<_>) = links.component.hosts.iter().partition(|host| host.is_direct());
    let lifted = links.component.exports.iter().filter_map(|export| export.lift.realloc);
    let own = lifted.chain(own.iter().filter_map(|host| host.realloc));
    let own = own.map(&resolve).collect::<Result<BTreeSet<_>, _>>()?;
    let others = others.iter().filter_map(|host| host.realloc);
    let mut others = others.map(&resolve).collect::<Result<BTreeSet<_>, _>>()?;
    others.retain(|function| !own.contains(function));
    if own.len() > 1 || others.len() > 1 {
        return Err(FlattenError::Reallocs(own.len() + others.len()));
    }
    let own = own.into_iter().map(|function| (function, CABI_REALLOC));
    Ok(own.chain(others.into_iter().map(|function| (function, WASI_REALLOC))).collect())
}
