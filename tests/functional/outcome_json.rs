use std::time::Duration;

use belljar::{Outcome, Policy, Status, Tool, outcome_schema};
use belljar_tests::{builder, violations};
use serde_json::{Value, json};

/// Cells whose outcomes differ in as many fields as possible.
const CELLS: [(&str, Status); 14] = [
    ("1 + 1", Status::Ok),
    ("x = 1", Status::Ok),
    ("print('a' * 5000)\nimport sys\nprint('b' * 5000, file=sys.stderr)", Status::Ok),
    (
        "class P:\n    def _repr_png_(self): return b'png'\n    def _repr_json_(self): return [1, {'a': None}]\nfor n in 1, 2: display(P())\nP()",
        Status::Ok,
    ),
    ("def f(): 1/0\nf()", Status::Error),
    ("x = (", Status::Error),
    ("raise ExceptionGroup('g', [ValueError('\\udc80')])", Status::Error),
    ("import sys\nsys.exit(3)", Status::Exited),
    ("import os\nos._exit(1)", Status::Exited),
    ("while True: pass", Status::Timeout),
    ("sum(range(10**15))", Status::Timeout),
    ("bytearray(2**30)", Status::OutOfMemory),
    ("open('a', 'w').close()\nopen('b', 'w').close()\ntools.one()", Status::Ok),
    ("import os\nopen('a', 'w').write('1')\nos.unlink('b')", Status::Ok),
];

#[test]
fn outcomes_follow_their_schema_and_round_trip() {
    let policy = Policy { timeout: Some(Duration::from_millis(300)), output: 1000, ..Policy::default() };
    let tool = Tool::new("one", "", |_| Ok(json!(1)));
    let session = builder().policy(policy).tool(tool).build_blocking().unwrap().session_blocking().unwrap();
    for (code, status) in CELLS {
        let outcome = session.run_blocking(code).unwrap();
        assert_eq!(outcome.status, status, "{code}: {outcome:#?}");
        let json = serde_json::to_value(&outcome).unwrap();
        assert_eq!(violations(&outcome_schema(), &json), Vec::<String>::new(), "{code}");
        assert_eq!(serde_json::from_value::<Outcome>(json).unwrap(), outcome, "{code}");
    }
}

#[test]
fn the_validator_finds_what_is_wrong() {
    let session = builder().build_blocking().unwrap().session_blocking().unwrap();
    let good = serde_json::to_value(session.run_blocking("1").unwrap()).unwrap();
    let wrong = |change: fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        violations(&outcome_schema(), &value).len()
    };
    assert_eq!(wrong(|_| ()), 0);
    assert_ne!(wrong(|value| value["version"] = json!(2)), 0);
    assert_ne!(wrong(|value| value["status"] = json!("fine")), 0);
    assert_ne!(wrong(|value| value["stdout"] = json!(1)), 0);
    assert_ne!(wrong(|value| value["value"]["text"] = json!(null)), 0);
    assert_ne!(wrong(|value| value["usage"]["wall_ms"] = json!(-1)), 0);
    assert_ne!(wrong(|value| value["displays"] = json!([{}])), 0);
    assert_ne!(wrong(|value| drop(value.as_object_mut().unwrap().remove("session"))), 0);
}

#[test]
fn the_json_of_a_simple_cell() {
    let session = builder().build_blocking().unwrap().session_blocking().unwrap();
    let mut json = serde_json::to_value(session.run_blocking("print('hi')\n6 * 7").unwrap()).unwrap();
    json["usage"] = json!("…");
    json["session"]["id"] = json!("…");
    insta::assert_json_snapshot!(json, @r#"
    {
      "artifacts": [],
      "artifacts_refused": [],
      "datasets": [],
      "displays": [],
      "exception": null,
      "exit_code": null,
      "files_created": [],
      "files_deleted": [],
      "files_modified": [],
      "files_truncated": false,
      "notes": [],
      "reason": null,
      "session": {
        "cell": 1,
        "id": "…",
        "state": "kept"
      },
      "status": "ok",
      "stderr": "",
      "stderr_cut": null,
      "stdout": "hi\n",
      "stdout_cut": null,
      "usage": "…",
      "value": {
        "data": {
          "text/plain": "42"
        },
        "text": "42"
      },
      "version": 1
    }
    "#);
}
