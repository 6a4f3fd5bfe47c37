//! A core module of the component, as parsed.

use std::collections::HashMap;

use wasmparser::{
    Data, Element, ExternalKind, FuncType, FunctionBody, Global, KnownCustom, MemoryType, Name, Payload,
    TableType, TypeRef,
};

use super::error::FlattenError;

/// The four index spaces of a core module that components can link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Function,
    Table,
    Memory,
    Global,
}

impl Kind {
    pub(super) fn of(kind: ExternalKind) -> Result<Self, FlattenError> {
        match kind {
            ExternalKind::Func | ExternalKind::FuncExact => Ok(Self::Function),
            ExternalKind::Table => Ok(Self::Table),
            ExternalKind::Memory => Ok(Self::Memory),
            ExternalKind::Global => Ok(Self::Global),
            ExternalKind::Tag => Err(FlattenError::Section("exception tag")),
        }
    }
}

pub(super) struct Import<'a> {
    pub(super) from: &'a str,
    pub(super) name: &'a str,
    /// Index into the module's types; only functions have one.
    pub(super) ty: Option<u32>,
}

#[derive(Default)]
pub(super) struct Module<'a> {
    pub(super) types: Vec<FuncType>,
    /// One list per kind.
    imports: [Vec<Import<'a>>; 4],
    pub(super) functions: Vec<u32>,
    pub(super) bodies: Vec<FunctionBody<'a>>,
    pub(super) tables: Vec<TableType>,
    pub(super) memories: Vec<MemoryType>,
    pub(super) globals: Vec<Global<'a>>,
    pub(super) exports: HashMap<&'a str, (Kind, u32)>,
    pub(super) elements: Vec<Element<'a>>,
    pub(super) data: Vec<Data<'a>>,
    /// From the name section, by function index.
    pub(super) names: Vec<(u32, &'a str)>,
}

impl<'a> Module<'a> {
    /// The imports of one kind, in the order of their indices.
    pub(super) fn imports(&self, kind: Kind) -> &[Import<'a>] {
        &self.imports[kind as usize]
    }

    /// Takes in one section. `number` is the module's own, for errors.
    pub(super) fn read(&mut self, payload: Payload<'a>, number: u32) -> Result<(), FlattenError> {
        match payload {
            Payload::Version { .. } | Payload::CodeSectionStart { .. } | Payload::DataCountSection { .. } => {
            }
            Payload::TypeSection(reader) => {
                for ty in reader.into_iter_err_on_gc_types() {
                    self.types.push(ty?);
                }
            }
            Payload::ImportSection(reader) => {
                for import in reader.into_imports() {
                    let import = import?;
                    let (kind, ty) = match import.ty {
                        TypeRef::Func(ty) | TypeRef::FuncExact(ty) => (Kind::Function, Some(ty)),
                        TypeRef::Table(_) => (Kind::Table, None),
                        TypeRef::Memory(_) => (Kind::Memory, None),
                        TypeRef::Global(_) => (Kind::Global, None),
                        TypeRef::Tag(_) => return Err(FlattenError::Section("exception tag")),
                    };
                    self.imports[kind as usize].push(Import { from: import.module, name: import.name, ty });
                }
            }
            Payload::FunctionSection(reader) => append(&mut self.functions, reader)?,
            Payload::TableSection(reader) => {
                for table in reader {
                    self.tables.push(table?.ty);
                }
            }
            Payload::MemorySection(reader) => append(&mut self.memories, reader)?,
            Payload::GlobalSection(reader) => append(&mut self.globals, reader)?,
            Payload::ExportSection(reader) => {
                for export in reader {
                    let export = export?;
                    self.exports.insert(export.name, (Kind::of(export.kind)?, export.index));
                }
            }
            Payload::StartSection { .. } => return Err(FlattenError::StartFunction(number)),
            Payload::ElementSection(reader) => append(&mut self.elements, reader)?,
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            Payload::DataSection(reader) => append(&mut self.data, reader)?,
            Payload::TagSection(_) => return Err(FlattenError::Section("tag section")),
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    self.read_names(names);
                }
            }
            _ => return Err(FlattenError::Section("unknown section in a core module")),
        }
        Ok(())
    }

    /// Names only serve debugging, so a damaged name section is no error.
    fn read_names(&mut self, names: wasmparser::NameSectionReader<'a>) {
        for name in names.into_iter().flatten() {
            if let Name::Function(functions) = name {
                self.names.extend(functions.into_iter().flatten().map(|naming| (naming.index, naming.name)));
            }
        }
    }
}

fn append<'a, T: wasmparser::FromReader<'a>>(
    list: &mut Vec<T>,
    reader: wasmparser::SectionLimited<'a, T>,
) -> Result<(), FlattenError> {
    for item in reader {
        list.push(item?);
    }
    Ok(())
}
