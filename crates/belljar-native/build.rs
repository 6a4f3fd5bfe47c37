//! Builds the jail's binary, which must be static: it runs where there is no C library.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..");
    let jail = crates.join("belljar-jail");
    for watched in ["belljar-jail", "../guest/belljar_guest", "../guest/belljar_native", "../Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", crates.join(watched).display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let binary = out.join("belljar-jail");
    if env::var("CARGO_CFG_TARGET_OS")? == "linux" {
        build(&jail, out, &binary)?;
    } else {
        fs::write(&binary, [])?;
    }
    embed(&crates.join("../guest"), out)
}

fn build(jail: &Path, out: &Path, binary: &Path) -> Result<(), Box<dyn Error>> {
    let target = env::var("TARGET")?;
    let directory = out.join("jail-target");
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .current_dir(jail)
        .args(["build", "--release", "--quiet", "--package", "belljar-jail", "--bin", "belljar-jail"])
        .args(["--target", &target, "--target-dir"])
        .arg(&directory)
        // Of the build that this is a part of.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET_DIR")
        .env_remove("CARGO_TARGET_DIR")
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static");
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("the jail's binary could not be built: {status}").into());
    }
    fs::copy(directory.join(target).join("release/belljar-jail"), binary)?;
    Ok(())
}

/// Writes a table of the guest's files: name, contents and whether it is a program. What stands in for pip and others is
/// beside the kernel's packages, since it is seen by all.
fn embed(guest: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut table = String::from("&[\n");
    for (directory, seen, program) in [
        ("belljar_guest", "belljar_guest", false),
        ("belljar_native", "belljar_native", false),
        ("belljar_native/bin", "bin", true),
        ("belljar_native/fallback", "fallback", true),
        ("belljar_native/shims/belljar_install", "shims/belljar_install", false),
        ("belljar_native/shims/pip", "shims/pip", false),
        ("belljar_native/shims/venv", "shims/venv", false),
    ] {
        let mut files: Vec<_> = fs::read_dir(guest.join(directory))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| {
                path.is_file() && (program || path.extension().is_some_and(|extension| extension == "py"))
            })
            .collect();
        files.sort();
        for file in files {
            let name = file.file_name().and_then(|name| name.to_str()).ok_or("a name that isn't text")?;
            let path = fs::canonicalize(&file)?;
            table.push_str(&format!("    (\"{seen}/{name}\", include_bytes!({path:?}), {program}),\n"));
        }
    }
    table.push_str("]\n");
    Ok(fs::write(out.join("guest.rs"), table)?)
}
