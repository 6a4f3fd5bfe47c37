//! Flattens a component by hand: `flatten COMPONENT DIRECTORY [none|call|trap] [names]`.

use std::{error::Error, fs, path::Path, time::Instant};

use belljar_runtime::flatten::{Options, Polls, flatten};

#[expect(clippy::print_stdout, reason = "a tool for the terminal")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [component, directory, rest @ ..] = arguments.as_slice() else {
        return Err("usage: flatten COMPONENT DIRECTORY [none|call|trap] [names]".into());
    };
    let polls = match rest.first().map(String::as_str) {
        None | Some("call") => Polls::Call,
        Some("none") => Polls::None,
        Some("trap") => Polls::Trap,
        Some(other) => return Err(format!("no such kind of polls: {other}").into()),
    };
    let names = rest.get(1).is_some_and(|argument| argument == "names");
    let component = fs::read(component)?;
    let start = Instant::now();
    let options = Options { polls, names, python: "3.14.0", ..Options::default() };
    let flat = flatten(&component, &options).map_err(|error| format!("{error}\n{}", error.hint()))?;
    let elapsed = start.elapsed();
    let directory = Path::new(directory);
    fs::create_dir_all(directory)?;
    fs::write(directory.join("core.wasm"), &flat.core)?;
    fs::write(directory.join("base.img"), &flat.image)?;
    fs::write(directory.join("runtime.json"), serde_json::to_vec_pretty(&flat.facts)?)?;
    println!(
        "{} functions, {} imports, {} globals, {} polled loops; module {} bytes, image {} bytes; {elapsed:?}",
        flat.facts.functions,
        flat.facts.imports.len(),
        flat.facts.mutable_globals,
        flat.facts.polled_loops,
        flat.core.len(),
        flat.image.len(),
    );
    Ok(())
}
