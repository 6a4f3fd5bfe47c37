//! The component, as parsed: its core modules, how they are instantiated, and what passes its border.

use std::collections::HashMap;

use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind, ComponentTypeRef, Instance,
    Parser, Payload,
};

use super::{
    error::FlattenError,
    module::{Kind, Module},
};

/// The import module of functions that the world imports directly.
const ROOT: &str = "$root";

#[derive(Default)]
pub(super) struct Component<'a> {
    pub(super) modules: Vec<Module<'a>>,
    pub(super) instances: Vec<CoreInstance<'a>>,
    /// Which instance each module became.
    pub(super) instance_of: HashMap<u32, u32>,
    core_functions: Vec<CoreItem<'a>>,
    core_tables: Vec<CoreItem<'a>>,
    core_memories: Vec<CoreItem<'a>>,
    core_globals: Vec<CoreItem<'a>>,
    pub(super) hosts: Vec<HostFunction<'a>>,
    pub(super) exports: Vec<ComponentExport<'a>>,
    functions: Vec<ComponentFunction<'a>>,
    /// The names of imported instances; `None` for others.
    imported_instances: Vec<Option<&'a str>>,
    /// Where a type came from, for those that an imported instance exports.
    types: Vec<Option<(&'a str, &'a str)>>,
}

pub(super) enum CoreInstance<'a> {
    Module { module: u32, arguments: HashMap<&'a str, u32> },
    Items(HashMap<&'a str, (Kind, u32)>),
}

#[derive(Clone, Copy)]
pub(super) enum CoreItem<'a> {
    Alias {
        instance: u32,
        name: &'a str,
    },
    /// Index into [`Component::hosts`].
    Host(u32),
}

/// A function that the host provides: a lowered import, or the drop of an imported resource.
pub(super) struct HostFunction<'a> {
    pub(super) module: &'a str,
    pub(super) name: String,
    /// A core function.
    pub(super) realloc: Option<u32>,
}

impl HostFunction<'_> {
    /// Whether the world imports the function itself, not as part of an interface.
    pub(super) fn is_direct(&self) -> bool {
        self.module == ROOT
    }
}

pub(super) struct ComponentExport<'a> {
    pub(super) name: &'a str,
    pub(super) lift: Lift,
}

/// All three are core functions.
#[derive(Clone, Copy)]
pub(super) struct Lift {
    pub(super) function: u32,
    pub(super) realloc: Option<u32>,
    pub(super) post_return: Option<u32>,
}

#[derive(Clone, Copy)]
enum ComponentFunction<'a> {
    Imported { module: &'a str, name: &'a str },
    Lifted(Lift),
}

