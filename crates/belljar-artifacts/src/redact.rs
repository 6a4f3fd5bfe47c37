//! Secrets, kept out of what is recorded.
//!
//! Values that are known are replaced by their names, in each way in which programs write them; what looks like a
//! secret is replaced without one. What had a name can be put back, to run the code again. All of it takes time in
//! proportion to the text, whatever the text is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::LazyLock;

use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regex::Regex;
use serde_json::Value;

use crate::percent;

/// Shorter values are words like any other.
const SHORTEST: usize = 4;
/// A part of base64 that is as long as this isn't there by chance.
const SHORTEST_BASE64: usize = 8;
/// What was replaced begins so.
const MARK: &str = "[redacted";
/// Stands for the mark where the text had it already.
const LITERAL: &str = "[redacted:=]";
const NAMELESS: &str = "[redacted]";
/// As far as the end of a quoted text, or of a key, is looked for.
const FARTHEST: usize = 64 << 10;

/// Replaces secrets in texts.
pub struct Redactor {
    /// Finds the texts.
    automaton: Option<NFA>,
    /// What each is replaced by.
    labels: Vec<String>,
    lengths: Vec<usize>,
    /// What each label of an environment variable stands for.
    values: HashMap<String, String>,
}

impl Redactor {
    /// Knows the values of environment variables, and other secrets, each by a name. Only the former can be put back.
    /// Values of less than four characters are left alone.
    pub fn new(
        environment: impl IntoIterator<Item = (String, String)>,
        secrets: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        // In order, so that the same text always becomes the same.
        let environment: BTreeMap<String, String> = environment.into_iter().collect();
        let secrets: BTreeMap<String, String> = secrets.into_iter().collect();
        let mut texts = Texts::default();
        // A value that is both is a secret; as it is named first by that, it isn't put back.
        for (name, value) in &secrets {
            texts.add(name, value, false);
        }
        for (name, value) in &environment {
            texts.add(name, value, true);
        }
        let automaton = NFA::builder().match_kind(MatchKind::Standard).build(&texts.found);
        Self {
            // It fails if there are gigabytes of them; then nothing at all is let through.
            automaton: automaton.ok(),
            lengths: texts.found.iter().map(String::len).collect(),
            labels: texts.labels,
            values: texts.values,
        }
    }

    /// The text without secrets, and whether there were any.
    #[must_use]
    pub fn redact(&self, text: &str) -> (String, bool) {
        let Some(automaton) = &self.automaton else { return (NAMELESS.to_owned(), true) };
        let mut tiles = self.known(automaton, text);
        fill(&mut tiles, &shapes(text));
        let mut redacted = String::with_capacity(text.len());
        let mut at = 0;
        for tile in &tiles {
            redacted.push_str(&text[at..tile.start].replace(MARK, LITERAL));
            redacted.push_str(tile.label.map_or(NAMELESS, |label| &self.labels[label]));
            at = tile.end;
        }
        redacted.push_str(&text[at..].replace(MARK, LITERAL));
        let changed = redacted != text;
        (redacted, changed)
    }

    /// Puts the values of environment variables back. The rest of what was redacted stays so.
    #[must_use]
    pub fn restore(&self, text: &str) -> String {
        let mut restored = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(MARK) {
            restored.push_str(&rest[..at]);
            rest = &rest[at..];
            // Labels are short: the end isn't looked for further than that.
            let end = rest.bytes().take(LONGEST_LABEL).position(|byte| byte == b']').map_or(0, |end| end + 1);
            let label = &rest[..end];
            if label == LITERAL {
                restored.push_str(MARK);
                rest = &rest[end..];
            } else if let Some(value) = self.values.get(label) {
                restored.push_str(value);
                rest = &rest[end..];
            } else {
                restored.push_str(MARK);
                rest = &rest[MARK.len()..];
            }
        }
        restored.push_str(rest);
        restored
    }

