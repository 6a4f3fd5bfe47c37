//! Follows every import of every core module to what it stands for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wasmparser::FuncType;

use super::{
    component::{Component, CoreInstance, CoreItem, get},
    error::FlattenError,
    module::{Kind, Module},
};

/// Something that a core module defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Definition {
    pub(super) module: u32,
    /// Among the module's own, that is without its imports.
    pub(super) index: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Function {
    /// Index into [`Component::hosts`]; of equal ones, the first.
    Host(u32),
    Defined(Definition),
}

/// Where a search for an item stands.
#[derive(Clone, Copy)]
enum Place<'a> {
    Module { module: u32, index: u32 },
    Instance { instance: u32, name: &'a str },
    Core(u32),
}

/// The component with all its links followed. Indices are per module, imports first, as in the code.
pub(super) struct Links<'a> {
    pub(super) component: &'a Component<'a>,
    functions: Vec<Vec<Function>>,
    tables: Vec<Vec<Definition>>,
    globals: Vec<Vec<Definition>>,
    pub(super) memory: Definition,
    /// All function types, without repetition.
    pub(super) types: Vec<FuncType>,
    /// Per module, where its types are in `types`.
    type_indices: Vec<Vec<u32>>,
    /// Into `types`.
    pub(super) host_types: BTreeMap<u32, u32>,
}

impl<'a> Links<'a> {
    pub(super) fn follow(component: &'a Component<'a>) -> Result<Self, FlattenError> {
        let (types, type_indices) = unite_types(component);
        let mut links = Self {
            component,
            functions: Vec::new(),
            tables: Vec::new(),
            globals: Vec::new(),
            memory: Definition { module: 0, index: 0 },
            types,
            type_indices,
            host_types: BTreeMap::new(),
        };
        let same = links.equal_hosts()?;
        let mut memories = BTreeSet::new();
        for (number, module) in (0..).zip(&component.modules) {
            // What is never instantiated has no code in the result, and its imports mean nothing.
            let instantiated = component.instance_of.contains_key(&number);
            links.tables.push(links.definitions(number, Kind::Table, instantiated)?);
            links.globals.push(links.definitions(number, Kind::Global, instantiated)?);
            let functions = links.module_functions(number, module, instantiated, &same)?;
            links.functions.push(functions);
            if instantiated {
                memories.extend(links.definitions(number, Kind::Memory, true)?);
                memories.extend(
                    (0..).zip(&module.memories).map(|(index, _)| Definition { module: number, index }),
                );
            }
        }
        let count = memories.len();
        match memories.pop_first() {
            Some(memory) if count == 1 => links.memory = memory,
            _ => return Err(FlattenError::Memories(count)),
        }
        Ok(links)
    }

    pub(super) fn module(&self, module: u32) -> Result<&'a Module<'a>, FlattenError> {
        get(&self.component.modules, module, "core module")
    }

    /// The modules that the component instantiates, in that order.
    pub(super) fn instantiated(&self) -> impl Iterator<Item = (u32, &'a Module<'a>)> {
        self.component.instances.iter().filter_map(|instance| match instance {
            CoreInstance::Module { module, .. } => {
                Some((*module, self.component.modules.get(*module as usize)?))
            }
            CoreInstance::Items(_) => None,
        })
    }

    pub(super) fn function(&self, module: u32, index: u32) -> Result<Function, FlattenError> {
        let imported = get(&self.functions, module, "core module")?;
        Ok(match past(imported, index) {
            Ok(function) => function,
            Err(index) => Function::Defined(Definition { module, index }),
        })
    }

    pub(super) fn table(&self, module: u32, index: u32) -> Result<Definition, FlattenError> {
        let imported = get(&self.tables, module, "core module")?;
        Ok(past(imported, index).unwrap_or_else(|index| Definition { module, index }))
    }

    pub(super) fn global(&self, module: u32, index: u32) -> Result<Definition, FlattenError> {
        let imported = get(&self.globals, module, "core module")?;
        Ok(past(imported, index).unwrap_or_else(|index| Definition { module, index }))
    }

    /// The function that a module exports under `name`, from the first module that has it.
    pub(super) fn exported_function(&self, name: &str) -> Result<Option<Function>, FlattenError> {
        self.export(name, Kind::Function).map(|(module, index)| self.function(module, index)).transpose()
    }

    pub(super) fn exported_global(&self, name: &str) -> Result<Option<Definition>, FlattenError> {
        self.export(name, Kind::Global).map(|(module, index)| self.global(module, index)).transpose()
    }

    pub(super) fn core_function(&self, index: u32) -> Result<Function, FlattenError> {
        self.chase(Kind::Function, Place::Core(index))
    }

    /// Where the type `index` of `module` is in `types`.
    pub(super) fn type_index(&self, module: u32, index: u32) -> Result<u32, FlattenError> {
        get(get(&self.type_indices, module, "core module")?, index, "type").copied()
    }

    /// The type of a module's function, imported or its own; into `types`.
    pub(super) fn function_type(&self, module: u32, index: u32) -> Result<u32, FlattenError> {
        let imported = get(&self.functions, module, "core module")?;
        let parsed = self.module(module)?;
        let ty = match past(imported, index) {
            Ok(_) => parsed.imports(Kind::Function).get(index as usize).and_then(|import| import.ty),
            Err(index) => parsed.functions.get(index as usize).copied(),
        };
        self.type_index(module, ty.ok_or(FlattenError::Index { what: "function", index })?)
    }