impl<'a> Component<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, FlattenError> {
        let mut component = Self::default();
        let mut module: Option<Module<'a>> = None;
        let mut nesting = 0;
        for payload in Parser::new(0).parse_all(bytes) {
            match (payload?, &mut module) {
                (Payload::ComponentSection { .. }, _) => nesting += 1,
                (Payload::End(_), None) => nesting -= 1,
                (payload, None) if nesting > 0 => check_nested(&payload)?,
                (Payload::ModuleSection { .. }, _) => module = Some(Module::default()),
                (Payload::End(_), Some(_)) => component.modules.extend(module.take()),
                (payload, Some(module)) => module.read(payload, count(&component.modules))?,
                (payload, None) => component.read(payload)?,
            }
        }
        Ok(component)
    }

    pub(super) fn core_item(&self, kind: Kind, index: u32) -> Result<CoreItem<'a>, FlattenError> {
        let items = match kind {
            Kind::Function => &self.core_functions,
            Kind::Table => &self.core_tables,
            Kind::Memory => &self.core_memories,
            Kind::Global => &self.core_globals,
        };
        get(items, index, "core item").copied()
    }

    fn read(&mut self, payload: Payload<'a>) -> Result<(), FlattenError> {
        match payload {
            Payload::Version { .. } | Payload::CustomSection(_) => {}
            Payload::InstanceSection(reader) => {
                for instance in reader {
                    self.read_core_instance(instance?)?;
                }
            }
            Payload::ComponentTypeSection(reader) => {
                for ty in reader {
                    ty?;
                    self.types.push(None);
                }
            }
            Payload::ComponentImportSection(reader) => {
                for import in reader {
                    let import = import?;
                    self.read_import(import.name.name, import.ty)?;
                }
            }
            Payload::ComponentExportSection(reader) => {
                for export in reader {
                    let export = export?;
                    self.read_export(export.name.name, export.kind, export.index)?;
                }
            }
            Payload::ComponentAliasSection(reader) => {
                for alias in reader {
                    self.read_alias(alias?)?;
                }
            }
            Payload::ComponentCanonicalSection(reader) => {
                for function in reader {
                    self.read_canonical(function?)?;
                }
            }
            Payload::ComponentInstanceSection(reader) => {
                for instance in reader {
                    instance?;
                    self.imported_instances.push(None);
                }
            }
            Payload::ComponentStartSection { .. } => {
                return Err(FlattenError::Section("component start function"));
            }
            Payload::CoreTypeSection(_) => return Err(FlattenError::Section("core type section")),
            _ => return Err(FlattenError::Section("unknown section")),
        }
        Ok(())
    }

    fn read_core_instance(&mut self, instance: Instance<'a>) -> Result<(), FlattenError> {
        let instance = match instance {
            Instance::Instantiate { module_index: module, args } => {
                if self.instance_of.insert(module, count(&self.instances)).is_some() {
                    return Err(FlattenError::InstantiatedTwice(module));
                }
                let arguments = args.iter().map(|argument| (argument.name, argument.index)).collect();
                CoreInstance::Module { module, arguments }
            }
            Instance::FromExports(exports) => {
                let mut items = HashMap::new();
                for export in &exports {
                    items.insert(export.name, (Kind::of(export.kind)?, export.index));
                }
                CoreInstance::Items(items)
            }
        };
        self.instances.push(instance);
        Ok(())
    }

    fn read_import(&mut self, name: &'a str, ty: ComponentTypeRef) -> Result<(), FlattenError> {
        match ty {
            ComponentTypeRef::Instance(_) => self.imported_instances.push(Some(name)),
            ComponentTypeRef::Func(_) => {
                self.functions.push(ComponentFunction::Imported { module: ROOT, name })
            }
            ComponentTypeRef::Type(_) => self.types.push(Some((ROOT, name))),
            other => return Err(component_item("imports", name, other.kind())),
        }
        Ok(())
    }

    fn read_export(
        &mut self,
        name: &'a str,
        kind: ComponentExternalKind,
        index: u32,
    ) -> Result<(), FlattenError> {
        match kind {
            ComponentExternalKind::Func => {
                let function = *get(&self.functions, index, "component function")?;
                let ComponentFunction::Lifted(lift) = function else {
                    return Err(component_item("exports", name, "function that it imports"));
                };
                self.exports.push(ComponentExport { name, lift });
                // An export is itself the next item of its index space.
                self.functions.push(function);
            }
            ComponentExternalKind::Type => self.types.push(None),
            // Left out. componentize-py exports one, for its own use while it makes the component.
            ComponentExternalKind::Instance => self.imported_instances.push(None),
            other => return Err(component_item("exports", name, other)),
        }
        Ok(())
    }

    fn read_alias(&mut self, alias: ComponentAlias<'a>) -> Result<(), FlattenError> {
        match alias {
            ComponentAlias::InstanceExport { kind, instance_index, name } => {
                let instance = *get(&self.imported_instances, instance_index, "component instance")?;
                let Some(module) = instance else {
                    return Err(component_item("aliases", name, "export of its own instance"));
                };
                match kind {
                    ComponentExternalKind::Func => {
                        self.functions.push(ComponentFunction::Imported { module, name })
                    }
                    ComponentExternalKind::Type => self.types.push(Some((module, name))),
                    other => return Err(component_item("aliases", name, other)),
                }
            }
            ComponentAlias::CoreInstanceExport { kind, instance_index: instance, name } => {
                let items = match Kind::of(kind)? {
                    Kind::Function => &mut self.core_functions,
                    Kind::Table => &mut self.core_tables,
                    Kind::Memory => &mut self.core_memories,
                    Kind::Global => &mut self.core_globals,
                };
                items.push(CoreItem::Alias { instance, name });
            }
            ComponentAlias::Outer { .. } => return Err(FlattenError::Section("outer alias")),
        }
        Ok(())
    }

    fn read_canonical(&mut self, function: CanonicalFunction) -> Result<(), FlattenError> {
        match function {
            CanonicalFunction::Lift { core_func_index: function, options, .. } => {
                let options = Options::read(&options, "a lifted function")?;
                let lift = Lift { function, realloc: options.realloc, post_return: options.post_return };
                self.functions.push(ComponentFunction::Lifted(lift));
            }
            CanonicalFunction::Lower { func_index, options } => {
                let ComponentFunction::Imported { module, name } =
                    *get(&self.functions, func_index, "component function")?
                else {
                    return Err(FlattenError::NotImported(format!("component function {func_index}")));
                };
                let options = Options::read(&options, name)?;
                self.push_host(HostFunction { module, name: name.to_owned(), realloc: options.realloc });
            }
            CanonicalFunction::ResourceDrop { resource } => {
                let Some((module, name)) = *get(&self.types, resource, "component type")? else {
                    return Err(FlattenError::NotImported(format!("component type {resource}")));
                };
                self.push_host(HostFunction {
                    module,
                    name: format!("[resource-drop]{name}"),
                    realloc: None,
                });
            }
            other => return Err(FlattenError::CanonicalFunction(variant(&other))),
        }
        Ok(())
    }

    fn push_host(&mut self, host: HostFunction<'a>) {
        self.core_functions.push(CoreItem::Host(count(&self.hosts)));
        self.hosts.push(host);
    }
}

