//! Compiles C extensions for the guest, with a compiler from the package index.

use std::error::Error;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use belljar::{Quiet, Runtimes};

/// The compiler, as pip is asked for it, with the hashes of its wheels for Linux and macOS.
const COMPILER: &str = "ziglang==0.17.0 \
    --hash=sha256:97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b \
    --hash=sha256:d2804f94f54f7fcf8169f4b212a619ad688a4e2e6592e976f0cf2e58e2cd8af3 \
    --hash=sha256:87274af689c4128051b26c80f6f676757e0a81c2fdc137fd8b5679e928e4bc4f \
    --hash=sha256:4d910f0e363ddb60a6b8ddb55235617797a8ccbcb6c5c7132a949d9f833eea42\n";
/// Where it is kept in the cache, and its version.
const TOOL: (&str, &str) = ("test-compiler", "ziglang-0.17.0");
const PACKAGES: &str = "packages";

/// Where compiled modules are kept.
const MODULES: &str = "test-modules";
const FILE: &str = "module.so";

const COMPILE: &[&str] = &["cc", "-target", "wasm32-wasi", "-fPIC", "-O2", "-Wall", "-Werror", "-c"];
const LINK: &[&str] = &[
    "wasm-ld",
    "-m",
    "wasm32",
    "--experimental-pic",
    "-shared",
    "--export-dynamic",
    "--strip-all",
    // The interpreter has them, and is linked with the module later.
    "--unresolved-symbols=import-dynamic",
];

/// Compiles a C extension: what belongs into `<module>.cpython-314-wasm32-wasi.so`.
///
/// What was compiled before is in the cache; for anything else the compiler is fetched, once (100 MB).
pub fn compile_extension(source: &str, module: &str) -> Vec<u8> {
    // Tests run at the same time, and would fetch it at the same time.
    static COMPILING: Mutex<()> = Mutex::new(());
    let _turn = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    compile(source, module).unwrap_or_else(|error| panic!("{module} could not be compiled: {error}"))
}

fn compile(source: &str, module: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let cache = Runtimes::default().cache()?;
    let mut hasher = DefaultHasher::new();
    (COMPILER, COMPILE, LINK, source).hash(&mut hasher);
    let key = format!("{module}-{:016x}", hasher.finish());
    let made = cache.make(MODULES, &key, &Quiet, |directory| {
        let tool = cache.make(TOOL.0, TOOL.1, &Quiet, fetch)?;
        build(&tool.join(PACKAGES).join("ziglang/zig"), source, module, directory)
    })?;
    Ok(fs::read(made.join(FILE))?)
}

fn fetch(directory: &Path) -> Result<(), Box<dyn Error>> {
    // Past what a test's output is caught with: it takes a while.
    writeln!(io::stderr(), "fetching {} from the package index, once (100 MB)", TOOL.1)?;
    let wanted = directory.join("requirements.txt");
    fs::write(&wanted, COMPILER)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    pip.args(["--no-compile", "--only-binary", ":all:", "--require-hashes", "--requirement"]).arg(&wanted);
    pip.arg("--target").arg(directory.join(PACKAGES));
    finish(&mut pip).map_err(|error| {
        format!(
            "{error}\nhint: it needs python3 with pip; PIP_INDEX_URL may name an index that you can reach"
        )
    })?;
    Ok(())
}

fn build(compiler: &Path, source: &str, module: &str, directory: &Path) -> Result<(), Box<dyn Error>> {
    let scratch = directory.join("scratch");
    fs::create_dir(&scratch)?;
    let (code, object) = (scratch.join(format!("{module}.c")), scratch.join("module.o"));
    fs::write(&code, source)?;
    let zig = |arguments: &[&str], from: &Path, to: &Path| {
        let mut command = Command::new(compiler);
        command.args(arguments).arg(from).arg("-o").arg(to);
        finish(command.env("ZIG_GLOBAL_CACHE_DIR", &scratch).env("ZIG_LOCAL_CACHE_DIR", &scratch))
    };
    zig(COMPILE, &code, &object)?;
    zig(LINK, &object, &directory.join(FILE))?;
    Ok(fs::remove_dir_all(&scratch)?)
}

/// Runs a program to its end, which must be a good one.
fn finish(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let finished = command.stdin(Stdio::null()).output();
    let finished = finished.map_err(|error| format!("{command:?} could not be started: {error}"))?;
    match finished.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&finished.stderr).into_owned();
            Err(format!("{command:?}: {}\n{said}", finished.status).into())
        }
    }
}
