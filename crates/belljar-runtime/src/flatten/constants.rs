//! Evaluates constant expressions: `global.get __memory_base; i32.const 16; i32.add`.

use wasmparser::{ConstExpr, Operator, ValType};

use super::{
    component::{get, variant},
    error::FlattenError,
    resolve::{Definition, Links},
};

/// How many globals may depend on each other. Real components have two.
const DEPTH: u32 = 64;

pub(super) fn global(links: &Links<'_>, global: Definition) -> Result<i32, FlattenError> {
    global_within(links, global, DEPTH)
}

pub(super) fn evaluate(
    links: &Links<'_>,
    module: u32,
    expression: &ConstExpr<'_>,
) -> Result<i32, FlattenError> {
    evaluate_within(links, module, expression, DEPTH)
}

fn global_within(links: &Links<'_>, global: Definition, depth: u32) -> Result<i32, FlattenError> {
    let Definition { module, index } = global;
    let parsed = get(&links.module(module)?.globals, index, "global")?;
    if parsed.ty.content_type != ValType::I32 {
        return Err(FlattenError::GlobalType { module, index, ty: parsed.ty.content_type });
    }
    evaluate_within(links, module, &parsed.init_expr, depth)
}

fn evaluate_within(
    links: &Links<'_>,
    module: u32,
    expression: &ConstExpr<'_>,
    depth: u32,
) -> Result<i32, FlattenError> {
    let refuse =
        |instruction: &str| FlattenError::ConstantExpression { module, instruction: instruction.to_owned() };
    let mut stack = Vec::new();
    for operator in expression.get_operators_reader() {
        let operator = operator?;
        match operator {
            Operator::I32Const { value } => stack.push(value),
            Operator::GlobalGet { global_index } => {
                let depth = depth.checked_sub(1).ok_or_else(|| refuse("globals nested too deep"))?;
                stack.push(global_within(links, links.global(module, global_index)?, depth)?);
            }
            Operator::I32Add | Operator::I32Sub | Operator::I32Mul => {
                let (Some(right), Some(left)) = (stack.pop(), stack.pop()) else {
                    return Err(refuse("too few operands"));
                };
                stack.push(match operator {
                    Operator::I32Add => i32::wrapping_add(left, right),
                    Operator::I32Sub => i32::wrapping_sub(left, right),
                    _ => i32::wrapping_mul(left, right),
                });
            }
            Operator::End => break,
            other => return Err(refuse(&variant(&other))),
        }
    }
    match stack[..] {
        [value] => Ok(value),
        _ => Err(refuse("no single value")),
    }
}
