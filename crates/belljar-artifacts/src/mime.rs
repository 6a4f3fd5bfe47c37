//! What a file is, by its first bytes.
//!
//! Whoever downloads a file is told this, so that the bytes have the last word: a name only chooses among kinds of
//! text, where the same bytes may be several things. What a browser would run as a page is called one, whatever its
//! name.

use serde::de::IgnoredAny;

/// More of a file than this isn't looked at.
pub const SNIFFED_BYTES: usize = 8 << 10;

const UNKNOWN: &str = "application/octet-stream";

/// The media type of a file that is called `name` and begins with `first`.
#[must_use]
pub fn sniff_mime(name: &str, first: &[u8]) -> String {
    sniff(name, first)
}

/// Whether browsers may show it in the page of whoever serves it: nothing that can run there.
#[must_use]
pub fn may_be_inline(mime: &str) -> bool {
    let mime = mime.split(';').next().unwrap_or_default().trim();
    match mime.split_once('/') {
        Some(("image", kind)) => kind != "svg+xml",
        Some(("audio" | "video", _)) => true,
        _ => matches!(
            mime,
            "text/plain" | "text/csv" | "text/tab-separated-values" | "text/markdown" | "application/json"
        ),
    }
}

pub(crate) fn sniff(name: &str, first: &[u8]) -> String {
    media_type(name, first).to_owned()
}

fn media_type(name: &str, first: &[u8]) -> &'static str {
    let first = &first[..first.len().min(SNIFFED_BYTES)];
    let ending = ending(name);
    if first.is_empty() {
        return by_ending(&ending).unwrap_or(UNKNOWN);
    }
    if let Some(mime) = signature(first, &ending) {
        return mime;
    }
    if let Some(text) = Text::of(first) {
        return text.kind(&ending);
    }
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        return "text/plain";
    }
    // Bytes that aren't text may still be a page for a lenient reader.
    let lossy = String::from_utf8_lossy(first);
    if page(&lossy) != Page::Not {
        return "text/html";
    }
    infer::get(first).map_or(UNKNOWN, |kind| kind.mime_type())
}

/// What is after the last dot of the last part, in small letters.
fn ending(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    let ending = last.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.chars().take(16).collect::<String>().to_ascii_lowercase()
}

/// What names may say: kinds of text, and nothing that would be believed without bytes.
fn by_ending(ending: &str) -> Option<&'static str> {
    Some(match ending {
        "txt" | "log" | "text" | "out" | "err" => "text/plain",
        "csv" => "text/csv",
        "tsv" | "tab" => "text/tab-separated-values",
        "md" | "markdown" => "text/markdown",
        "json" => "application/json",
        "geojson" => "application/geo+json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "ipynb" => "application/x-ipynb+json",
        "html" | "htm" => "text/html",
        "xhtml" => "application/xhtml+xml",
        "svg" => "image/svg+xml",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "ini" | "cfg" | "conf" => "text/plain",
        "py" | "pyi" => "text/x-python",
        "r" => "text/x-r",
        "js" | "mjs" => "text/javascript",
        "css" => "text/css",
        "sh" | "bash" => "text/x-shellscript",
        "sql" => "application/sql",
        "tex" => "application/x-tex",
        "rst" => "text/x-rst",
        "diff" | "patch" => "text/x-diff",
        "ics" => "text/calendar",
        "vcf" => "text/vcard",
        _ => return None,
    })
}

/// Formats that data comes in, and those that are text to the eye only.
fn signature(first: &[u8], ending: &str) -> Option<&'static str> {
    const SIGNATURES: &[(&[u8], &str)] = &[
        (b"%PDF-", "application/pdf"),
        (b"%!PS", "application/postscript"),
        (b"{\\rtf", "application/rtf"),
        (b"PAR1", "application/vnd.apache.parquet"),
        (b"ARROW1", "application/vnd.apache.arrow.file"),
        (b"FEA1", "application/vnd.apache.arrow.file"),
        (b"\x93NUMPY", "application/x-npy"),
        (b"\x89HDF\r\n\x1a\n", "application/x-hdf5"),
        (b"CDF\x01", "application/x-netcdf"),
        (b"CDF\x02", "application/x-netcdf"),
        (b"CDF\x05", "application/x-netcdf"),
        (b"ORC", "application/vnd.apache.orc"),
        (b"Obj\x01", "application/vnd.apache.avro"),
        (b"GGUF", "application/x-gguf"),
    ];
    // Letters alone prove nothing while what follows is text.
    let letters = |start: &[u8]| start.iter().all(u8::is_ascii_alphanumeric) && Text::of(first).is_some();
    let found = SIGNATURES.iter().find(|(start, _)| first.starts_with(start) && !letters(start));
    if let Some((_, mime)) = found {
        return Some(mime);
    }
    // An archive of arrays is an archive like any other; its first member tells.
    let zip = first.starts_with(b"PK\x03\x04");
    if zip && (ending == "npz" || first_member(first).is_some_and(|name| name.ends_with(b".npy"))) {
        return Some("application/x-npz");
    }
    None
}

