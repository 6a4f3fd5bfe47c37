//! Writes function bodies again, with the flat module's numbers in place of their own.

use wasm_encoder::{
    Function, Instruction,
    reencode::{self, Reencode, utils},
};
use wasmparser::{FunctionBody, Operator};

use super::{component::get, emit::Plan, error::FlattenError, polls::Poll, resolve::Function as Defined};

/// Its number in WASI.
const EIO: i32 = 29;

type Result<T, E = reencode::Error<FlattenError>> = std::result::Result<T, E>;

pub(super) struct Rewriter<'p> {
    plan: &'p Plan<'p>,
    module: u32,
}

impl<'p> Rewriter<'p> {
    pub(super) fn new(plan: &'p Plan<'p>, module: u32) -> Self {
        Self { plan, module }
    }

    pub(super) fn rewrite(
        mut self,
        body: &FunctionBody<'_>,
        poll: &mut Poll,
    ) -> Result<Function, FlattenError> {
        let module = self.module;
        self.write(body, poll).map_err(|error| match error {
            reencode::Error::UserError(error) => error,
            reencode::Error::ParseError(error) => FlattenError::Invalid(error),
            other => FlattenError::Reencode { module, reason: other.to_string() },
        })
    }

    fn write(&mut self, body: &FunctionBody<'_>, poll: &mut Poll) -> Result<Function> {
        let mut function = self.new_function_with_parsed_locals(body)?;
        let mut called = None;
        for operator in body.get_operators_reader()? {
            let operator = operator?;
            // libc drops the error of a stream and says `EIO`, whatever it was: here the host says what.
            if let (Some(index), Operator::I32Const { value: EIO }) = (called.take(), &operator)
                && self.drops_error(index)?
            {
                poll.write_error(&mut function);
                continue;
            }
            if let Operator::Call { function_index } = operator {
                called = Some(function_index);
            }
            let is_loop = matches!(operator, Operator::Loop { .. });
            function.instruction(&self.instruction(operator)?);
            if is_loop {
                poll.write(&mut function);
            }
        }
        Ok(function)
    }

    /// Whether a function drops what a stream failed with: the host's, or one that does nothing else.
    fn drops_error(&self, index: u32) -> Result<bool> {
        let Plan { links, stubs, .. } = self.plan;
        let target = |module, index| -> Result<Defined> {
            Ok(stubs.target(links.function(module, index).map_err(own)?))
        };
        let drops = |function: Defined| match function {
            Defined::Host(number) => {
                let host = links.component.hosts.get(number as usize);
                host.is_some_and(|host| {
                    host.module.starts_with("wasi:io/error@") && host.name == "[resource-drop]error"
                })
            }
            Defined::Defined(_) => false,
        };
        let Defined::Defined(definition) = target(self.module, index)? else {
            return Ok(drops(target(self.module, index)?));
        };
        let bodies = &links.module(definition.module).map_err(own)?.bodies;
        let body = get(bodies, definition.index, "function body").map_err(own)?;
        let mut operators = body.get_operators_reader()?.into_iter();
        match (operators.next().transpose()?, operators.next().transpose()?, operators.next().transpose()?) {
            (
                Some(Operator::LocalGet { local_index: 0 }),
                Some(Operator::Call { function_index }),
                Some(Operator::End),
            ) => Ok(drops(target(definition.module, function_index)?)),
            _ => Ok(false),
        }
    }

    fn refuse<T>(&self, reason: &str) -> Result<T> {
        Err(own(FlattenError::Reencode { module: self.module, reason: reason.to_owned() }))
    }
}

impl Reencode for Rewriter<'_> {
    type Error = FlattenError;

    fn function_index(&mut self, index: u32) -> Result<u32> {
        let function = self.plan.links.function(self.module, index);
        function.and_then(|function| self.plan.number(function)).map_err(own)
    }

    fn global_index(&mut self, index: u32) -> Result<u32> {
        let global = self.plan.links.global(self.module, index);
        global.and_then(|global| self.plan.globals.number(global)).map_err(own)
    }

    fn type_index(&mut self, index: u32) -> Result<u32> {
        self.plan.links.type_index(self.module, index).map_err(own)
    }

    /// One table is left, and `live` refuses code that uses another.
    fn table_index(&mut self, _: u32) -> Result<u32> {
        Ok(0)
    }

    fn memory_index(&mut self, _: u32) -> Result<u32> {
        Ok(0)
    }

    fn data_index(&mut self, _: u32) -> Result<u32> {
        self.refuse("it uses a data segment at run time")
    }

    fn element_index(&mut self, _: u32) -> Result<u32> {
        self.refuse("it uses an element segment at run time")
    }

    fn instruction<'a>(&mut self, operator: Operator<'a>) -> Result<Instruction<'a>> {
        if let Operator::GlobalGet { global_index } = operator {
            let global = self.plan.links.global(self.module, global_index).map_err(own)?;
            if let Some(value) = self.plan.globals.constant(global) {
                return Ok(Instruction::I32Const(value));
            }
        }
        utils::instruction(self, operator)
    }
}

fn own(error: FlattenError) -> reencode::Error<FlattenError> {
    reencode::Error::UserError(error)
}
