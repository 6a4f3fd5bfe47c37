//! What the flattener doesn't understand, it refuses by name.

use belljar_runtime::flatten::{Options, flatten};

use crate::sample::{Oddity, component};

fn refusal(oddity: Oddity) -> String {
    let options = Options { keep: &[], ..Options::default() };
    let error = flatten(&component(Some(oddity)), &options).expect_err("odd");
    assert!(!error.hint().is_empty());
    error.to_string()
}

#[test]
fn every_oddity_is_refused_by_name() {
    for (oddity, expected) in [
        (Oddity::StartFunction, "core module 5 has a start function"),
        (Oddity::PassiveData, "data segment 0 of core module 5 is passive"),
        (Oddity::DataOutside, "data segment 0 of core module 5 is outside of the memory"),
        (Oddity::SecondMemory, "2 memories instead of one"),
        (Oddity::WideGlobal, "global 0 of core module 5 is i64, not i32"),
        (Oddity::UnknownConstant, "global 0 of core module 5 is f32, not i32"),
        (Oddity::TableChanged, "core module 2 changes a table with TableSet"),
        (Oddity::Utf16, "unknown canonical option UTF16 on `exchange`"),
        (Oddity::InstantiatedTwice, "core module 2 is instantiated twice"),
        (Oddity::NoStackPointer, "no core module exports `__stack_pointer`"),
        (Oddity::DeclaredElements, "element segment 0 of core module 5 is passive or declared"),
        (Oddity::ResourceNew, "unknown canonical function ResourceNew"),
    ] {
        assert_eq!(refusal(oddity), expected, "{oddity:?}");
    }
}

#[test]
fn a_missing_function_is_named() {
    let error = flatten(&component(None), &Options::default()).expect_err("the sample isn't CPython");
    assert_eq!(error.to_string(), "no core module exports `PyErr_SetInterruptEx`");
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"\0asm\x01\0\0\0", b"#!/bin/sh"] {
        assert!(flatten(bytes, &Options::default()).is_err());
    }
}
