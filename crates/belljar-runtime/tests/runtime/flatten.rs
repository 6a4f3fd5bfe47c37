use belljar_runtime::flatten::{Flattened, Options, PAGE, Polls, flatten};
use wasmparser::{Operator, Parser, Payload};

use crate::sample::{DATA, FOLDED, PAGES, STACK, component};

fn flat(polls: Polls) -> Flattened {
    let options = Options { polls, keep: &["real_helper"], python: "3.14.0", ..Options::default() };
    flatten(&component(None), &options).expect("the sample has the known layout")
}

/// The names of the exports, and the instructions of each function.
fn read(core: &[u8]) -> (Vec<String>, Vec<Vec<Operator<'_>>>) {
    let (mut exports, mut bodies) = (Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(core) {
        match payload.expect("valid") {
            Payload::ExportSection(reader) => {
                exports.extend(reader.into_iter().map(|export| export.expect("valid").name.to_owned()));
            }
            Payload::CodeSectionEntry(body) => {
                let operators = body.get_operators_reader().expect("valid").into_iter();
                bodies.push(operators.collect::<Result<_, _>>().expect("valid"));
            }
            Payload::DataSection(_) => panic!("data belongs into the image"),
            _ => {}
        }
    }
    (exports, bodies)
}

#[test]
fn the_image_holds_the_data_and_one_more_page() {
    let flat = flat(Polls::Call);
    let mut expected = vec![0; (PAGES as usize + 1) * PAGE];
    expected[DATA.0..DATA.0 + DATA.1.len()].copy_from_slice(DATA.1);
    assert!(flat.image == expected);
    assert_eq!(flat.facts.initial_pages, PAGES + 1);
    assert_eq!(flat.facts.poll_address, PAGES * PAGE as u32);
}

#[test]
fn the_exports_have_their_plain_names() {
    let core = flat(Polls::Call).core;
    let expected =
        ["memory", "stack_pointer", "global_0", "handle", "cabi_post_handle", "cabi_realloc", "real_helper"];
    assert_eq!(read(&core).0, expected);
}

#[test]
fn stubs_and_shims_are_bypassed_and_dead_code_is_gone() {
    let flat = flat(Polls::None);
    let (_, bodies) = read(&flat.core);
    assert_eq!(bodies.len(), 4, "handle, its post-return, realloc and the helper");
    assert_eq!(flat.facts.functions, 4);
    assert!(bodies.iter().flatten().all(|operator| !matches!(operator, Operator::CallIndirect { .. })));
    let calls: Vec<u32> = bodies[0]
        .iter()
        .filter_map(|operator| match operator {
            Operator::Call { function_index } => Some(*function_index),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [0, 4], "the import, then the helper");
}

#[test]
fn globals_that_live_code_never_sets_are_constants() {
    let flat = flat(Polls::None);
    assert_eq!((flat.facts.mutable_globals, flat.facts.stack_pointer), (1, 0));
    let (_, bodies) = read(&flat.core);
    assert!(bodies[0].contains(&Operator::I32Const { value: FOLDED }));
    let initial = Parser::new(0).parse_all(&flat.core).find_map(|payload| match payload.expect("valid") {
        Payload::GlobalSection(reader) => reader.into_iter().next(),
        _ => None,
    });
    let initial = initial.expect("a global").expect("valid").init_expr;
    let initial = initial.get_operators_reader().read().expect("valid");
    assert_eq!(initial, Operator::I32Const { value: STACK });
}

#[test]
fn loops_are_polled_as_asked() {
    for (polls, count) in [(Polls::None, 0), (Polls::Trap, 1), (Polls::Call, 1)] {
        let flat = flat(polls);
        assert_eq!(flat.facts.polled_loops, count, "{polls:?}");
        let (_, bodies) = read(&flat.core);
        let mut operators =
            bodies[0].iter().skip_while(|operator| !matches!(operator, Operator::Loop { .. })).skip(1);
        if polls == Polls::None {
            assert!(matches!(operators.next(), Some(Operator::LocalGet { .. })));
            continue;
        }
        assert_eq!(operators.next(), Some(&Operator::I32Const { value: 0 }));
        let Some(Operator::I32Load { memarg }) = operators.next() else { panic!("no load") };
        assert_eq!((memarg.offset, memarg.align), (flat.facts.poll_address.into(), 2));
        assert!(matches!(operators.next(), Some(Operator::If { .. })));
        let action = operators.next();
        match polls {
            // Imports are sorted: `$root` comes before `belljar:host/control`.
            Polls::Call => assert_eq!(action, Some(&Operator::Call { function_index: 1 })),
            _ => assert_eq!(action, Some(&Operator::Unreachable)),
        }
    }
}

#[test]
fn the_facts_name_the_imports_and_their_allocators() {
    let facts = flat(Polls::Call).facts;
    let imports: Vec<_> =
        facts.imports.iter().map(|import| (import.module.as_str(), import.name.as_str())).collect();
    assert_eq!(imports, [("$root", "exchange"), ("belljar:host/control", "poll")]);
    assert_eq!(facts.imports[0].params, ["i32", "i32", "i32"]);
    assert_eq!(facts.imports[0].realloc.as_deref(), Some("cabi_realloc"));
    assert_eq!(facts.imports[1].realloc, None);
    let json = serde_json::to_string(&facts).expect("facts are JSON");
    assert_eq!(
        serde_json::from_str::<belljar_runtime::flatten::Facts>(&json).expect("they come back"),
        facts
    );
}

#[test]
fn the_same_component_gives_the_same_module() {
    assert!(flat(Polls::Call).core == flat(Polls::Call).core);
}

#[test]
fn no_bytes_make_it_panic() {
    let whole = component(None);
    let options = Options { keep: &[], ..Options::default() };
    for length in 0..whole.len() {
        // A cut at the end of a section can leave a valid component, without exports or even without memory.
        drop(flatten(&whole[..length], &options));
    }
    let mut accepted = 0;
    for position in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[position] ^= 1 << bit;
            accepted += usize::from(flatten(&bytes, &options).is_ok());
        }
    }
    assert!(accepted > 0, "some flips only change a constant");
    // Larger damage: a stretch overwritten by another.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % bound
    };
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        let length = 1 + random(24);
        let (from, to) = (random(whole.len() - length), random(whole.len() - length));
        bytes.copy_within(from..from + length, to);
        drop(flatten(&bytes, &options));
    }
}
