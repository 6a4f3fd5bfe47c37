use std::path::Path;

use belljar_runtime::Progress;

/// Makes bytecode of the modules in a directory. It is made once for each package, and shared by all
/// environments that hold it.
pub trait Compiler: Sync {
    /// Names the bytecode: modules that were compiled by another version are compiled anew.
    fn version(&self) -> String;

    /// Writes `__pycache__/*.pyc` below `directory`. Several may be at work at once.
    ///
    /// # Errors
    /// What went wrong, in words. The package is then used without bytecode.
    fn compile(&self, directory: &Path, progress: &dyn Progress) -> Result<(), String>;
}

/// Makes no bytecode: the guest compiles what it imports, each time.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBytecode;

impl Compiler for NoBytecode {
    fn version(&self) -> String {
        "none".to_owned()
    }

    fn compile(&self, _: &Path, _: &dyn Progress) -> Result<(), String> {
        Ok(())
    }
}
