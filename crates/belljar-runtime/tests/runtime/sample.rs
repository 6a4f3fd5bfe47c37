//! A component in the layout that componentize-py makes, small enough to read: a base module with memory,
//! table and stubs; a library; a module that fills the table; a shim and a fix-up module around the one
//! imported function.

use wasm_encoder::{
    BlockType, CanonicalOption, CodeSection, ComponentBuilder, ComponentExportKind, ComponentTypeRef,
    ComponentValType, ConstExpr, DataSection, ElementSection, Elements, EntityType, ExportKind,
    ExportSection, Function, FunctionSection, GlobalSection, GlobalType, HeapType, ImportSection,
    Instruction as I, MemorySection, MemoryType, Module, ModuleArg, PrimitiveValType, RefType, StartSection,
    TableSection, TableType, TypeSection, ValType,
};

/// Where the sample's data is: `__memory_base` is 1024, the segment is 16 behind it.
pub(crate) const DATA: (usize, &[u8]) = (1040, b"under glass");
/// The initial size of the memory.
pub(crate) const PAGES: u32 = 2;
/// The initial stack pointer.
pub(crate) const STACK: i32 = 4096;
/// The value of a global that only dead code sets.
pub(crate) const FOLDED: i32 = 77;

/// The ways in which a sample can differ from what the flattener knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Oddity {
    StartFunction,
    PassiveData,
    DataOutside,
    SecondMemory,
    WideGlobal,
    TableChanged,
    Utf16,
    InstantiatedTwice,
    NoStackPointer,
    UnknownConstant,
    DeclaredElements,
    ResourceNew,
}

pub(crate) fn component(oddity: Option<Oddity>) -> Vec<u8> {
    let is = |other| oddity == Some(other);
    let mut component = ComponentBuilder::default();
    let (bytes, ty) = component.type_defined(None);
    ty.list(ComponentValType::Primitive(PrimitiveValType::U8));
    let (function, mut ty) = component.type_function(None);
    ty.params([("frame", ComponentValType::Type(bytes))]).result(Some(ComponentValType::Type(bytes)));
    let exchange = component.import("exchange", ComponentTypeRef::Func(function));

    let base = component.core_module(None, &base(is(Oddity::NoStackPointer)));
    let shim = component.core_module(None, &shim());
    let library = component.core_module(None, &library(is(Oddity::TableChanged)));
    let filler = component.core_module(None, &filler());
    let fixup = component.core_module(None, &fixup());

    let base = component.core_instantiate(None, base, NOTHING);
    let shim = component.core_instantiate(None, shim, NOTHING);
    let shimmed = component.core_alias_export(None, shim, "0", ExportKind::Func);
    let root = component.core_instantiate_exports(None, [("exchange", ExportKind::Func, shimmed)]);
    let arguments = [("env", ModuleArg::Instance(base)), ("$root", ModuleArg::Instance(root))];
    if is(Oddity::InstantiatedTwice) {
        component.core_instantiate(None, library, arguments);
    }
    let library = component.core_instantiate(None, library, arguments);
    let arguments = [("env", ModuleArg::Instance(base)), ("library", ModuleArg::Instance(library))];
    component.core_instantiate(None, filler, arguments);
    if let Some(odd) = oddity.and_then(odd_module) {
        let odd = component.core_module(None, &odd);
        component.core_instantiate(None, odd, [("env", ModuleArg::Instance(base))]);
    }

    let memory = component.core_alias_export(None, base, "memory", ExportKind::Memory);
    let realloc = component.core_alias_export(None, library, "cabi_realloc", ExportKind::Func);
    let text = if is(Oddity::Utf16) { CanonicalOption::UTF16 } else { CanonicalOption::UTF8 };
    let options = [text, CanonicalOption::Memory(memory), CanonicalOption::Realloc(realloc)];
    let lowered = component.lower_func(None, exchange, options);
    let slots = component.core_alias_export(None, shim, "$imports", ExportKind::Table);
    let items = [("$imports", ExportKind::Table, slots), ("0", ExportKind::Func, lowered)];
    let items = component.core_instantiate_exports(None, items);
    component.core_instantiate(None, fixup, [("", ModuleArg::Instance(items))]);
    if is(Oddity::ResourceNew) {
        let resource = component.type_resource(None, ValType::I32, None);
        component.resource_new(resource);
    }

    let handle = component.core_alias_export(None, library, "handle", ExportKind::Func);
    let post = component.core_alias_export(None, library, "cabi_post_handle", ExportKind::Func);
    let options = [
        CanonicalOption::Memory(memory),
        CanonicalOption::Realloc(realloc),
        CanonicalOption::PostReturn(post),
    ];
    let handle = component.lift_func(None, handle, function, options);
    component.export("handle", ComponentExportKind::Func, handle, None);
    component.finish()
}

