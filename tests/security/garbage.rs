//! Things that aren't Python.

use belljar::Status;
use belljar_tests::Hostile;

use crate::cells::{hostile, raising};

raising! {
    zeros("\0\0\0") => "SyntaxError";
    a_zero_in_the_middle("x = 1\0\ny = 2") => "SyntaxError";
    a_zero_in_a_string("x = 'a\0b'") => "SyntaxError";
    bytes_above_127(vec![0xff, 0xfe, 0x80]) => "SyntaxError";
    a_lone_surrogate(b"x = '\xed\xa0\x80'".to_vec()) => "SyntaxError";
    utf_16("x = 1".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()) => "SyntaxError";
    a_cut_character(b"x = '\xe2\x82".to_vec()) => "SyntaxError";
    an_overlong_form(b"x = '\xc0\xaf'".to_vec()) => "SyntaxError";
    an_unknown_character("x = \u{200b}1") => "SyntaxError";
    a_quote("'") => "SyntaxError";
    three_quotes("'''") => "SyntaxError";
    a_backslash("\\") => "SyntaxError";
    mixed_tabs("if 1:\n\tx = 1\n        y = 2\n") => "TabError";
    unbalanced_dedents("if 1:\n        x = 1\n    y = 2\n") => "IndentationError";
    a_return("return 1") => "SyntaxError";
    a_huge_number("9".repeat(1_000_000)) => "SyntaxError";
    surrogates_passed_to_exec("exec('x = \"\\ud800\"')") => "UnicodeEncodeError";
}

hostile! {
    a_byte_order_mark("\u{feff}x = 1\nassert x == 1") => [Ok];
    a_byte_order_mark_alone("\u{feff}") => [Ok];
    a_coding_cookie("# -*- coding: latin-1 -*-\nx = 'ä'\nassert x == chr(0xe4)") => [Ok];
    an_unknown_coding_cookie("# -*- coding: nowhere -*-\nx = 1") => [Ok, Error];
    carriage_returns("x = 1\r\ny = 2\rz = x + y\r\nassert z == 3") => [Ok];
    form_feeds("\x0cx = 1\n\x0c\ny = 2") => [Ok];
    nothing("") => [Ok];
    white_space(" \t\n \n\t\t\n") => [Ok];
    an_escape("\x1b[2J\x1b]0;title\x07") => [Error];
    fifty_megabytes_of_comment(format!("#{}", "x".repeat(50_000_000))) => [Ok, Error, OutOfMemory];
    fifty_megabytes_of_lines("x=1\n".repeat(12_500_000)) => [Ok, OutOfMemory, Error, Timeout, Killed];
    fifty_megabytes_of_newlines("\n".repeat(50_000_000)) => [Ok, OutOfMemory, Error, Timeout];
    fifty_megabytes_of_string(format!("x = '{}'", "y".repeat(50_000_000))) => [Ok, OutOfMemory, Error, Timeout];
    fifty_megabytes_of_brackets("[".repeat(50_000_000)) => [Error, OutOfMemory, Timeout];
    fifty_megabytes_of_names("a ".repeat(25_000_000)) => [Error, OutOfMemory, Timeout];
    fifty_megabytes_of_zeros(vec![0_u8; 50_000_000]) => [Error, OutOfMemory, Timeout];
    fifty_megabytes_of_noise(noise(1, 50_000_000)) => [Error, OutOfMemory];
    more_than_its_memory(vec![b'#'; 300_000_000]) => [Error, OutOfMemory, Killed];
    many_arguments("def f(**k): pass\neval('f(' + ','.join(f'a{n}=1' for n in range(100_000)) + ')')") => [Ok, Error, OutOfMemory, Timeout];
    a_million_constants("exec('x = [' + ','.join(map(str, range(500_000))) + ']')") => [Ok, OutOfMemory, Timeout];
    a_million_names("exec('\\n'.join(f'a{n} = {n}' for n in range(200_000)), {})") => [Ok, OutOfMemory, Timeout, Killed];
    a_long_file_name_in_an_exec("exec(compile('1/0', 'x' * 10_000_000, 'exec'))") => [Error, OutOfMemory];
    a_file_name_with_a_surrogate("exec(compile('1/0', 'x\\udc80', 'exec'))") => [Error];
    a_file_name_with_a_zero("exec(compile('1/0', 'x\\0y', 'exec'))") => [Error];
    a_deep_type_annotation("def f(x: " .to_owned() + &"list[".repeat(90) + "int" + &"]".repeat(90) + "): pass") => [Ok];
    non_ascii_identifiers("ﬁ = 1\nassert fi == 1\nｘ = 2\nassert x == 2") => [Ok];
}

/// Bytes that are the same every time (xorshift).
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn random_bytes_are_no_code() {
    let sandbox = belljar_tests::builder().policy(Hostile::policy()).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("keep = 41").unwrap();
    for seed in 0..300 {
        let mut code = noise(seed, 1 + (seed as usize * 37) % 3000);
        if seed % 2 == 0 {
            // Printable, so that more than the first byte is looked at.
            code.iter_mut().for_each(|byte| {
                *byte = b"\n\t ()[]{}:;,.=+-*/%'\"\\#@!0123456789abcdefgnrx"[usize::from(*byte) % 45]
            });
        }
        let outcome = session.run_blocking(code).unwrap();
        assert!([Status::Ok, Status::Error].contains(&outcome.status), "{seed}: {outcome:#?}");
    }
    assert_eq!(belljar_tests::text(&session, "keep"), "41");
}

#[test]
fn random_words_are_hardly_code() {
    const WORDS: [&str; 48] = [
        "if", "else", "for", "in", "while", "try", "except", "finally", "with", "as", "def", "class",
        "lambda", "yield", "await", "async", "return", "import", "from", "global", "nonlocal", "del",
        "match", "case", "type", "x", "y", "self", "1", "'s'", "f'{x}'", "(", ")", "[", "]", "{", "}", ":",
        ",", ".", "=", ":=", "*", "**", "\n", "\n    ", "->", "@",
    ];
    let sandbox = belljar_tests::builder().policy(Hostile::policy()).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("keep = 41").unwrap();
    for seed in 0..300 {
        let code: String =
            noise(seed, 60).iter().flat_map(|byte| [WORDS[usize::from(*byte) % WORDS.len()], " "]).collect();
        let outcome = session.run_blocking(code.as_str()).unwrap();
        assert!([Status::Ok, Status::Error].contains(&outcome.status), "{code}: {outcome:#?}");
    }
    assert_eq!(belljar_tests::text(&session, "keep"), "41");
}

#[test]
fn strange_file_names() {
    let session = belljar_tests::session();
    for name in ["", "a\nb", "<cell 1>", "é".repeat(60_000).as_str(), "/python/json/__init__.py"] {
        let outcome = session.run_blocking(belljar::Request::from_file(name, "1/0")).unwrap();
        assert_eq!(outcome.status, Status::Error, "{name:.20}");
        assert_eq!(outcome.exception.unwrap().kind, "ZeroDivisionError", "{name:.20}");
    }
}
