//! Patterns of paths: `src/**/*.{py,toml}`.

use belljar_engine::{FileError, FileErrorCode};

/// Characters of a pattern.
const MOST_TEXT: usize = 4096;
/// Patterns that braces make of one.
const MOST_ALTERNATIVES: usize = 64;

/// A pattern of paths, as shells have them: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, `\` before what is meant as it is,
/// and `**` for any directories.
///
/// What begins with a dot is matched only where the pattern has the dot, too, or hidden files are asked for.
#[derive(Clone, Debug)]
pub struct Pattern {
    alternatives: Vec<Vec<Component>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Component {
    /// Any number of directories.
    Any,
    Name(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Is(char),
    One,
    Many,
    Class { ranges: Vec<(char, char)>, negated: bool },
}

impl Pattern {
    /// Understands a pattern.
    pub fn new(text: &str) -> Result<Self, FileError> {
        let refuse = |message: &str| FileError::told(FileErrorCode::InvalidText, text, message);
        if text.len() > MOST_TEXT {
            let shown: String = text.chars().take(64).chain("…".chars()).collect();
            return Err(FileError::told(FileErrorCode::InvalidText, shown, "the pattern is too long"));
        }
        let mut alternatives = Vec::new();
        for alternative in expand(text).map_err(refuse)? {
            let alternative = components(&alternative).map_err(refuse)?;
            if alternative.is_empty() {
                return Err(refuse("the pattern is empty"));
            }
            alternatives.push(alternative);
        }
        Ok(Self { alternatives })
    }

    /// Whether a path matches.
    pub fn matches(&self, path: &str, hidden: bool) -> bool {
        self.alternatives.iter().any(|components| *states(components, path, hidden).last().unwrap_or(&false))
    }

    /// Whether anything below a directory can match.
    pub fn leads_into(&self, directory: &str, hidden: bool) -> bool {
        self.alternatives.iter().any(|components| {
            states(components, directory, hidden)[..components.len()].iter().any(|alive| *alive)
        })
    }

    /// The directory that all matches are below, as far as the pattern says so.
    pub fn base(&self) -> String {
        let literal = |components: &[Component]| -> Vec<String> {
            let above = &components[..components.len().saturating_sub(1)];
            above.iter().map_while(Component::literal).collect()
        };
        let mut bases = self.alternatives.iter().map(|components| literal(components));
        let mut common = bases.next().unwrap_or_default();
        for base in bases {
            let same = common.iter().zip(&base).take_while(|(a, b)| a == b).count();
            common.truncate(same);
        }
        common.join("/")
    }

    /// Whether it is about names only, wherever they are.
    pub(super) fn is_name(&self) -> bool {
        self.alternatives.iter().all(|components| components.len() == 1)
    }
}

impl Component {
    fn literal(&self) -> Option<String> {
        match self {
            Self::Any => None,
            Self::Name(tokens) => tokens
                .iter()
                .map(|token| if let Token::Is(character) = token { Some(*character) } else { None })
                .collect(),
        }
    }

    fn matches(&self, name: &str, hidden: bool) -> bool {
        let is_hidden = name.starts_with('.');
        match self {
            Self::Any => hidden || !is_hidden,
            Self::Name(tokens) => {
                (hidden || !is_hidden || tokens.first() == Some(&Token::Is('.')))
                    && matches_name(tokens, name)
            }
        }
    }
}

impl Token {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Is(expected) => *expected == character,
            Self::One | Self::Many => true,
            Self::Class { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated
            }
        }
    }
}

/// Which components may come next after a path; the last says that it is all.
fn states(components: &[Component], path: &str, hidden: bool) -> Vec<bool> {
    let mut now = vec![false; components.len() + 1];
    now[0] = true;
    pass_any(components, &mut now);
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let mut next = vec![false; components.len() + 1];
        for (at, component) in components.iter().enumerate() {
            if now[at] && component.matches(name, hidden) {
                next[if *component == Component::Any { at } else { at + 1 }] = true;
            }
        }
        pass_any(components, &mut next);
        now = next;
    }
    now
}

/// No directory at all is any number of them, too.
fn pass_any(components: &[Component], states: &mut [bool]) {
    for (at, component) in components.iter().enumerate() {
        if states[at] && *component == Component::Any {
            states[at + 1] = true;
        }
    }
}

/// Goes back to the last `*` only, so it takes no longer than both lengths multiplied.
fn matches_name(tokens: &[Token], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut token, mut at) = (0, 0);
    let mut last_many: Option<(usize, usize)> = None;
    while at < name.len() {
        match tokens.get(token) {
            Some(Token::Many) => {
                last_many = Some((token, at));
                token += 1;
            }
            Some(expected) if expected.matches(name[at]) => (token, at) = (token + 1, at + 1),
            _ => match last_many {
                Some((many, from)) => {
                    last_many = Some((many, from + 1));
                    (token, at) = (many + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    tokens[token..].iter().all(|token| *token == Token::Many)
}

/// The patterns that braces stand for.
fn expand(text: &str) -> Result<Vec<String>, &'static str> {
    let mut pending = vec![text.to_owned()];
    let mut expanded = Vec::new();
    let mut steps = 0;
    while let Some(text) = pending.pop() {
        steps += 1;
        if expanded.len() + pending.len() > MOST_ALTERNATIVES || steps > 4 * MOST_ALTERNATIVES {
            return Err("the braces in the pattern stand for too many");
        }
        let Some((open, close, commas)) = first_braces(&text)? else {
            expanded.push(text);
            continue;
        };
        let begins = std::iter::once(open).chain(commas.iter().copied());
        let ends = commas.iter().copied().chain([close]);
        for (begin, end) in begins.zip(ends) {
            pending.push([&text[..open], &text[begin + 1..end], &text[close + 1..]].concat());
        }
    }
    Ok(expanded)
}

/// Where the first braces are, and the commas between them.
#[expect(clippy::type_complexity, reason = "it is used once, just above")]
fn first_braces(text: &str) -> Result<Option<(usize, usize, Vec<usize>)>, &'static str> {
    let (mut open, mut depth) = (0, 0usize);
    let mut commas = Vec::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '{' => {
                if depth == 0 {
                    open = at;
                }
                depth += 1;
            }
            ',' if depth == 1 => commas.push(at),
            '}' if depth == 1 => return Ok(Some((open, at, commas))),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if depth > 0 { Err("a `{` in the pattern has no `}`; write `\\{` for the character") } else { Ok(None) }
}

fn components(text: &str) -> Result<Vec<Component>, &'static str> {
    let mut components = Vec::new();
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." => return Err("the pattern has a `..` in it"),
            "**" if components.last() == Some(&Component::Any) => {}
            "**" => components.push(Component::Any),
            name => components.push(Component::Name(tokens(name)?)),
        }
    }
    if components.last() == Some(&Component::Any) {
        components.push(Component::Name(vec![Token::Many]));
    }
    Ok(components)
}