    /// The same for all texts and names in a JSON value. What is called `password`, or the like, is replaced whole.
    #[must_use]
    pub fn redact_json(&self, value: &Value) -> (Value, bool) {
        match value {
            Value::String(text) => {
                let (text, changed) = self.redact(text);
                (Value::String(text), changed)
            }
            Value::Number(number) => {
                let (text, changed) = self.redact(&number.to_string());
                if changed { (Value::String(text), true) } else { (value.clone(), false) }
            }
            Value::Array(values) => {
                let values: Vec<(Value, bool)> = values.iter().map(|value| self.redact_json(value)).collect();
                let changed = values.iter().any(|(_, changed)| *changed);
                (Value::Array(values.into_iter().map(|(value, _)| value).collect()), changed)
            }
            Value::Object(members) => {
                let mut changed = false;
                let mut redacted = serde_json::Map::new();
                for (name, value) in members {
                    let (mut new_name, name_changed) = self.redact(name);
                    let (new_value, value_changed) = match value {
                        Value::String(text) if text.chars().count() >= SHORTEST && is_secret_name(name) => {
                            // A value that is known keeps its name.
                            let (label, _) = self.redact(text);
                            let known = self.values.contains_key(&label) || label == NAMELESS;
                            (Value::String(if known { label } else { NAMELESS.to_owned() }), true)
                        }
                        value => self.redact_json(value),
                    };
                    // Two names may have become the same.
                    while redacted.contains_key(&new_name) {
                        new_name.push('\'');
                    }
                    changed |= name_changed | value_changed;
                    redacted.insert(new_name, new_value);
                }
                (Value::Object(redacted), changed)
            }
            Value::Null | Value::Bool(_) => (value.clone(), false),
        }
    }

    /// Where known texts are. Where they overlap, all that any of them covers is covered; the parts that aren't whole
    /// have no name.
    fn known(&self, automaton: &NFA, text: &str) -> Vec<Tile> {
        let mut tiles: Vec<Tile> = Vec::new();
        // It starts unanchored by construction, which is what it is asked for.
        let Ok(mut state) = automaton.start_state(Anchored::No) else { return tiles };
        for (at, byte) in text.bytes().enumerate() {
            state = automaton.next_state(Anchored::No, state, byte);
            if !automaton.is_special(state) || !automaton.is_match(state) {
                continue;
            }
            // Of all that end here, the longest is the first.
            let label = automaton.match_pattern(state, 0).as_usize();
            let end = at + 1;
            let start = end - self.lengths[label];
            while tiles.pop_if(|last| last.start >= start).is_some() {}
            match tiles.last_mut() {
                Some(last) if last.end > start && last.label.is_some() => {
                    let start = last.end;
                    tiles.push(Tile { start, end, label: None });
                }
                Some(last) if last.end > start => {
                    last.end = start;
                    tiles.push(Tile { start, end, label: Some(label) });
                }
                _ => tiles.push(Tile { start, end, label: Some(label) }),
            }
        }
        tiles
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Redactor").field("texts", &self.labels.len()).finish_non_exhaustive()
    }
}

/// A part of a text that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    start: usize,
    end: usize,
    label: Option<usize>,
}

/// Adds tiles without a name for what ranges cover between the tiles that there are. The ranges are in order.
fn fill(tiles: &mut Vec<Tile>, ranges: &[(usize, usize)]) {
    if ranges.is_empty() {
        return;
    }
    let mut filled: Vec<Tile> = Vec::with_capacity(tiles.len() + ranges.len());
    let mut ranges = ranges.iter().copied().peekable();
    let mut at = 0;
    let mut until = |filled: &mut Vec<Tile>, at: usize, limit: usize| {
        while let Some((start, end)) = ranges.peek().copied() {
            let (from, to) = (start.max(at), end.min(limit));
            if from < to {
                filled.push(Tile { start: from, end: to, label: None });
            }
            if end > limit {
                break;
            }
            ranges.next();
        }
    };
    for tile in tiles.iter() {
        until(&mut filled, at, tile.start);
        filled.push(*tile);
        at = tile.end;
    }
    until(&mut filled, at, usize::MAX);
    *tiles = filled;
}

/// The ways in which values are written.
#[derive(Default)]
struct Texts {
    found: Vec<String>,
    labels: Vec<String>,
    values: HashMap<String, String>,
    seen: HashSet<String>,
    taken: HashSet<String>,
}