#[derive(Default)]
struct Options {
    realloc: Option<u32>,
    post_return: Option<u32>,
}

impl Options {
    fn read(options: &[CanonicalOption], function: &str) -> Result<Self, FlattenError> {
        let mut read = Self::default();
        for option in options {
            match option {
                // There is one memory; `resolve` makes sure of it.
                CanonicalOption::UTF8 | CanonicalOption::Memory(_) => {}
                CanonicalOption::Realloc(function) => read.realloc = Some(*function),
                CanonicalOption::PostReturn(function) => read.post_return = Some(*function),
                other => {
                    let (function, option) = (function.to_owned(), variant(other));
                    return Err(FlattenError::CanonicalOption { function, option });
                }
            }
        }
        Ok(read)
    }
}

/// A nested component that gives names to the types of an exported instance has nothing to run.
fn check_nested(payload: &Payload<'_>) -> Result<(), FlattenError> {
    match payload {
        Payload::Version { .. }
        | Payload::CustomSection(_)
        | Payload::ComponentTypeSection(_)
        | Payload::ComponentImportSection(_)
        | Payload::ComponentExportSection(_)
        | Payload::ComponentAliasSection(_) => Ok(()),
        _ => Err(FlattenError::Section("nested component with more than types")),
    }
}

pub(super) fn get<'l, T>(list: &'l [T], index: u32, what: &'static str) -> Result<&'l T, FlattenError> {
    list.get(index as usize).ok_or(FlattenError::Index { what, index })
}

/// The binary format counts in u32, so a parsed list never holds more.
fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

fn component_item(direction: &'static str, name: &str, kind: impl std::fmt::Debug) -> FlattenError {
    FlattenError::ComponentItem { direction, name: name.to_owned(), kind: format!("{kind:?}").to_lowercase() }
}

/// The name of an enum's variant, without its fields.
pub(super) fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_owned()
}
