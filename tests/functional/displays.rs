use belljar::{Outcome, Policy};
use belljar_tests::{builder, run};
use serde_json::{Value, json};

fn value(outcome: Outcome) -> Value {
    serde_json::to_value(outcome.value.unwrap().data).unwrap()
}

#[test]
fn html_beside_text() {
    let outcome = run(
        "class T:\n    def __repr__(self): return 'T()'\n    def _repr_html_(self): return '<b>T</b>'\nT()",
    );
    assert_eq!(outcome.value.as_ref().unwrap().text, "T()");
    assert_eq!(value(outcome), json!({ "text/plain": "T()", "text/html": "<b>T</b>" }));
}

#[test]
fn png_is_base64() {
    let outcome = run(
        "class P:\n    def __repr__(self): return 'P'\n    def _repr_png_(self): return b'\\x89PNG\\r\\n'\nP()",
    );
    assert_eq!(value(outcome), json!({ "text/plain": "P", "image/png": "iVBORw0K" }));
}

#[test]
fn svg_markdown_latex_json() {
    let outcome = run("
class A:
    def __repr__(self): return 'A'
    def _repr_svg_(self): return '<svg/>'
    def _repr_markdown_(self): return '*a*'
    def _repr_latex_(self): return '$a$'
    def _repr_json_(self): return {'a': [1, None]}
A()");
    let expected = json!({
        "text/plain": "A",
        "image/svg+xml": "<svg/>",
        "text/markdown": "*a*",
        "text/latex": "$a$",
        "application/json": { "a": [1, null] },
    });
    assert_eq!(value(outcome), expected);
}

#[test]
fn a_mime_bundle_of_ones_own() {
    let outcome = run("
class M:
    def __repr__(self): return 'M'
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'mine', 'application/vnd.vega+json': {'mark': 'bar'}}
M()");
    assert_eq!(
        value(outcome),
        json!({ "text/plain": "mine", "application/vnd.vega+json": { "mark": "bar" } })
    );
}

#[test]
fn display_shows_in_order() {
    let outcome = run(
        "class H:\n    def __repr__(self): return 'H'\n    def _repr_html_(self): return '<i>h</i>'\ndisplay(1, H())\ndisplay('three')\n4",
    );
    let texts: Vec<&str> = outcome.displays.iter().map(|shown| shown.text.as_str()).collect();
    assert_eq!(texts, ["1", "H", "'three'"]);
    assert_eq!(outcome.displays[1].data.get_str("text/html"), Some("<i>h</i>"));
    assert_eq!(outcome.value.unwrap().text, "4");
}

#[test]
fn display_of_a_raw_bundle() {
    let outcome = run("display({'text/plain': 'p', 'text/html': '<p>'}, raw=True)");
    assert_eq!(
        serde_json::to_value(&outcome.displays[0].data).unwrap(),
        json!({ "text/plain": "p", "text/html": "<p>" })
    );
}

#[test]
fn displays_before_an_error_are_kept() {
    let outcome = run("display(1)\n1/0");
    assert_eq!(outcome.displays[0].text, "1");
    assert_eq!(outcome.exception.unwrap().kind, "ZeroDivisionError");
}

#[test]
fn a_failing_form_is_left_out_and_told() {
    let outcome = run(
        "class B:\n    def __repr__(self): return 'B'\n    def _repr_html_(self): raise ValueError('broken')\nB()",
    );
    assert_eq!(outcome.value.unwrap().text, "B");
    insta::assert_snapshot!(outcome.stderr, @"_repr_html_ of B raised ValueError: broken");
}

#[test]
fn an_object_that_answers_to_everything_is_not_fooled() {
    let outcome = run(
        "class Any:\n    def __getattr__(self, name): return lambda *a, **k: 'no'\n    def __repr__(self): return 'Any'\nAny()",
    );
    assert_eq!(value(outcome), json!({ "text/plain": "Any" }));
}

#[test]
fn displays_are_bounded() {
    let sandbox =
        builder().policy(Policy { display_bytes: 20_000, ..Policy::default() }).build_blocking().unwrap();
    let outcome = sandbox.run_blocking("for n in range(100): display('x' * 1000)").unwrap();
    assert!((5..20).contains(&outcome.displays.len()), "{}", outcome.displays.len());
    assert!(outcome.stderr.contains("dropped"), "{}", outcome.stderr);
}
