//! Makes a site for a Python of this machine, and says how long each step took.
//!
//! `cargo run --release -p belljar-packages --example native_site -- CACHE SPEC…`

use std::{error::Error, path::Path, time::Instant};

use belljar_packages::{HostPython, Resolver, Spec};
use belljar_runtime::{Cache, Quiet};

#[expect(clippy::print_stdout, reason = "it is what the example is for")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let cache = Cache::open(arguments.next().ok_or("name a directory for the cache")?);
    let specs = arguments.map(|text| Spec::parse(&text, Path::new(""))).collect::<Result<Vec<_>, _>>()?;
    let path: Vec<_> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let start = Instant::now();
    let python = HostPython::find(None, &path, &cache)?;
    println!("{} ({}): {:?}", python.program().display(), python.platform.version, start.elapsed());
    let resolver = Resolver::new(cache).search(path).target(python.target());
    let start = Instant::now();
    let lock = resolver.lock(&specs, &Quiet)?;
    println!("locked {} packages: {:?}", lock.packages().count(), start.elapsed());
    let start = Instant::now();
    let site = match resolver.find(&lock, &python) {
        Some(site) => site,
        None => resolver.install(&lock, &python, &Quiet)?,
    };
    println!("{}, {} MB: {:?}", site.directory.display(), site.bytes / 1_000_000, start.elapsed());
    Ok(())
}
