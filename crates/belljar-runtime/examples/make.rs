//! Makes a runtime by hand: `make CACHE [offline]`.

use std::{
    error::Error,
    sync::Mutex,
    time::{Duration, Instant},
};

use belljar_runtime::{Cache, Maker, Progress};

struct Steps(Mutex<Option<(String, Instant)>>);

#[expect(clippy::print_stdout, reason = "a tool for the terminal")]
impl Progress for Steps {
    fn begin(&self, step: &str, _: Duration) {
        *self.0.lock().expect("no panic") = Some((step.to_owned(), Instant::now()));
    }

    fn advance(&self, _: f32) {}

    fn end(&self) {
        if let Some((step, start)) = self.0.lock().expect("no panic").take() {
            println!("{:7.2} s  {step}", start.elapsed().as_secs_f32());
        }
    }
}

#[expect(clippy::print_stdout, reason = "a tool for the terminal")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cache = Cache::open(arguments.first().ok_or("usage: make CACHE [offline]")?);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let offline = arguments.get(1).is_some_and(|argument| argument == "offline");
    let maker = Maker::new(cache.clone()).search(std::env::split_paths(&path)).offline(offline);
    let start = Instant::now();
    let made = maker.ensure(&Steps(Mutex::new(None)));
    let runtime = made.map_err(|error| format!("{error}\n{}", error.hint()))?;
    println!("{:7.2} s  in all: {}", start.elapsed().as_secs_f32(), runtime.root.display());
    let start = Instant::now();
    let found = maker.find().is_some();
    println!("{:7.0} µs found again: {found}", start.elapsed().as_secs_f64() * 1e6);
    for entry in cache.entries()? {
        println!("{:9} kB {}/{}", entry.bytes / 1000, entry.kind, entry.key);
    }
    cache.verify(&runtime.root)?;
    Ok(())
}
