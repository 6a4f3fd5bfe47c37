//! The options that say where the interpreter comes from.

use std::path::{self, PathBuf};

use anyhow::Context;
use belljar::Runtimes;
use clap::Args;
use clap::builder::FalseyValueParser;

#[derive(Args, Debug)]
#[command(next_help_heading = "Interpreter")]
pub(crate) struct RuntimeArguments {
    // The library reads the variable: it also counts where nobody parses options.
    /// Where it is made and kept [env: BELLJAR_CACHE_DIR] [default: belljar in the user's cache]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// The Python (CPython 3.10 or newer) that the native engine runs, and that the other one is made with: a path, or a
    /// name such as python3.12 [default: the first on the path]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// Fetch nothing
    #[arg(long, env = "BELLJAR_OFFLINE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    offline: bool,
}

impl RuntimeArguments {
    pub(crate) fn runtimes(self) -> anyhow::Result<Runtimes> {
        let cache_dir = self.cache_dir.map(path::absolute).transpose().context("--cache-dir")?;
        Ok(Runtimes { cache_dir, python: self.python, offline: self.offline, ..Runtimes::default() })
    }
}