const LONGEST_NAME: usize = 64;
const LONGEST_LABEL: usize = 128;

impl Texts {
    fn add(&mut self, name: &str, value: &str, can_be_restored: bool) {
        if value.chars().count() < SHORTEST || value.trim().is_empty() {
            return;
        }
        let plain = |character: char| {
            if character.is_ascii_alphanumeric() || "_.-".contains(character) { character } else { '_' }
        };
        let name: String = name.chars().take(LONGEST_NAME).map(plain).collect();
        for (way, text) in ways(value) {
            if !self.seen.insert(text.clone()) {
                continue;
            }
            let mut label = format!("{MARK}:{name}{way}]");
            for number in 2.. {
                if self.taken.insert(label.clone()) {
                    break;
                }
                label = format!("{MARK}:{name}~{number}{way}]");
            }
            if can_be_restored {
                self.values.insert(label.clone(), text.clone());
            }
            self.found.push(text);
            self.labels.push(label);
        }
    }
}

fn ways(value: &str) -> Vec<(String, String)> {
    let mut ways: Vec<(String, String)> = vec![(String::new(), value.to_owned())];
    let mut add = |way: &str, text: String| {
        if text.chars().count() >= SHORTEST {
            ways.push((format!(":{way}"), text));
        }
    };
    add("url", percent::encode(value));
    add("url-path", percent::encode_but(value, b"-._~/", " "));
    add("url-form", percent::encode_but(value, b"-._~", "+"));
    add("url-form-js", percent::encode_but(value, b"-._*", "+"));
    add("url-component", percent::encode_but(value, b"-._~!*'()", " "));
    add("url-lower", lower_escapes(&percent::encode(value)));
    add("repr", escaped(value, Escape::Repr('\'')));
    add("repr2", escaped(value, Escape::Repr('"')));
    add("repr-bytes", escaped(value, Escape::Bytes));
    add("json", escaped(value, Escape::Json { ascii: true }));
    add("json-text", escaped(value, Escape::Json { ascii: false }));
    // Somewhere within what was encoded, it begins at one of three places of a group.
    for (place, engine) in [("base64", &STANDARD_NO_PAD), ("base64url", &URL_SAFE_NO_PAD)] {
        for offset in 0..3 {
            let mut bytes = vec![0; offset];
            bytes.extend_from_slice(value.as_bytes());
            let encoded = engine.encode(&bytes);
            // The digits at both ends also hold bits of what is around it; at the very end, they hold nothing else.
            let first = [0, 2, 3][offset];
            let whole = bytes.len() * 8 / 6;
            let way = |ending: &str| match offset {
                0 => format!("{place}{ending}"),
                offset => format!("{place}+{offset}{ending}"),
            };
            let inner = &encoded[first..whole];
            if inner.len() >= SHORTEST_BASE64 || (offset == 0 && bytes.len() % 3 == 0) {
                add(&way(""), inner.to_owned());
            }
            if encoded.len() > whole && encoded.len() - first >= SHORTEST {
                let padding = ["", "==", "="][bytes.len() % 3];
                add(&way("-padded"), format!("{}{padding}", &encoded[first..]));
                if encoded.len() - first >= SHORTEST_BASE64 {
                    add(&way("-end"), encoded[first..].to_owned());
                }
            }
        }
    }
    ways
}

fn lower_escapes(encoded: &str) -> String {
    let mut left = 0;
    let lower = |character: char| {
        if character == '%' {
            left = 3;
        }
        left = i32::max(left - 1, -1);
        if left >= 0 { character.to_ascii_lowercase() } else { character }
    };
    encoded.chars().map(lower).collect()
}

#[derive(Clone, Copy)]
enum Escape {
    /// Python's text, in these quotes.
    Repr(char),
    /// Python's bytes.
    Bytes,
    Json {
        ascii: bool,
    },
}

