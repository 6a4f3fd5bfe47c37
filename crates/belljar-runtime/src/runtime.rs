use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{cache::Cache, flatten::Facts};

/// A runtime in the cache: CPython as one WebAssembly module with its memory, and the files it imports from.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Names everything that went into the runtime: the tools' versions, the guest kernel, the flattener.
    pub id: String,
    /// The cache entry.
    pub root: PathBuf,
    /// What the engine must know.
    pub facts: Facts,
}

impl Runtime {
    /// The runtimes' place in the cache.
    pub(crate) const KIND: &str = "runtime";
    pub(crate) const CORE: &str = "core.wasm";
    pub(crate) const IMAGE: &str = "base.img";
    pub(crate) const FACTS: &str = "runtime.json";
    /// The standard library's place among the [parts](Runtime::parts).
    pub const STDLIB: &str = "stdlib";
    pub(crate) const ZONEINFO: &str = "zoneinfo";
    pub(crate) const COMPONENT: &str = "component.wasm.zst";

    /// Opens the runtime in `root`; `None` if its facts aren't there or are of another format.
    pub(crate) fn open(id: &str, root: &Path) -> Option<Self> {
        let facts: Facts = serde_json::from_slice(&fs::read(root.join(Self::FACTS)).ok()?).ok()?;
        (facts.format == Facts::FORMAT).then(|| Self { id: id.to_owned(), root: root.to_owned(), facts })
    }

    /// The runtime of this name, if it is in the cache.
    pub fn find(cache: &Cache, id: &str) -> Option<Self> {
        Self::open(id, &cache.find(Self::KIND, id)?)
    }

    /// Opens a runtime that was put aside (see [`Runtime::parts`]) in `root`; `None` if it isn't one.
    pub fn set_aside(id: &str, root: &Path) -> Option<Self> {
        Self::open(id, root)
    }

    /// What a guest needs of it, by name in its directory: to put it aside, so that it outlives the cache.
    pub fn parts() -> [&'static str; 4] {
        [Self::CORE, Self::FACTS, Self::STDLIB, Self::ZONEINFO]
    }

    /// The flat module, without data segments.
    pub fn core(&self) -> PathBuf {
        self.root.join(Self::CORE)
    }

    /// The initial memory, in whole pages.
    pub fn image(&self) -> PathBuf {
        self.root.join(Self::IMAGE)
    }

    /// The standard library; the guest expects it at `/python`.
    pub fn stdlib(&self) -> PathBuf {
        self.root.join(Self::STDLIB)
    }

    /// The time zones of `zoneinfo`.
    pub fn zoneinfo(&self) -> PathBuf {
        self.root.join(Self::ZONEINFO)
    }

    /// The component that was flattened, compressed with zstd. Not there if the runtime came with the program.
    pub fn component(&self) -> PathBuf {
        self.root.join(Self::COMPONENT)
    }
}
