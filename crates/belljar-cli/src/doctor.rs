//! `belljar doctor`.

mod check;
mod host;
mod interpreter;
mod native;

use std::process::ExitCode;

use serde_json::json;

use self::check::{Check, Health};
use crate::arguments::DoctorArguments;
use crate::console;

pub(crate) fn run(arguments: DoctorArguments) -> anyhow::Result<ExitCode> {
    let DoctorArguments { json, runtime } = arguments;
    let runtimes = runtime.runtimes()?;
    let mut checks = Vec::new();
    let mut tell = |check: Check| {
        if !json {
            // At once: the last check may take a minute.
            console::print_line(&check.to_string());
        }
        checks.push(check);
    };
    host::check(&mut tell);
    interpreter::check(&runtimes, json, &mut tell);

    let works = checks.iter().all(|check| check.health != Health::Bad);
    // Whatever is missing there, the default engine doesn't need it.
    let layers = belljar::native_layers();
    if json {
        let native = json!({ "layers": layers });
        console::print_line(&json!({ "works": works, "checks": checks, "native": native }).to_string());
    } else {
        console::print_line("\nnative engine (--engine native):");
        for check in native::checks(&layers) {
            console::print_line(&check.to_string());
        }
        console::print_line(if works {
            "\n`belljar run` works here."
        } else {
            "\n`belljar run` does not work here."
        });
    }
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