fn first_member(zip: &[u8]) -> Option<&[u8]> {
    let length = usize::from(u16::from_le_bytes([*zip.get(26)?, *zip.get(27)?]));
    zip.get(30..30 + length)
}

/// How sure it is that something is a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Page {
    /// It begins as pages do.
    Surely,
    /// It begins with a tag that is also used in other texts.
    Perhaps,
    Not,
}

fn page(text: &str) -> Page {
    let text =
        text.trim_start_matches(|character: char| character.is_whitespace() || character == '\u{feff}');
    let begins = |tag: &&str| {
        let Some(start) = text.get(..tag.len()) else { return false };
        let after = text.as_bytes().get(tag.len());
        start.eq_ignore_ascii_case(tag)
            && (tag.ends_with('-') || after.is_none_or(|byte| b" \t\r\n\x0c/>".contains(byte)))
    };
    let surely = [
        "<!doctype html",
        "<html",
        "<head",
        "<body",
        "<script",
        "<iframe",
        "<style",
        "<title",
        "<meta",
        "<link",
        "<base",
        "<object",
        "<embed",
        "<form",
        "<frameset",
    ];
    let perhaps = [
        "<!--", "<h1", "<h2", "<h3", "<div", "<span", "<font", "<table", "<a", "<b", "<br", "<p", "<img",
        "<center", "<ul", "<ol", "<pre", "<input", "<video", "<audio", "<details", "<marquee", "<math",
        "<section", "<i",
    ];
    if surely.iter().any(&begins) {
        Page::Surely
    } else if perhaps.iter().any(begins) {
        Page::Perhaps
    } else {
        Page::Not
    }
}

/// Bytes that are text.
struct Text<'a> {
    text: std::borrow::Cow<'a, str>,
}

impl<'a> Text<'a> {
    fn of(first: &'a [u8]) -> Option<Self> {
        let is_odd = |byte: &u8| *byte < 0x20 && !b"\t\n\r\x08\x0c\x1b".contains(byte) || *byte == 0x7f;
        if first.iter().any(is_odd) {
            return None;
        }
        let text = match std::str::from_utf8(first) {
            Ok(text) => text.into(),
            // It was cut within a character.
            Err(error) if error.error_len().is_none() => {
                String::from_utf8_lossy(&first[..error.valid_up_to()])
            }
            // An older encoding, if most of it is plain.
            Err(_) if first.iter().filter(|byte| byte.is_ascii()).count() * 10 >= first.len() * 7 => {
                String::from_utf8_lossy(first)
            }
            Err(_) => return None,
        };
        Some(Self { text })
    }