    fn export(&self, name: &str, kind: Kind) -> Option<(u32, u32)> {
        self.instantiated().find_map(|(number, module)| match module.exports.get(name) {
            Some(&(found, index)) if found == kind => Some((number, index)),
            _ => None,
        })
    }

    fn module_functions(
        &mut self,
        number: u32,
        module: &Module<'a>,
        instantiated: bool,
        same: &[u32],
    ) -> Result<Vec<Function>, FlattenError> {
        let mut functions = Vec::new();
        for (index, import) in (0..).zip(module.imports(Kind::Function)).filter(|_| instantiated) {
            let mut function = self.chase(Kind::Function, Place::Module { module: number, index })?;
            if let (Function::Host(host), Some(ty)) = (function, import.ty) {
                let host = *get(same, host, "host function")?;
                let ty = self.type_index(number, ty)?;
                if *self.host_types.entry(host).or_insert(ty) != ty {
                    let host = get(&self.component.hosts, host, "host function")?;
                    return Err(FlattenError::ImportTypes {
                        module: host.module.to_owned(),
                        name: host.name.clone(),
                    });
                }
                function = Function::Host(host);
            }
            functions.push(function);
        }
        Ok(functions)
    }

    fn definitions(
        &self,
        module: u32,
        kind: Kind,
        instantiated: bool,
    ) -> Result<Vec<Definition>, FlattenError> {
        let imports = self.module(module)?.imports(kind).iter().filter(|_| instantiated);
        (0..)
            .zip(imports)
            .map(|(index, _)| match self.chase(kind, Place::Module { module, index })? {
                Function::Defined(definition) => Ok(definition),
                Function::Host(index) => Err(FlattenError::Index { what: "imported item", index }),
            })
            .collect()
    }

    /// Ends because a valid component's indices only lead backwards.
    fn chase(&self, kind: Kind, start: Place<'a>) -> Result<Function, FlattenError> {
        let mut place = start;
        loop {
            place = match place {
                Place::Module { module, index } => {
                    let parsed = self.module(module)?;
                    let Some(import) = parsed.imports(kind).get(index as usize) else {
                        let index = index.saturating_sub(parsed.imports(kind).len() as u32);
                        return Ok(Function::Defined(Definition { module, index }));
                    };
                    let unresolved = || FlattenError::UnresolvedImport {
                        module,
                        from: import.from.to_owned(),
                        name: import.name.to_owned(),
                    };
                    let instance = self.component.instance_of.get(&module).ok_or_else(unresolved)?;
                    let instance = get(&self.component.instances, *instance, "core instance")?;
                    let CoreInstance::Module { arguments, .. } = instance else { return Err(unresolved()) };
                    Place::Instance {
                        instance: *arguments.get(import.from).ok_or_else(unresolved)?,
                        name: import.name,
                    }
                }
                Place::Instance { instance, name } => {
                    let missing = || FlattenError::MissingExport(name.to_owned());
                    match get(&self.component.instances, instance, "core instance")? {
                        CoreInstance::Module { module, .. } => {
                            let (found, index) =
                                *self.module(*module)?.exports.get(name).ok_or_else(missing)?;
                            if found != kind {
                                return Err(missing());
                            }
                            Place::Module { module: *module, index }
                        }
                        CoreInstance::Items(items) => match items.get(name) {
                            Some((found, index)) if *found == kind => Place::Core(*index),
                            _ => return Err(missing()),
                        },
                    }
                }
                Place::Core(index) => match self.component.core_item(kind, index)? {
                    CoreItem::Alias { instance, name } => Place::Instance { instance, name },
                    CoreItem::Host(host) => return Ok(Function::Host(host)),
                },
            }
        }
    }

    /// Per host function, the first that is the same: same name, same allocator.
    fn equal_hosts(&self) -> Result<Vec<u32>, FlattenError> {
        let mut first = HashMap::new();
        let mut same = Vec::new();
        for (index, host) in (0..).zip(&self.component.hosts) {
            let realloc = host.realloc.map(|realloc| self.core_function(realloc)).transpose()?;
            same.push(*first.entry((host.module, host.name.as_str(), realloc)).or_insert(index));
        }
        Ok(same)
    }
}

/// The import at `index`, or the index among the module's own.
fn past<T: Copy>(imported: &[T], index: u32) -> Result<T, u32> {
    let count = imported.len() as u32;
    imported.get(index as usize).copied().ok_or(index.saturating_sub(count))
}

fn unite_types(component: &Component<'_>) -> (Vec<FuncType>, Vec<Vec<u32>>) {
    let mut united = Vec::new();
    let mut known = HashMap::new();
    let mut indices = Vec::new();
    for module in &component.modules {
        let places = module.types.iter().map(|ty| {
            *known.entry(ty.clone()).or_insert_with(|| {
                united.push(ty.clone());
                united.len() as u32 - 1
            })
        });
        indices.push(places.collect());
    }
    (united, indices)
}
