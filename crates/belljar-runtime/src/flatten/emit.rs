//! Writes the flat module.

use std::collections::HashMap;

use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, Elements, EntityType, ExportKind, ExportSection, FunctionSection,
    GlobalSection, GlobalType, ImportSection, MemorySection, MemoryType, Module, NameMap, NameSection,
    RefType, TableSection, TableType, TypeSection,
    reencode::{Reencode, RoundtripReencoder},
};
use wasmparser::FuncType;

use super::{
    body::Rewriter,
    component::get,
    error::FlattenError,
    exports::Exports,
    globals::Globals,
    image::Image,
    imports::Imports,
    live::Live,
    module::Kind,
    polls::Poll,
    resolve::{Definition, Function, Links},
    stubs::Stubs,
    tables::Tables,
};

/// All that was found out about the component.
pub(super) struct Plan<'a> {
    pub(super) links: Links<'a>,
    pub(super) tables: Tables,
    pub(super) stubs: Stubs,
    pub(super) exports: Exports,
    pub(super) imports: Imports,
    pub(super) live: Live,
    pub(super) globals: Globals,
    /// The numbers of the live functions.
    pub(super) numbers: HashMap<Definition, u32>,
}

impl Plan<'_> {
    /// The number of a function in the flat module.
    pub(super) fn number(&self, function: Function) -> Result<u32, FlattenError> {
        match self.stubs.target(function) {
            Function::Host(host) => self.imports.number(host),
            Function::Defined(definition) => {
                let missing = FlattenError::Index { what: "live function", index: definition.index };
                self.numbers.get(&definition).copied().ok_or(missing)
            }
        }
    }

    pub(super) fn emit(&self, image: &Image, poll: &mut Poll, names: bool) -> Result<Vec<u8>, FlattenError> {
        let mut types = Types::new(&self.links.types)?;
        let mut module = Module::new();
        let mut imports = ImportSection::new();
        for import in &self.imports.list {
            imports.import(&import.module, &import.name, EntityType::Function(types.number(&import.ty)?));
        }
        let mut functions = FunctionSection::new();
        for definition in &self.live.functions {
            let ty = *get(&self.links.module(definition.module)?.functions, definition.index, "function")?;
            functions.function(self.links.type_index(definition.module, ty)?);
        }
        module.section(&types.section).section(&imports).section(&functions);
        let (tables, elements) = self.tables()?;
        let mut memories = MemorySection::new();
        memories.memory(MemoryType {
            minimum: image.pages.into(),
            maximum: image.maximum,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        module.section(&tables).section(&memories).section(&self.globals()).section(&self.exports()?);
        module.section(&elements).section(&self.code(poll)?);
        if names {
            module.section(&self.names()?);
        }
        Ok(module.finish())
    }

    fn tables(&self) -> Result<(TableSection, ElementSection), FlattenError> {
        let (mut tables, mut elements) = (TableSection::new(), ElementSection::new());
        let Some(table) = self.live.table else { return Ok((tables, elements)) };
        let size = get(&self.links.module(table.module)?.tables, table.index, "table")?.initial;
        tables.table(TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: size,
            maximum: Some(size),
            shared: false,
        });
        let mut run: Vec<u32> = Vec::new();
        let mut start = 0;
        let mut flush = |start: u32, run: &mut Vec<u32>| {
            if !run.is_empty() {
                let offset = ConstExpr::i32_const(start.cast_signed());
                elements.active(None, &offset, Elements::Functions(std::mem::take(run).into()));
            }
        };
        for (slot, function) in self.tables.slots(table) {
            if slot != start + run.len() as u32 {
                flush(start, &mut run);
            }
            if run.is_empty() {
                start = slot;
            }
            run.push(self.number(function)?);
        }
        flush(start, &mut run);
        Ok((tables, elements))
    }

    fn globals(&self) -> GlobalSection {
        let mut section = GlobalSection::new();
        for value in &self.globals.initial {
            let ty = GlobalType { val_type: wasm_encoder::ValType::I32, mutable: true, shared: false };
            section.global(ty, &ConstExpr::i32_const(*value));
        }
        section
    }

    fn exports(&self) -> Result<ExportSection, FlattenError> {
        let mut section = ExportSection::new();
        section.export("memory", ExportKind::Memory, 0);
        section.export("stack_pointer", ExportKind::Global, self.globals.stack_pointer);
        for (number, _) in (0..).zip(&self.globals.initial) {
            section.export(&format!("global_{number}"), ExportKind::Global, number);
        }
        for (name, function) in &self.exports.functions {
            section.export(name, ExportKind::Func, self.number(*function)?);
        }
        Ok(section)
    }

    fn code(&self, poll: &mut Poll) -> Result<CodeSection, FlattenError> {
        let mut section = CodeSection::new();
        for definition in &self.live.functions {
            let body = get(&self.links.module(definition.module)?.bodies, definition.index, "function body")?;
            section.function(&Rewriter::new(self, definition.module).rewrite(body, poll)?);
        }
        Ok(section)
    }

    fn names(&self) -> Result<NameSection, FlattenError> {
        let mut names = HashMap::new();
        for (module, parsed) in self.links.instantiated() {
            let imported = parsed.imports(Kind::Function).len() as u32;
            for (index, name) in &parsed.names {
                if let Some(index) = index.checked_sub(imported) {
                    names.insert(Definition { module, index }, *name);
                }
            }
        }
        let mut map = NameMap::new();
        for definition in &self.live.functions {
            if let Some(name) = names.get(definition) {
                map.append(self.number(Function::Defined(*definition))?, name);
            }
        }
        let mut section = NameSection::new();
        section.functions(&map);
        Ok(section)
    }
}

/// The type section. It begins with the component's types, so that their indices need no second table.
struct Types {
    section: TypeSection,
    known: HashMap<FuncType, u32>,
}

impl Types {
    fn new(types: &[FuncType]) -> Result<Self, FlattenError> {
        let mut written = Self { section: TypeSection::new(), known: HashMap::new() };
        for ty in types {
            written.number(ty)?;
        }
        Ok(written)
    }

    fn number(&mut self, ty: &FuncType) -> Result<u32, FlattenError> {
        if let Some(number) = self.known.get(ty) {
            return Ok(*number);
        }
        let number = self.section.len();
        let encoded = RoundtripReencoder.func_type(ty.clone());
        let reason = |error: wasm_encoder::reencode::Error| error.to_string();
        let encoded = encoded.map_err(|error| FlattenError::Reencode { module: 0, reason: reason(error) })?;
        self.section.ty().func_type(&encoded);
        self.known.insert(ty.clone(), number);
        Ok(number)
    }
}