    fn kind(&self, ending: &str) -> &'static str {
        let named = by_ending(ending);
        let text = self.text.trim_start_matches('\u{feff}').trim_start();
        if let Some(kind) = self.markup(text, named) {
            return kind;
        }
        if let Some(kind) = json(text, named) {
            return kind;
        }
        match named {
            // The bytes have just been seen not to be that; a page without a tag is possible.
            Some(
                "image/svg+xml" | "application/xml" | "application/xhtml+xml" | "application/x-ipynb+json",
            ) => "text/plain",
            Some("application/json" | "application/geo+json") => "text/plain",
            Some(kind) => kind,
            None if text.starts_with("#!") => "text/x-shellscript",
            None => separated(text).unwrap_or("text/plain"),
        }
    }

    /// Pages, pictures and other trees of tags.
    fn markup(&self, text: &str, named: Option<&'static str>) -> Option<&'static str> {
        let is_code =
            matches!(named, Some(kind) if !["text/html", "application/xml", "image/svg+xml"].contains(&kind));
        match page(text) {
            Page::Surely => return Some("text/html"),
            // Documentation begins so, too.
            Page::Perhaps if !is_code && root(text).is_none_or(|root| root != "svg") => {
                return Some("text/html");
            }
            Page::Perhaps | Page::Not => {}
        }
        if text.starts_with('<') {
            match root(text).as_deref() {
                Some("svg") => return Some("image/svg+xml"),
                Some("html") if text.starts_with("<?xml") => return Some("application/xhtml+xml"),
                Some("html") => return Some("text/html"),
                Some(_) if text.starts_with("<?xml") || named == Some("application/xml") => {
                    return Some("application/xml");
                }
                _ if text.starts_with("<?xml") => return Some("application/xml"),
                _ => {}
            }
        }
        // Somewhere in what isn't called a text at all: a reader that guesses would find it.
        let hidden = || {
            let lower = text.to_ascii_lowercase();
            ["<script", "<html", "<iframe", "<body", "<svg"].iter().any(|tag| lower.contains(tag))
        };
        (!is_code && hidden()).then_some("text/html")
    }
}

/// The name of the first element, in small letters, without its prefix.
fn root(text: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->")?.1;
        } else if let Some(instruction) = rest.strip_prefix("<?") {
            rest = instruction.split_once("?>")?.1;
        } else if let Some(declaration) = rest.strip_prefix("<!") {
            // One with declarations of its own in brackets ends after them.
            let inner = declaration.split_once('[').filter(|(before, _)| !before.contains('>'));
            let after = match inner {
                Some((_, inner)) => inner.split_once(']')?.1,
                None => declaration,
            };
            rest = after.split_once('>')?.1;
        } else {
            let tag = rest.strip_prefix('<')?;
            let end = tag.find(|character: char| character.is_whitespace() || "/>".contains(character));
            let name = &tag[..end.unwrap_or(tag.len())];
            let name = name.rsplit(':').next().unwrap_or_default();
            return Some(name.chars().take(32).collect::<String>().to_ascii_lowercase());
        }
    }
}

