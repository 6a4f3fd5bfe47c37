//! Lines that make one cell.
//!
//! Python itself could say whether a block is complete, but it is behind the glass, and asking it would
//! count as a cell. This looks at brackets, quotes and colons, which is enough: where it is wrong, Python
//! says what is wrong with the cell.

/// A cell while it is typed.
#[derive(Debug, Default)]
pub(crate) struct Block {
    source: Vec<u8>,
    /// Open brackets.
    depth: usize,
    quote: Option<Quote>,
    /// The last line ended with a backslash.
    continued: bool,
    /// It has a compound statement, which an empty line ends.
    compound: bool,
    last_line_is_blank: bool,
    /// A quote isn't closed in its line: no further line can mend that, and Python says so.
    broken: bool,
}

#[derive(Clone, Copy, Debug)]
struct Quote {
    mark: u8,
    triple: bool,
}

impl Block {
    /// Adds a line, with or without its newline.
    pub(crate) fn push(&mut self, line: &[u8]) {
        for line in line.strip_suffix(b"\n").unwrap_or(line).split(|&byte| byte == b'\n') {
            self.scan(line);
            self.source.extend_from_slice(line);
            self.source.push(b'\n');
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.source.trim_ascii().is_empty()
    }

    /// Whether it can be run.
    pub(crate) fn is_complete(&self) -> bool {
        let open = self.depth > 0 || self.quote.is_some() || self.continued;
        let ended = !open && (!self.compound || self.last_line_is_blank);
        !self.is_empty() && (self.broken || ended)
    }

    pub(crate) fn into_source(self) -> Vec<u8> {
        self.source
    }

    /// What the next line most likely begins with.
    pub(crate) fn indentation(&self) -> String {
        if self.depth > 0 || self.quote.is_some() || self.is_empty() {
            return String::new();
        }
        let line = self.source.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let width = line.iter().take_while(|&&byte| byte == b' ').count();
        " ".repeat(if line.ends_with(b":") { width + 4 } else { width })
    }

    fn scan(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.last_line_is_blank = line.trim_ascii().is_empty();
        let begins_statement = self.depth == 0 && self.quote.is_none() && !self.continued;
        self.compound |= begins_statement && begins_compound(line);
        self.continued = false;
        let mut last = None;
        let mut rest = line;
        while let [byte, tail @ ..] = rest {
            rest = tail;
            if let Some(quote) = self.quote {
                rest = self.scan_quoted(quote, *byte, rest);
                continue;
            }
            match byte {
                b'#' => break,
                b'\'' | b'"' => {
                    let triple = rest.starts_with(&[*byte, *byte]);
                    self.quote = Some(Quote { mark: *byte, triple });
                    rest = if triple { &rest[2..] } else { rest };
                }
                b'(' | b'[' | b'{' => self.depth += 1,
                b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                b'\\' if rest.is_empty() => self.continued = true,
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                last = Some(*byte);
            }
        }
        self.broken |= self.quote.is_some_and(|quote| !quote.triple) && !self.continued;
        self.compound |= last == Some(b':') && self.depth == 0 && self.quote.is_none();
    }

    fn scan_quoted<'l>(&mut self, quote: Quote, byte: u8, rest: &'l [u8]) -> &'l [u8] {
        if byte == b'\\' {
            self.continued = rest.is_empty() && !quote.triple;
            return rest.get(1..).unwrap_or_default();
        }
        if byte != quote.mark {
            return rest;
        }
        if !quote.triple {
            self.quote = None;
            return rest;
        }
        match rest.strip_prefix(&[byte, byte]) {
            Some(after) => {
                self.quote = None;
                after
            }
            None => rest,
        }
    }
}

fn begins_compound(line: &[u8]) -> bool {
    const KEYWORDS: [&[u8]; 8] = [b"if", b"for", b"while", b"with", b"try", b"def", b"class", b"async"];
    let line = line.trim_ascii_start();
    let word = line.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').next().unwrap_or_default();
    line.starts_with(b"@") || KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(source: &str) -> bool {
        let mut block = Block::default();
        for line in source.split_inclusive('\n') {
            block.push(line.as_bytes());
        }
        block.is_complete()
    }

    #[test]
    fn simple_statements_end_with_their_line() {
        for source in
            ["x = 1", "print('a')  # (", "x = '#('", "'it\\'s'", "f'{x['a']}'", "match = 5", "d['a':]", ")"]
        {
            assert!(complete(source), "{source}");
        }
        for source in ["", "  ", "# only a comment\n  "] {
            assert_eq!(complete(source), source.contains('#'), "{source}");
        }
    }

    #[test]
    fn open_ends_wait() {
        for source in ["f(", "[1,\n2", "x = '''a", "\"\"\"a\n\nb", "x = 1 + \\", "'a\\", "{'a': (1,\n2)"] {
            assert!(!complete(source), "{source}");
        }
        for source in
            ["f(\n)", "[1,\n2]", "x = '''a\n'''", "x = 1 + \\\n2", "'a\\\nb'", "'''it's \"\"\" '''", r"'\\'"]
        {
            assert!(complete(source), "{source}");
        }
    }

    #[test]
    fn compound_statements_end_with_an_empty_line() {
        for source in [
            "if x:",
            "if x: y",
            "def f():\n  pass",
            "@decorator",
            "match x:",
            "for i in (1,\n2):\n  i",
            "async def f(): pass",
        ] {
            assert!(!complete(source), "{source}");
            assert!(complete(&format!("{source}\n\n")), "{source}");
            assert!(complete(&format!("{source}\n    \r\n")), "{source}");
        }
        assert!(!complete("def f():\n  '''a\n\n"), "an empty line inside a string ends nothing");
        assert!(complete("iffy = 1") && complete("format('x')"));
    }

    #[test]
    fn an_unfinished_quote_is_left_to_python() {
        assert!(complete("print('a"));
        assert!(complete("\u{fffd}\0'"));
    }

    #[test]
    fn the_next_line_is_indented() {
        let mut block = Block::default();
        assert_eq!(block.indentation(), "");
        block.push(b"def f():");
        assert_eq!(block.indentation(), "    ");
        block.push(b"    if x:");
        assert_eq!(block.indentation(), "        ");
        block.push(b"        y = [");
        assert_eq!(block.indentation(), "");
    }
}