fn tokens(name: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '*' if tokens.last() == Some(&Token::Many) => continue,
            '*' => Token::Many,
            '?' => Token::One,
            '\\' => Token::Is(characters.next().ok_or("the pattern ends with a `\\`")?),
            '[' => class(&mut characters)?,
            character => Token::Is(character),
        });
    }
    Ok(tokens)
}

/// What stands between brackets. A `]` that comes first is one of the characters.
fn class(characters: &mut std::str::Chars<'_>) -> Result<Token, &'static str> {
    const OPEN: &str = "a `[` in the pattern has no `]`; write `\\[` for the character";
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut next = characters.next().ok_or(OPEN)?;
    let negated = matches!(next, '!' | '^');
    if negated {
        next = characters.next().ok_or(OPEN)?;
    }
    loop {
        if next == '\\' {
            next = characters.next().ok_or(OPEN)?;
        }
        let first = next;
        next = characters.next().ok_or(OPEN)?;
        let mut last = first;
        if next == '-' {
            next = characters.next().ok_or(OPEN)?;
            if next == ']' {
                ranges.push(('-', '-'));
            } else {
                last = if next == '\\' { characters.next().ok_or(OPEN)? } else { next };
                next = characters.next().ok_or(OPEN)?;
            }
        }
        if first > last {
            return Err("a range in the pattern ends before it begins");
        }
        ranges.push((first, last));
        if next == ']' {
            return Ok(Token::Class { ranges, negated });
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test, what fails should stop it where it fails")]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(path, false)
    }

    #[test]
    fn patterns_match_as_in_shells() {
        let yes = [
            ("*.py", "a.py"),
            ("*", "a"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("\\*", "*"),
            ("{a,b}.txt", "b.txt"),
            ("{a,b{c,d}}", "bd"),
            ("x{,y}", "x"),
            ("**/a", "a"),
            ("**/a", "b/c/a"),
            ("a/**", "a/b/c"),
            ("a/**/b", "a/b"),
            ("a/**/b", "a/x/y/b"),
            (".*", ".hidden"),
            ("**/.git/*", "a/.git/config"),
            ("./a//b", "a/b"),
            ("ä?", "äö"),
            ("*a*a*", "banana"),
            ("a\nb*", "a\nbc"),
            ("**/**/x", "x"),
            ("[\\]]", "]"),
        ];
        for (pattern, path) in yes {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        let no = [
            ("*.py", "a/b.py"),
            ("*.py", "a.pyc"),
            ("*", ".hidden"),
            ("**", ".git/config"),
            ("**/*", "a/.x"),
            ("a/**", "a"),
            ("?", "ab"),
            ("[a-c]", "d"),
            ("[!a]x", "ax"),
            ("\\*", "a"),
            ("{a,b}", "c"),
            ("a/b", "a/b/c"),
            ("?x", ".x"),
            ("[.]x", ".x"),
        ];
        for (pattern, path) in no {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
        assert!(Pattern::new("**").unwrap().matches(".git/config", true));
    }

    #[test]
    fn patterns_that_make_no_sense_are_refused() {
        let many = "{a,b}".repeat(20);
        let deep = "{".repeat(3000);
        for pattern in ["", "/", "[a", "{a,b", "a\\", "[z-a]", "../a", many.as_str(), deep.as_str()] {
            assert_eq!(Pattern::new(pattern).unwrap_err().code, FileErrorCode::InvalidText, "{pattern}");
        }
    }

    #[test]
    fn directories_that_lead_nowhere_are_known() {
        let pattern = Pattern::new("src/*/x.py").unwrap();
        assert_eq!(pattern.base(), "src");
        assert!(
            pattern.leads_into("", false)
                && pattern.leads_into("src", false)
                && pattern.leads_into("src/a", false)
        );
        assert!(!pattern.leads_into("other", false) && !pattern.leads_into("src/a/b", false));
        assert_eq!(Pattern::new("a/b/{c,d}/*").unwrap().base(), "a/b");
        assert_eq!(Pattern::new("a/b").unwrap().base(), "a");
        assert_eq!(Pattern::new("**/b").unwrap().base(), "");
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "*a".repeat(500) + "b";
        assert!(!matches(&pattern, &"a".repeat(255)));
        let pattern = "**/a/".repeat(100) + "b";
        assert!(!matches(&pattern, &"a/".repeat(2000)));
    }
}