fn escaped(value: &str, how: Escape) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        match (character, how) {
            ('\\', _) => text.push_str("\\\\"),
            ('\n', _) => text.push_str("\\n"),
            ('\r', _) => text.push_str("\\r"),
            ('\t', _) => text.push_str("\\t"),
            ('\u{8}', Escape::Json { .. }) => text.push_str("\\b"),
            ('\u{c}', Escape::Json { .. }) => text.push_str("\\f"),
            ('"', Escape::Json { .. }) => text.push_str("\\\""),
            (quote, Escape::Repr(quotes)) if quote == quotes => text.extend(['\\', quote]),
            ('\'', Escape::Bytes) => text.push_str("\\'"),
            (' '..='~', _) => text.push(character),
            (_, Escape::Bytes) => {
                let mut buffer = [0; 4];
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    text.push_str(&format!("\\x{byte:02x}"));
                }
            }
            ('\u{0}'..='\u{1f}', Escape::Json { .. }) | (_, Escape::Json { ascii: true }) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
            ('\u{0}'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}', Escape::Repr(_)) => {
                text.push_str(&format!("\\x{:02x}", u32::from(character)));
            }
            (_, Escape::Repr(_) | Escape::Json { .. }) => text.push(character),
        }
    }
    text
}

/// Names of what is secret, as they are in code, in any case.
const SECRET_NAMES: &str = "passw(?:or)?d|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|\
     auth[_-]?key|credentials?|(?:access|auth|api|bearer|refresh|session|client|id|bot)[_-]?token";

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("it is a constant that tests compile")
}

fn is_secret_name(name: &str) -> bool {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        regex(&format!(
            "(?i)(?:{SECRET_NAMES})[a-z0-9_-]{{0,16}}$|^(?:token|authorization|cookie|set-cookie)$"
        ))
    });
    name.len() <= 256 && NAME.is_match(name)
}

