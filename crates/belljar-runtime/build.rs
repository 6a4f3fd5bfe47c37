//! Embeds the guest kernel, names the runtime after all that goes into it, and packs a made runtime on
//! request.

use std::{
    error::Error,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let crate_root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let guest = crate_root.join("../../guest");
    let mut files = Vec::new();
    collect(&guest, &mut files)?;
    let mut makers = vec![crate_root.join("src/flatten.rs"), crate_root.join("src/make.rs")];
    for directory in ["src/flatten", "src/make"] {
        println!("cargo::rerun-if-changed={directory}");
        collect(&crate_root.join(directory), &mut makers)?;
    }
    let mut hasher = blake3::Hasher::new();
    let mut listing = String::new();
    for path in &files {
        let name = path.strip_prefix(&guest)?.to_str().ok_or("a kernel file's name isn't UTF-8")?;
        hash(&mut hasher, name, &fs::read(path)?);
        writeln!(listing, "    ({name:?}, include_bytes!({path:?})),")?;
    }
    for path in &makers {
        let name = path.strip_prefix(&crate_root)?.to_str().ok_or("a source file's name isn't UTF-8")?;
        println!("cargo::rerun-if-changed={name}");
        hash(&mut hasher, name, &fs::read(path)?);
    }
    println!("cargo::rerun-if-changed={}", guest.display());
    let id = &hasher.finalize().to_hex()[..32];
    let kernel =
        format!("pub(super) const ID: &str = {id:?};\n\nconst FILES: &[(&str, &[u8])] = &[\n{listing}];\n");
    fs::write(out.join("kernel.rs"), kernel)?;
    #[cfg(feature = "embed")]
    embed::pack(id, &out.join("runtime.tar.zst"))?;
    Ok(())
}

/// The Python, WIT and Rust files below a directory, sorted, but no tests.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    let mut found = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    found.sort();
    for path in found {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && name != "tests" && name != "__pycache__" {
                collect(&path, files)?;
            }
        } else if [".py", ".wit", ".rs"].iter().any(|ending| name.ends_with(ending)) {
            files.push(path);
        }
    }
    Ok(())
}

fn hash(hasher: &mut blake3::Hasher, name: &str, content: &[u8]) {
    for part in [name.as_bytes(), content] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
}

#[cfg(feature = "embed")]
mod embed {
    use std::{error::Error, fs::File, path::Path};

    /// Names a runtime that was made by the same sources: a cache entry, called by its id.
    const VARIABLE: &str = "BELLJAR_EMBED_RUNTIME";

    /// The runtime is compressed once and unpacked on many machines.
    const COMPRESSION: i32 = 15;

    pub(crate) fn pack(id: &str, archive: &Path) -> Result<(), Box<dyn Error>> {
        println!("cargo::rerun-if-env-changed={VARIABLE}");
        let file = File::create(archive)?;
        let Some(runtime) = std::env::var_os(VARIABLE) else { return Ok(()) };
        let runtime = Path::new(&runtime);
        if runtime.file_name().is_none_or(|name| name != id) {
            return Err(format!("{VARIABLE} is {}, but this build needs {id}", runtime.display()).into());
        }
        let mut builder = tar::Builder::new(zstd::Encoder::new(file, COMPRESSION)?);
        // The component would double the size, and only tests read it.
        for name in ["core.wasm", "base.img", "runtime.json"] {
            builder.append_path_with_name(runtime.join(name), name)?;
        }
        for name in ["stdlib", "zoneinfo"] {
            builder.append_dir_all(name, runtime.join(name))?;
        }
        builder.into_inner()?.finish()?;
        Ok(())
    }
}
