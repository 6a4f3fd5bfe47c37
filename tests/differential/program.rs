use std::fs;
use std::path::Path;

/// Cells that run one after the other in one interpreter.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) cells: Vec<Cell>,
}

pub(crate) struct Cell {
    /// Where it begins in its file.
    pub(crate) line: usize,
    pub(crate) code: String,
    pub(crate) expected: Expected,
}

/// How a cell should end.
pub(crate) enum Expected {
    Ok,
    Raises(String),
    Exits(i64),
}

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/differential/programs");
const SEPARATOR: &str = "# %%";

impl Program {
    /// All programs, by name.
    pub(crate) fn all() -> Vec<Self> {
        let mut paths: Vec<_> = fs::read_dir(DIRECTORY).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "py"));
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Self {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).unwrap();
        let mut cells = vec![Cell { line: 1, code: String::new(), expected: Expected::Ok }];
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(ending) = line.strip_prefix(SEPARATOR) {
                cells.push(Cell {
                    line: number,
                    code: String::new(),
                    expected: Expected::parse(ending.trim())
                        .unwrap_or_else(|| panic!("{name}, line {number}: {ending:?} is no ending")),
                });
            } else if let Some(cell) = cells.last_mut() {
                cell.code.push_str(line);
                cell.code.push('\n');
            }
        }
        Self { name, cells }
    }
}

impl Expected {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            None if text.is_empty() => Some(Self::Ok),
            Some(("raises", kind)) => Some(Self::Raises(kind.to_owned())),
            Some(("exits", code)) => Some(Self::Exits(code.parse().ok()?)),
            _ => None,
        }
    }
}
