use wasmparser::ValType;

/// Why a component was not flattened. Nothing was written; the component itself is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlattenError {
    /// The input fails validation.
    #[error("not a valid component: {0}")]
    Invalid(#[from] wasmparser::Error),
    /// A section that no component of the expected layout has.
    #[error("the component has a {0}, which the flattener doesn't know")]
    Section(&'static str),
    /// An item is imported or exported that isn't a function, a type or an instance of functions.
    #[error("the component {direction} `{name}`, a {kind}")]
    ComponentItem {
        /// `imports`, `exports` or `aliases`.
        direction: &'static str,
        /// The item's name.
        name: String,
        /// What it is.
        kind: String,
    },
    /// A canonical function other than lift, lower and resource.drop.
    #[error("unknown canonical function {0}")]
    CanonicalFunction(String),
    /// A canonical option that the engine's host functions don't speak.
    #[error("unknown canonical option {option} on `{function}`")]
    CanonicalOption {
        /// The lifted or lowered function.
        function: String,
        /// The option.
        option: String,
    },
    /// A lowered function or a dropped resource that isn't an import.
    #[error("canonical function on {0}, which the component doesn't import")]
    NotImported(String),
    /// A module that would run code when instantiated.
    #[error("core module {0} has a start function")]
    StartFunction(u32),
    /// Each module must be one instance, since instances share their module's code here.
    #[error("core module {0} is instantiated twice")]
    InstantiatedTwice(u32),
    /// An import that no instantiation argument provides.
    #[error("core module {module} imports `{from}` `{name}`, which nothing provides")]
    UnresolvedImport {
        /// The importing core module.
        module: u32,
        /// The first half of the import's name.
        from: String,
        /// The second half.
        name: String,
    },
    /// The same host function is imported with two signatures.
    #[error("`{module}` `{name}` is imported with different types")]
    ImportTypes {
        /// The first half of the import's name.
        module: String,
        /// The second half.
        name: String,
    },
    /// A passive or declared segment, or one of expressions instead of function indices.
    #[error("{what} {segment} of core module {module} is {how}")]
    Segment {
        /// `data segment` or `element segment`.
        what: &'static str,
        /// The core module.
        module: u32,
        /// The segment's index.
        segment: usize,
        /// What is unexpected about it.
        how: &'static str,
    },
    /// A constant expression with something else than i32 arithmetic and globals.
    #[error("constant expression of core module {module} has {instruction}")]
    ConstantExpression {
        /// The core module.
        module: u32,
        /// The offending instruction.
        instruction: String,
    },
    /// A global whose type isn't i32.
    #[error("global {index} of core module {module} is {ty}, not i32")]
    GlobalType {
        /// The core module.
        module: u32,
        /// The global's index among the module's own.
        index: u32,
        /// Its type.
        ty: ValType,
    },
    /// Exactly one memory is expected.
    #[error("{0} memories instead of one")]
    Memories(usize),
    /// A memory that is 64-bit, shared, or larger than an image should be.
    #[error("the memory {0}")]
    Memory(&'static str),
    /// Exactly one table may be left once calls through constant slots are direct.
    #[error("live code calls through two tables")]
    SeveralTables,
    /// Code that changes a table, so that its contents aren't known.
    #[error("core module {module} changes a table with {instruction}")]
    TableChanged {
        /// The core module.
        module: u32,
        /// The offending instruction.
        instruction: String,
    },
    /// A function that the engine needs is missing.
    #[error("no core module exports `{0}`")]
    MissingExport(String),
    /// Two exports would have the same name.
    #[error("two exports are named `{0}`")]
    DuplicateExport(String),
    /// More allocators than the engine has names for.
    #[error("{0} allocators in canonical options; the exports and the WASI imports may have one each")]
    Reallocs(usize),
    /// An instruction that can't be written again.
    #[error("core module {module} can't be written again: {reason}")]
    Reencode {
        /// The core module.
        module: u32,
        /// What the encoder said.
        reason: String,
    },
    /// An index leads nowhere. Validation should have found it first.
    #[error("{what} {index} doesn't exist")]
    Index {
        /// What the index counts.
        what: &'static str,
        /// The index.
        index: u32,
    },
    /// The result fails validation: a bug in the flattener.
    #[error("the flattened module is not valid: {0}")]
    Output(#[source] wasmparser::Error),
}

impl FlattenError {
    /// What to do about it, if anything.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "the component is damaged: make it again",
            Self::Output(_) | Self::Index { .. } => "this is a bug in Belljar's flattener: please report it",
            _ => "the flattener knows the layout of componentize-py's pinned version only",
        }
    }
}
