//! An agent's loop in small: a session that keeps its variables, a tool, and cells that misbehave.
//!
//! `cargo run --release --example agent -p belljar`
#![expect(clippy::print_stdout, reason = "it is an example")]

use std::time::Duration;

use belljar::{Error, Sandbox, Tool, ToolFailure};

fn main() -> Result<(), Error> {
    let price = Tool::new("price", "The price of a fruit, in cents.", |arguments| {
        match arguments.get("fruit", 0).and_then(|fruit| fruit.as_str()) {
            Some("apple") => Ok(30.into()),
            Some("pear") => Ok(45.into()),
            _ => Err(ToolFailure::new("KeyError", "no such fruit")),
        }
    });
    let sandbox = Sandbox::builder().timeout(Duration::from_millis(200)).tool(price).build_blocking()?;
    let session = sandbox.session_blocking()?;

    for code in [
        "basket = {'apple': 3, 'pear': 2}",
        "sum(tools.price(fruit) * count for fruit, count in basket.items())",
        "tools.price('durian')",
        "while True: pass",
        "basket.clear(); sum(range(10**12))",
        "import os; os._exit(3)",
        "basket",
    ] {
        let outcome = session.run_blocking(code)?;
        let result = match (&outcome.value, &outcome.exception, &outcome.reason) {
            (Some(value), ..) => value.text.clone(),
            (_, Some(raised), None) => format!("{}: {}", raised.kind, raised.message),
            (.., Some(reason)) => reason.clone(),
            _ => String::new(),
        };
        println!("{code:<70} {:?}, {:?}  {result}", outcome.status, outcome.session.state);
    }
    Ok(())
}