fn json(text: &str, named: Option<&'static str>) -> Option<&'static str> {
    let is_named = named.is_some_and(|kind| kind.ends_with("json"));
    if !is_named && !text.starts_with(['{', '[']) {
        return None;
    }
    if named == Some("application/x-ndjson") {
        return named;
    }
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut whole = 0_u32;
    let ended = loop {
        match documents.next() {
            Some(Ok(_)) => whole += 1,
            Some(Err(error)) => break error.is_eof(),
            None => break true,
        }
    };
    if !ended || (whole == 0 && text.len() < SNIFFED_BYTES / 2) {
        return None;
    }
    if whole > 1 {
        return Some("application/x-ndjson");
    }
    let notebook = text.contains("\"nbformat\"") && text.contains("\"cells\"");
    Some(match named {
        _ if notebook => "application/x-ipynb+json",
        Some(kind) if kind.ends_with("json") => kind,
        // Code and configuration can look like that.
        Some(kind) if kind != "text/plain" => return Some(kind),
        _ => "application/json",
    })
}

/// Lines of as many fields each.
fn separated(text: &str) -> Option<&'static str> {
    let whole = text.rsplit_once('\n').map_or(text, |(lines, _)| lines);
    for (separator, kind) in [('\t', "text/tab-separated-values"), (',', "text/csv")] {
        let mut lines = whole.lines().filter(|line| !line.trim().is_empty()).take(20).map(|line| {
            let mut quoted = false;
            line.chars()
                .filter(|character| {
                    quoted ^= *character == '"';
                    *character == separator && !quoted
                })
                .count()
        });
        let Some(fields) = lines.next().filter(|count| *count > 0) else { continue };
        let (mut others, mut same) = (0, true);
        for count in lines {
            others += 1;
            same &= count == fields;
        }
        // Two sentences may have a comma each.
        if same && others >= if fields == 1 { 2 } else { 1 } {
            return Some(kind);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    #[test]
    fn bytes_have_the_last_word() {
        let cases: &[(&str, &[u8], &str)] = &[
            ("plot.png", PNG, "image/png"),
            ("plot.txt", PNG, "image/png"),
            ("noname", PNG, "image/png"),
            ("photo.png", b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
            ("a", b"GIF89a\x01\0\x01\0\x80", "image/gif"),
            ("a", b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
            ("a.pdf", b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
            ("a.txt", b"%PDF-1.4\n1 0 obj\n", "application/pdf"),
            ("a.bin", b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip"),
            ("a", b"PK\x03\x04\x14\0\0\0\0\0", "application/zip"),
            ("a.npz", b"PK\x03\x04\x14\0\0\0\0\0", "application/x-npz"),
            (
                "a",
                b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0x.npy",
                "application/x-npz",
            ),
            ("a.npy", b"\x93NUMPY\x01\0v\0{'descr'", "application/x-npy"),
            ("t", b"PAR1\x15\x04\x15\x10", "application/vnd.apache.parquet"),
            ("t.parquet", b"PAR1 is how a file begins\n", "text/plain"),
            ("t", b"ARROW1\0\0\xff\xff\xff\xff", "application/vnd.apache.arrow.file"),
            ("t.feather", b"FEA1\0\0\0\0", "application/vnd.apache.arrow.file"),
            ("t.h5", b"\x89HDF\r\n\x1a\n\0", "application/x-hdf5"),
            ("d", b"SQLite format 3\0", "application/vnd.sqlite3"),
            ("m.pkl", b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.", UNKNOWN),
            ("not.png", b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.", UNKNOWN),
            ("not.html", b"\x01\x02\x03\x04", UNKNOWN),
            ("x.wasm", b"\0asm\x01\0\0\0", "application/wasm"),
            ("utf16.txt", b"\xff\xfeh\0i\0", "text/plain"),
        ];
        for (name, first, expected) in cases {
            assert_eq!(media_type(name, first), *expected, "{name} {:?}", String::from_utf8_lossy(first));
        }
    }

    #[test]
    fn pages_are_called_pages_whatever_their_name() {
        let pages: &[&[u8]] = &[
            b"<!DOCTYPE html><html></html>",
            b"\n\t <HTML>\n",
            b"\xef\xbb\xbf<html>",
            b"<script>alert(1)</script>",
            b"<SCRIPT\nsrc=x>",
            b"<iframe src=x>",
            b"<body onload=alert(1)>",
            b"<html>\0<script>",
            b"<!doctype html>\xff\xfe\0",
            b"<style>@import url(x)</style>",
        ];
        for first in pages {
            for name in
                ["plot.png", "a.csv", "a.txt", "a.md", "a.json", "a.svg", "a.pdf", "a", "a.html", "a.xml"]
            {
                assert_eq!(
                    media_type(name, first),
                    "text/html",
                    "{name} {:?}",
                    String::from_utf8_lossy(first)
                );
            }
        }
        // Tags that documentation begins with, and those that come later.
        for first in [&b"<p align=center>x</p>"[..], b"<!-- x -->\n<h1>x", b"<img src=x onerror=alert(1)>"] {
            assert_eq!(media_type("a.png", first), "text/html");
            assert_eq!(media_type("a", first), "text/html");
            assert_eq!(media_type("README.md", first), "text/markdown");
        }
        assert_eq!(media_type("a.gif", b"GIF89a/*<script>*/=1;"), "text/html");
        assert_eq!(media_type("a.jpg", b"hello <ScRiPt>alert(1)</sCrIpT>"), "text/html");
        assert_eq!(media_type("a.py", b"page = '<script>'\n"), "text/x-python");
        assert_eq!(media_type("a.html", b"just words"), "text/html");
    }

    #[test]
    fn kinds_of_text_are_told_apart() {
        let cases: &[(&str, &str, &str)] = &[
            ("a.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
            (
                "a.txt",
                "<?xml version='1.0'?>\n<!-- x --><!DOCTYPE svg PUBLIC \"x\" [<!ENTITY a 'b'>]>\n<svg>",
                "image/svg+xml",
            ),
            ("a.png", "<svg onload=alert(1)>", "image/svg+xml"),
            ("a", "<?xml version='1.0'?><ns:svg/>", "image/svg+xml"),
            ("a", "<?xml version='1.0'?><feed/>", "application/xml"),
            ("a.xml", "<feed/>", "application/xml"),
            ("a", "<?xml version='1.0'?><html/>", "application/xhtml+xml"),
            ("a.svg", "nothing of the kind", "text/plain"),
            ("a.json", "{\"a\": [1, 2]}", "application/json"),
            ("a", "  [1, 2]\n", "application/json"),
            ("a.txt", "{\"a\": 1}", "application/json"),
            ("a.json", "12", "application/json"),
            ("a.json", "{a: 1}", "text/plain"),
            ("a", "{not json", "text/plain"),
            ("a", "{\"a\":1}\n{\"a\":2}\n", "application/x-ndjson"),
            ("a.jsonl", "{\"a\":1}\n", "application/x-ndjson"),
            ("a.ipynb", "{\"cells\": [], \"nbformat\": 4}", "application/x-ipynb+json"),
            ("a", "{\"cells\": [], \"nbformat\": 4}", "application/x-ipynb+json"),
            ("a.geojson", "{}", "application/geo+json"),
            ("a.csv", "a\n1\n", "text/csv"),
            ("a", "a,b,c\n1,\"x,y\",3\n", "text/csv"),
            ("a", "a\tb\n1\t2\n3\t4\n", "text/tab-separated-values"),
            ("a", "Well, yes.\nNo, no.\n", "text/plain"),
            ("a.txt", "a,b,c\n1,2,3\n", "text/plain"),
            ("a.md", "# Title\n", "text/markdown"),
            ("a", "# Title\n", "text/plain"),
            ("run", "#!/bin/sh\n", "text/x-shellscript"),
            ("a.yaml", "[1, 2]", "application/yaml"),
            ("a.png", "BMW is a car", "text/plain"),
            ("a.exe", "MZ is how they begin", "text/plain"),
            ("a.txt", "caf\u{e9}", "text/plain"),
            ("UPPER.CSV", "x\n", "text/csv"),
            ("dir.csv/file", "x\n", "text/plain"),
        ];
        for (name, first, expected) in cases {
            assert_eq!(media_type(name, first.as_bytes()), *expected, "{name} {first}");
        }
        assert_eq!(media_type("latin.txt", b"caf\xe9 au lait, s'il vous pla\xeet"), "text/plain");
    }

    #[test]
    fn empty_files_are_what_text_they_are_called_and_nothing_else() {
        assert_eq!(media_type("a.csv", b""), "text/csv");
        assert_eq!(media_type("a.png", b""), UNKNOWN);
        assert_eq!(media_type("", b""), UNKNOWN);
    }

    #[test]
    fn a_file_cut_off_in_the_middle_is_still_known() {
        let long = format!("{{\"a\": [{}", "\"ö\", ".repeat(5_000));
        for cut in SNIFFED_BYTES - 3..SNIFFED_BYTES {
            assert_eq!(media_type("a", &long.as_bytes()[..cut]), "application/json");
        }
        // However deep it goes.
        assert_eq!(media_type("a", "[".repeat(SNIFFED_BYTES).as_bytes()), "application/json");
    }

    #[test]
    fn only_what_cannot_run_is_shown_in_a_page() {
        for mime in ["image/png", "text/plain", "text/plain; charset=utf-8", "application/json", "video/mp4"]
        {
            assert!(may_be_inline(mime), "{mime}");
        }
        for mime in [
            "text/html",
            "image/svg+xml",
            "application/xhtml+xml",
            "application/xml",
            "application/pdf",
            "text/javascript",
            "",
            UNKNOWN,
        ] {
            assert!(!may_be_inline(mime), "{mime}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_something(name in any::<String>(), first in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mime = media_type(&name, &first);
            prop_assert!(mime.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty()));
        }

        #[test]
        fn any_text_is_something(
            name in "[a-z/]{0,4}\\.(png|svg|html|json|csv|md|xml|ipynb|npz)?",
            first in "[<>!?\\[\\]{}\",:a-z/\\- \\n\\t]{0,64}",
        ) {
            let mime = media_type(&name, first.as_bytes());
            prop_assert_ne!(mime, "image/png");
        }

        #[test]
        fn a_page_is_never_hidden_by_its_name(
            name in any::<String>(),
            space in "[ \\n\\t\\r]{0,8}",
            rest in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut first = format!("{space}<html>").into_bytes();
            first.extend(rest);
            prop_assert_eq!(media_type(&name, &first), "text/html");
        }
    }
}