/// Memory, table and globals, and a stub that calls the library's helper through the table's slot 1.
fn base(no_stack_pointer: bool) -> Module {
    let mut memories = MemorySection::new();
    memories.memory(memory());
    let mut globals = GlobalSection::new();
    globals.global(global(true), &ConstExpr::i32_const(STACK));
    globals.global(global(false), &ConstExpr::i32_const(1024));
    globals.global(global(true), &ConstExpr::i32_const(FOLDED));
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0).export("table", ExportKind::Table, 0);
    if !no_stack_pointer {
        exports.export("__stack_pointer", ExportKind::Global, 0);
    }
    exports.export("stack", ExportKind::Global, 0).export("__memory_base", ExportKind::Global, 1);
    exports.export("offset", ExportKind::Global, 2).export("helper", ExportKind::Func, 0);
    let stub = [I::LocalGet(0), I::I32Const(1), I::CallIndirect { type_index: 0, table_index: 0 }];
    let mut module = Module::new();
    module.section(&types(&[(1, 1)])).section(&functions(&[0])).section(&tables(4)).section(&memories);
    module.section(&globals).section(&exports).section(&code(&[&stub]));
    module
}

/// `handle` sets the stack pointer, loops, calls the host, and calls its helper through the base module's
/// stub.
fn library(changes_table: bool) -> Module {
    let mut imports = ImportSection::new();
    imports.import("env", "memory", memory()).import("env", "table", table(4));
    imports.import("env", "stack", global(true)).import("env", "__memory_base", global(false));
    imports.import("env", "offset", global(true)).import("env", "helper", EntityType::Function(0));
    imports.import("$root", "exchange", EntityType::Function(4));
    let mut exports = ExportSection::new();
    for (name, index) in [("handle", 2), ("cabi_post_handle", 3), ("cabi_realloc", 4), ("real_helper", 5)] {
        exports.export(name, ExportKind::Func, index);
    }
    let mut handle =
        vec![I::GlobalGet(0), I::GlobalSet(0), I::Loop(BlockType::Empty), I::LocalGet(0), I::BrIf(0)];
    handle.extend([I::End, I::LocalGet(0), I::LocalGet(1), I::GlobalGet(2), I::Call(1)]);
    if changes_table {
        handle.extend([I::I32Const(0), I::RefNull(HeapType::FUNC), I::TableSet(0)]);
    }
    handle.extend([I::LocalGet(0), I::Call(0)]);
    let dead = [I::LocalGet(0), I::GlobalSet(2), I::I32Const(0)];
    let mut data = DataSection::new();
    let offset = ConstExpr::extended([I::GlobalGet(1), I::I32Const(16), I::I32Add]);
    data.active(0, &offset, DATA.1.iter().copied());
    let mut module = Module::new();
    module.section(&types(&[(1, 1), (2, 1), (1, 0), (4, 1), (3, 0)])).section(&imports);
    module.section(&functions(&[1, 2, 3, 0, 0])).section(&exports);
    module.section(&code(&[&handle, &[], &[I::I32Const(2048)], &[I::LocalGet(0)], &dead])).section(&data);
    module
}

/// Puts the library's helper into slot 1.
fn filler() -> Module {
    let mut imports = ImportSection::new();
    imports.import("env", "table", table(4)).import("library", "real_helper", EntityType::Function(0));
    let mut module = Module::new();
    module.section(&types(&[(1, 1)])).section(&imports).section(&elements(1));
    module
}