/// Where something looks like a secret, in order, without overlaps.
///
/// Each pattern is searched for on its own, and looks ahead of what it finds by a bounded number of bytes only, so
/// that all searches together read the text a bounded number of times.
fn shapes(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    tokens(text, &mut found);
    keys(text, &mut found);
    assignments(text, &mut found);
    found.sort_unstable();
    let mut merged: Vec<(usize, usize)> = Vec::with_capacity(found.len());
    for (start, end) in found {
        match merged.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// What services give out.
fn tokens(text: &str, found: &mut Vec<(usize, usize)>) {
    static PATTERNS: LazyLock<[Regex; 5]> = LazyLock::new(|| {
        [
            regex(
                r"(?-u:\b)(?:(?:sk-|(?:sk|rk|pk)_(?:live|test)_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|xapp-|AIza|npm_|pypi-|hf_|dop_v1_|SG\.|key-|ya29\.)[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b))",
            ),
            // Three parts, of which the first begins as JSON does.
            regex(r"(?-u:\b)eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
            regex(
                r#"(?i)(?-u:\b)authorization["']?\s{0,8}[:=,]\s{0,8}[bfru]{0,2}["']?(?:bearer|basic|token|digest)\s{1,8}([A-Za-z0-9._~+/=-]{4,})"#,
            ),
            regex(r"(?i)(?-u:\b)bearer\s{1,8}([A-Za-z0-9._~+/=-]{16,})"),
            // A password in an address.
            regex(r#"://[^\s/:@"'<>{}]{0,64}:([^\s/@"'<>{}]{1,200})@"#),
        ]
    });
    for pattern in PATTERNS.iter() {
        for captures in pattern.captures_iter(text) {
            if let Some(part) = captures.get(1).or_else(|| captures.get(0)) {
                found.push((part.start(), part.end()));
            }
        }
    }
}

/// Private keys. One that is cut off ends where what can be a key ends.
fn keys(text: &str, found: &mut Vec<(usize, usize)>) {
    static BEGIN: LazyLock<Regex> =
        LazyLock::new(|| regex(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"));
    const END: &str = "-----END ";
    let mut at = 0;
    // The next end is searched for once only.
    let mut next_end: Option<usize> = Some(0);
    while let Some(begin) = BEGIN.find_at(text, at) {
        while let Some(end) = next_end.filter(|end| *end < begin.end()) {
            let from = end.max(begin.end());
            next_end = text[from..].find(END).map(|found| from + found);
        }
        let end = match next_end.filter(|end| end - begin.start() <= FARTHEST) {
            Some(end) => {
                let after = &text[end + END.len()..];
                let line = after.bytes().take(64).position(|byte| byte == b'-').unwrap_or(0);
                let dashes = after.bytes().skip(line).take_while(|byte| *byte == b'-').count();
                end + END.len() + line + dashes
            }
            None => {
                let of_key = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=\\ \t\r\n".contains(&byte);
                begin.end() + text[begin.end()..].bytes().take_while(|byte| of_key(*byte)).count()
            }
        };
        found.push((begin.start(), end));
        at = end;
    }
}

/// Texts in quotes that are given to a name which says that they are secret.
fn assignments(text: &str, found: &mut Vec<(usize, usize)>) {
    static OPENING: LazyLock<Regex> = LazyLock::new(|| {
        regex(&format!(
            r#"(?i)(?:(?:{SECRET_NAMES})[a-z0-9_]{{0,16}}|(?-u:\b)token)(?:\\?["'])?\]?\s{{0,8}}(?::\s{{0,4}}[a-z.]{{1,16}}\s{{0,4}}=|:=|=|:|,)\s{{0,8}}[bfru]{{0,2}}("""|'''|\\?"|\\?')"#
        ))
    });
    let mut at = 0;
    while let Some(captures) = OPENING.captures_at(text, at) {
        let Some(opening) = captures.get(1) else { break };
        let (quote, start) = (opening.as_str(), opening.end());
        let length = closing(&text[start..], quote);
        if text[start..start + length].chars().take(SHORTEST).count() >= SHORTEST {
            found.push((start, start + length));
        }
        at = start + length;
    }
}

/// How far a text in quotes goes: to the next quote, or to the end of the line, or as far as anybody looks.
fn closing(text: &str, quote: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() && at < FARTHEST {
        if bytes[at..].starts_with(quote.as_bytes()) || (quote.len() < 3 && bytes[at] == b'\n') {
            return at;
        }
        // Quotes that are themselves escaped end at the next one that is.
        at += if bytes[at] == b'\\' && !quote.starts_with('\\') { 2 } else { 1 };
    }
    text.floor_char_boundary(at.min(bytes.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(environment: &[(&str, &str)]) -> Redactor {
        let pairs = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Redactor::new(pairs, [])
    }

    #[test]
    fn values_become_their_names_and_come_back() {
        let redactor =
            of(&[("KEY", "hunter-22"), ("LONG", "hunter-22-and-more"), ("SHORT", "abc"), ("BLANK", "     ")]);
        let cases = [
            ("x = 'hunter-22'", "x = '[redacted:KEY]'"),
            ("hunter-22-and-more", "[redacted:LONG]"),
            ("hunter-22-and", "[redacted:KEY]-and"),
            ("abc      d", "abc      d"),
            ("[redacted:KEY] hunter-22", "[redacted:=]:KEY] [redacted:KEY]"),
            ("[redacted] [redacted:=]", "[redacted:=]] [redacted:=]:=]"),
            ("", ""),
        ];
        for (text, expected) in cases {
            let (redacted, changed) = redactor.redact(text);
            assert_eq!((redacted.as_str(), changed), (expected, text != expected));
            assert_eq!(redactor.restore(&redacted), text);
        }
        assert_eq!(redactor.restore("[redacted:OTHER] [redacted"), "[redacted:OTHER] [redacted");
    }

    #[test]
    fn values_are_found_in_each_way_programs_write_them() {
        let value = "p@ss/wörd 'x' \"y\" \\ z\n\u{1}~";
        let redactor = of(&[("KEY", value)]);
        let written = [
            // urllib.parse.quote, quote with safe="", quote_plus, encodeURIComponent
            "p%40ss/w%C3%B6rd%20%27x%27%20%22y%22%20%5C%20z%0A%01~",
            "p%40ss%2Fw%C3%B6rd%20%27x%27%20%22y%22%20%5C%20z%0A%01~",
            "p%40ss%2Fw%C3%B6rd+%27x%27+%22y%22+%5C+z%0A%01~",
            "p%40ss%2Fw%C3%B6rd%20'x'%20%22y%22%20%5C%20z%0A%01~",
            "p%40ss%2fw%c3%b6rd%20%27x%27%20%22y%22%20%5c%20z%0a%01~",
            // repr of the text and of its bytes, json.dumps with and without ensure_ascii
            r#"p@ss/wörd \'x\' "y" \\ z\n\x01~"#,
            r#"p@ss/wörd 'x' \"y\" \\ z\n\x01~"#,
            r#"p@ss/w\xc3\xb6rd \'x\' "y" \\ z\n\x01~"#,
            r#"p@ss/w\u00f6rd 'x' \"y\" \\ z\n\u0001~"#,
            r#"p@ss/wörd 'x' \"y\" \\ z\n\u0001~"#,
        ];
        for text in written {
            let text = format!("<{text}>");
            let (redacted, changed) = redactor.redact(&text);
            assert!(
                changed && redacted.starts_with("<[redacted:KEY:") && redacted.ends_with("]>"),
                "{redacted}"
            );
            assert_eq!(redactor.restore(&redacted), text);
        }
    }

    #[test]
    fn values_are_found_in_base64_of_what_they_are_in() {
        let value = "hunter-22-x";
        let redactor = of(&[("KEY", value)]);
        for before in ["", "u", "us", "user:"] {
            for after in ["", "!", "!!", "!!!"] {
                for engine in [
                    &base64::engine::general_purpose::STANDARD,
                    &base64::engine::general_purpose::URL_SAFE_NO_PAD,
                ] {
                    let text = engine.encode(format!("{before}{value}{after}"));
                    let (redacted, changed) = redactor.redact(&text);
                    assert!(changed, "{text}");
                    assert_eq!(redactor.restore(&redacted), text);
                    // No more than the digits that share bits with what is around it are left.
                    let left: usize = redacted
                        .replace("[redacted:KEY", "")
                        .split(']')
                        .map(|part| part.split(':').next().map_or(0, str::len))
                        .sum();
                    let around = (before.len() + after.len()).div_ceil(3) * 4 + 8;
                    assert!(left <= around, "{text} {redacted}");
                    assert!(!redacted.contains(&engine.encode(value)[2..12]), "{redacted}");
                }
            }
        }
    }

    #[test]
    fn overlapping_values_leave_nothing_of_each_other() {
        let redactor = of(&[("A", "abcd"), ("B", "cdefghijkl"), ("C", "aaaa")]);
        assert_eq!(redactor.redact("-abcdefghijkl-").0, "-[redacted:A][redacted]-");
        assert_eq!(redactor.redact("aaaaaaaa").0, "[redacted:C][redacted:C]");
        assert_eq!(redactor.redact("aaaaaaaaa").0, "[redacted:C][redacted:C][redacted]");
        assert_eq!(redactor.redact("abcdcdefghijkl").0, "[redacted:A][redacted:B]");
    }

    #[test]
    fn secrets_have_names_but_are_not_put_back() {
        let redactor = Redactor::new(
            [("KEY".to_owned(), "value-of-key".to_owned())],
            [("a b]c".to_owned(), "hidden".to_owned()), ("a b[c".to_owned(), "other".to_owned())],
        );
        let (redacted, _) = redactor.redact("hidden other value-of-key");
        assert_eq!(redacted, "[redacted:a_b_c~2] [redacted:a_b_c] [redacted:KEY]");
        assert_eq!(redactor.restore(&redacted), "[redacted:a_b_c~2] [redacted:a_b_c] value-of-key");
        assert!(!format!("{redactor:?}").contains("hidden"));
    }

    #[test]
    fn what_looks_like_a_secret_is_replaced() {
        let redactor = of(&[]);
        let cases = [
            ("id = 'AKIAIOSFODNN7EXAMPLE'", "id = '[redacted]'"),
            ("xAKIAIOSFODNN7EXAMPLE AKIAIOSFODNN7EXAMPLEX", "xAKIAIOSFODNN7EXAMPLE AKIAIOSFODNN7EXAMPLEX"),
            ("k = 'sk-proj-abcdefghij0123456789'", "k = '[redacted]'"),
            ("task-force-one sk-short", "task-force-one sk-short"),
            ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"),
            ("github_pat_abcdefghijklmnopqrstuvwxyz", "[redacted]"),
            ("xoxb-123456789012-abcdefghijkl", "[redacted]"),
            ("(eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1)", "([redacted])"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
            ("h = {'Authorization': 'Basic dXNlcjpwYXNz'}", "h = {'Authorization': 'Basic [redacted]'}"),
            ("f'bearer {x}' or 'Bearer abcdefghijklmnop'", "f'bearer {x}' or 'Bearer [redacted]'"),
            ("password = \"correct horse\"", "password = \"[redacted]\""),
            ("DB_PASSWORD='it\\'s here' # x", "DB_PASSWORD='[redacted]' # x"),
            ("connect(password = 'abcd', user='me')", "connect(password = '[redacted]', user='me')"),
            ("{\"api_key\": \"abcd\"}", "{\"api_key\": \"[redacted]\"}"),
            ("os.environ['CLIENT_SECRET'] = rb'abcd'", "os.environ['CLIENT_SECRET'] = rb'[redacted]'"),
            ("secret: str = '''ab\ncd''' + x", "secret: str = '''[redacted]''' + x"),
            ("password = 'never closed\nx = 1", "password = '[redacted]\nx = 1"),
            (
                "'{\\\"password\\\": \\\"abcd\\\", \\\"x\\\": 1}'",
                "'{\\\"password\\\": \\\"[redacted]\\\", \\\"x\\\": 1}'",
            ),
            ("os.getenv('API_KEY', 'fallback')", "os.getenv('API_KEY', '[redacted]')"),
            (
                "postgres://me:hidden@host/db http://host:80/@x",
                "postgres://me:[redacted]@host/db http://host:80/@x",
            ),
            ("password = getpass()", "password = getpass()"),
            ("password = ''", "password = ''"),
            ("pad_token = '<pad>'", "pad_token = '<pad>'"),
            ("tokens = ['a long text']", "tokens = ['a long text']"),
        ];
        for (text, expected) in cases {
            let (redacted, changed) = redactor.redact(text);
            assert_eq!((redacted.as_str(), changed), (expected, text != expected));
        }
    }

    #[test]
    fn private_keys_are_replaced_whole() {
        let key = format!(
            "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
            "MIIabc+/=\n".repeat(40)
        );
        let redactor = of(&[]);
        assert_eq!(redactor.redact(&format!("k = '''{key}'''\n{key}")).0, "k = '''[redacted]'''\n[redacted]");
        let cut = &key[..200];
        assert_eq!(redactor.redact(&format!("'{cut}'; x = 1")).0, "'[redacted]'; x = 1");
        let asked = "if '-----BEGIN PRIVATE KEY-----' in text: pass";
        assert_eq!(redactor.redact(asked).0, "if '[redacted]' in text: pass");
        let public = "-----BEGIN PUBLIC KEY-----\nMIIabc\n-----END PUBLIC KEY-----";
        assert_eq!(redactor.redact(public).0, public);
    }

    #[test]
    fn values_keep_their_names_within_what_looks_like_a_secret() {
        let redactor = of(&[("PASS", "hunter-22"), ("PART", "0123456789")]);
        assert_eq!(redactor.redact("password = 'hunter-22'").0, "password = '[redacted:PASS]'");
        assert_eq!(redactor.redact("sk-abc0123456789xyzxyz").0, "[redacted][redacted:PART][redacted]");
    }

    #[test]
    fn json_is_redacted_in_names_and_values_and_numbers() {
        let redactor = of(&[("KEY", "hunter-22"), ("PIN", "12345678")]);
        let value = json!({
            "a": ["x hunter-22", {"b": null, "c": true, "d": 12_345_678, "e": 1234}],
            "hunter-22": 1, "[redacted:KEY]": 2,
            "password": "correct horse", "api_key": "hunter-22", "secret": 7, "token": "abc",
        });
        let (redacted, changed) = redactor.redact_json(&value);
        assert!(changed);
        assert_eq!(
            redacted,
            json!({
                "a": ["x [redacted:KEY]", {"b": null, "c": true, "d": "[redacted:PIN]", "e": 1234}],
                "[redacted:KEY]": 1, "[redacted:=]:KEY]": 2,
                "password": "[redacted]", "api_key": "[redacted:KEY]", "secret": 7, "token": "abc",
            })
        );
        let plain = json!({"a": [1, "b", null]});
        assert_eq!(redactor.redact_json(&plain), (plain.clone(), false));
    }

    #[test]
    fn hostile_megabytes_are_read_a_few_times_only() {
        let redactor = of(&[("A", "aaaa"), ("B", &"a".repeat(5_000)), ("C", "hunter-22")]);
        let hostile = [
            "a",
            "-eyJ-AKIA0123456789ABCDEF",
            "eyJaaaaaaaa.",
            "eyJ",
            "-----BEGIN PRIVATE KEY-----",
            "-----END ",
            "password=\"",
            "password='\\\"",
            "password=\"\\",
            "authorization:bearer ",
            "bearer\t",
            "://a:",
            "://:",
            "://",
            "[redacted:",
            "[redacted",
            "sk-",
            "token",
            "secret,\"",
            "\\\"",
            "passwd: a=",
        ];
        for unit in hostile {
            let text = unit.repeat((1 << 20) / unit.len());
            let (redacted, _) = redactor.redact(&text);
            let _ = redactor.restore(&redacted);
        }
    }

    proptest! {
        #[test]
        fn no_value_is_left_and_all_come_back(
            values in proptest::collection::vec("[ab'\\\\\\n ö%]{4,6}", 1..4),
            parts in proptest::collection::vec(prop_oneof![(0..4_usize).prop_map(Some), Just(None)], 0..6),
            between in proptest::collection::vec("[ab'\\\\ö\\[\\]:=]{0,4}|\\[redacted:?", 6),
        ) {
            let named = values.iter().enumerate().map(|(at, value)| (format!("V{at}"), value.clone()));
            let redactor = Redactor::new(named, []);
            let mut text = String::new();
            for (part, between) in parts.iter().zip(&between) {
                if let Some(value) = part.and_then(|at| values.get(at)) {
                    text.push_str(value);
                }
                text.push_str(between);
            }
            let (redacted, changed) = redactor.redact(&text);
            prop_assert_eq!(changed, redacted != text);
            let bare = redactor.labels.iter().map(String::as_str).chain([NAMELESS, LITERAL]);
            let mut rest = redacted.clone();
            for label in bare {
                rest = rest.replace(label, "|");
            }
            for value in values.iter().filter(|value| !value.trim().is_empty()) {
                prop_assert!(!rest.contains(value.as_str()), "{:?} is in {:?}", value, redacted);
            }
            // Where values overlap, what is left of one has no name.
            if !redacted.contains(NAMELESS) {
                prop_assert_eq!(redactor.restore(&redacted), text);
            }
        }

        #[test]
        fn any_text_can_be_redacted(text in any::<String>(), value in any::<String>()) {
            let redactor = of(&[("A", &value)]);
            let (redacted, _) = redactor.redact(&format!("{text}{value}{text}"));
            let _ = redactor.restore(&redacted);
            let _ = redactor.restore(&text);
        }

        #[test]
        fn text_that_looks_like_code_can_be_redacted(
            text in proptest::collection::vec(
                prop_oneof![
                    "[a-z=:'\"\\\\ \\n\\[\\],-]{0,6}",
                    Just("password".to_owned()), Just("-----BEGIN PRIVATE KEY-----".to_owned()), Just("-----END ".to_owned()),
                    Just("bearer ".to_owned()), Just("eyJ".to_owned()), Just("://".to_owned()), Just("ö\u{1f980}".to_owned()),
                ],
                0..12,
            ).prop_map(|parts| parts.concat()),
        ) {
            let redactor = of(&[("A", "word"), ("B", "PRIVATE")]);
            let (redacted, _) = redactor.redact(&text);
            prop_assert!(!redacted.contains("word"));
        }
    }
}
