//! The code that `run` runs, and how it is called.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

use belljar::Request;

use crate::failure::Usage;

/// More than any interpreter here could compile.
const LONGEST: u64 = 256 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) request: Request,
    /// `sys.argv`.
    pub(crate) argv: Vec<String>,
}

impl Program {
    /// Reads the program that the command line names.
    pub(crate) fn read(
        code: Option<String>,
        file: Option<String>,
        mut arguments: Vec<String>,
    ) -> Result<Self, Usage> {
        let (name, shown, source) = match (code, file) {
            (Some(code), file) => {
                // With `-c` there is no file: what stands in its place is the first argument.
                arguments.splice(0..0, file);
                ("-c".to_owned(), "<string>".to_owned(), code.into_bytes())
            }
            (None, Some(file)) if file != "-" => {
                let source =
                    File::open(&file).and_then(contents).map_err(|error| unreadable(&file, &error))?;
                (file.clone(), file, source)
            }
            (None, None) if io::stdin().is_terminal() => {
                return Err(Usage {
                    message: "there is nothing to run".to_owned(),
                    hint: "name a file, or use -c CODE; `belljar repl` is for typing",
                });
            }
            (None, _) => {
                let source = contents(io::stdin()).map_err(|error| unreadable("standard input", &error))?;
                ("-".to_owned(), "<stdin>".to_owned(), source)
            }
        };
        arguments.insert(0, name);
        Ok(Self { request: Request::from_file(shown, source), argv: arguments })
    }
}

fn contents(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other("it is longer than 256 MiB"));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

fn unreadable(name: &str, error: &io::Error) -> Usage {
    Usage { message: format!("cannot read {name}: {error}"), hint: "the program must be a readable file" }
}