fn shim() -> Module {
    let mut exports = ExportSection::new();
    exports.export("0", ExportKind::Func, 0).export("$imports", ExportKind::Table, 0);
    let call = I::CallIndirect { type_index: 0, table_index: 0 };
    let stub = [I::LocalGet(0), I::LocalGet(1), I::LocalGet(2), I::I32Const(0), call];
    let mut module = Module::new();
    module.section(&types(&[(3, 0)])).section(&functions(&[0])).section(&tables(1)).section(&exports);
    module.section(&code(&[&stub]));
    module
}

fn fixup() -> Module {
    let mut imports = ImportSection::new();
    imports.import("", "$imports", table(1)).import("", "0", EntityType::Function(0));
    let mut module = Module::new();
    module.section(&types(&[(3, 0)])).section(&imports).section(&elements(0));
    module
}

/// A further module that has only what is odd.
fn odd_module(oddity: Oddity) -> Option<Module> {
    let mut module = Module::new();
    let mut imports = ImportSection::new();
    imports.import("env", "memory", memory());
    let mut data = DataSection::new();
    match oddity {
        Oddity::StartFunction => {
            module.section(&types(&[(0, 0)])).section(&functions(&[0]));
            module.section(&StartSection { function_index: 0 }).section(&code(&[&[]]));
        }
        Oddity::SecondMemory => {
            let mut memories = MemorySection::new();
            memories.memory(memory());
            module.section(&memories);
        }
        Oddity::WideGlobal => {
            let mut globals = GlobalSection::new();
            let ty = GlobalType { val_type: ValType::I64, mutable: false, shared: false };
            globals.global(ty, &ConstExpr::i64_const(1));
            module.section(&globals);
        }
        Oddity::UnknownConstant => {
            let mut globals = GlobalSection::new();
            let ty = GlobalType { val_type: ValType::F32, mutable: false, shared: false };
            globals.global(ty, &ConstExpr::f32_const(1.0.into()));
            module.section(&globals);
        }
        Oddity::PassiveData => {
            data.passive(*b"data");
            module.section(&imports).section(&data);
        }
        Oddity::DataOutside => {
            data.active(0, &ConstExpr::i32_const(-2), *b"data");
            module.section(&imports).section(&data);
        }
        Oddity::DeclaredElements => {
            let mut elements = ElementSection::new();
            elements.declared(Elements::Functions((&[0]).into()));
            module
                .section(&types(&[(0, 0)]))
                .section(&functions(&[0]))
                .section(&elements)
                .section(&code(&[&[]]));
        }
        _ => return None,
    }
    Some(module)
}

const NOTHING: [(&str, ModuleArg); 0] = [];

fn memory() -> MemoryType {
    MemoryType { minimum: PAGES.into(), maximum: None, memory64: false, shared: false, page_size_log2: None }
}

fn global(mutable: bool) -> GlobalType {
    GlobalType { val_type: ValType::I32, mutable, shared: false }
}

fn table(size: u64) -> TableType {
    TableType { element_type: RefType::FUNCREF, table64: false, minimum: size, maximum: None, shared: false }
}

fn tables(size: u64) -> TableSection {
    let mut section = TableSection::new();
    section.table(table(size));
    section
}

/// Function 0, at `offset`.
fn elements(offset: i32) -> ElementSection {
    let mut section = ElementSection::new();
    section.active(None, &ConstExpr::i32_const(offset), Elements::Functions((&[0]).into()));
    section
}

/// Each by the number of its parameters and results, all i32.
fn types(counts: &[(usize, usize)]) -> TypeSection {
    let mut section = TypeSection::new();
    for (params, results) in counts {
        section.ty().function(vec![ValType::I32; *params], vec![ValType::I32; *results]);
    }
    section
}

fn functions(types: &[u32]) -> FunctionSection {
    let mut section = FunctionSection::new();
    for ty in types {
        section.function(*ty);
    }
    section
}

fn code(bodies: &[&[I<'_>]]) -> CodeSection {
    let mut section = CodeSection::new();
    for body in bodies {
        let mut function = Function::new([]);
        for instruction in *body {
            function.instruction(instruction);
        }
        section.function(function.instruction(&I::End));
    }
    section
}
