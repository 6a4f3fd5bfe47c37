use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use belljar::{Outcome, Policy, SandboxBuilder, Status, Tool, ToolFailure};
use belljar_tests::{block_on, builder};
use serde_json::{Value, json};

/// Gives back what it was given.
fn echo() -> Tool {
    Tool::new("echo", "Gives back what it was given.", |given| {
        Ok(json!({ "args": given.args, "kwargs": given.kwargs }))
    })
}

fn add() -> Tool {
    Tool::new("add", "Adds two numbers.", |given| {
        match (given.get("a", 0).and_then(Value::as_i64), given.get("b", 1).and_then(Value::as_i64)) {
            (Some(a), Some(b)) => Ok((a + b).into()),
            _ => Err(ToolFailure::new("TypeError", "add takes two whole numbers")),
        }
    })
    .parameters(json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        "required": ["a", "b"],
    }))
}

fn run(sandbox: SandboxBuilder, code: &str) -> Outcome {
    sandbox.build_blocking().unwrap().run_blocking(code).unwrap()
}

#[track_caller]
fn value(outcome: Outcome) -> String {
    match outcome.value {
        Some(value) => value.text,
        None => panic!("{outcome:#?}"),
    }
}

#[test]
fn a_tool_is_called_by_name() {
    let outcome = run(builder().tool(add()), "tools.add(2, b=40)");
    assert_eq!(outcome.usage.tool_calls, 1);
    assert_eq!(value(outcome), "42");
}

#[test]
fn arguments_and_results_are_json() {
    let code = "tools.echo(1, 2.5, 'ä', None, True, [1, (2, 3)], k={'n': {'m': []}})";
    insta::assert_snapshot!(value(run(builder().tool(echo()), code)), @"{'args': [1, 2.5, 'ä', None, True, [1, [2, 3]]], 'kwargs': {'k': {'n': {'m': []}}}}");
    assert_eq!(
        value(run(builder().tool(echo()), "tools.echo(2 ** 60, -2 ** 60)['args'] == [2 ** 60, -2 ** 60]")),
        "True"
    );
}

#[test]
fn a_tool_can_be_awaited() {
    assert_eq!(value(run(builder().tool(add()), "await tools.add(1, 2)")), "3");
    let code = "import asyncio\nasync def main(): return await tools.add(3, 4)\nasyncio.run(main())";
    assert_eq!(value(run(builder().tool(add()), code)), "7");
}

#[test]
fn sync_works_where_a_loop_runs() {
    assert_eq!(
        value(run(builder().tool(add()), "import asyncio\nawait asyncio.sleep(0)\ntools.add.sync(1, 1)")),
        "2"
    );
}

#[test]
fn gathered_tools_run_at_the_same_time() {
    let barrier = Arc::new(Barrier::new(5));
    let meet = Tool::new("meet", "Returns when all five are there.", move |given| {
        barrier.wait();
        Ok(given.args[0].clone())
    });
    let code = "import asyncio\nawait asyncio.gather(*(tools.meet(n) for n in range(5)))";
    assert_eq!(value(run(builder().tool(meet), code)), "[0, 1, 2, 3, 4]");
}

#[test]
fn an_async_tool_runs_on_the_callers_runtime() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, seen) = (Arc::clone(&running), Arc::clone(&most));
    let wait = Tool::new_async("wait", "Waits.", move |given| {
        let (now, seen) = (Arc::clone(&now), Arc::clone(&seen));
        async move {
            seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(given.args[0].clone())
        }
    });
    let outcome = block_on(async {
        let sandbox = builder().tool(wait).build().await.unwrap();
        sandbox
            .run("import asyncio\nsum(await asyncio.gather(*(tools.wait(n) for n in range(20))))")
            .await
            .unwrap()
    });
    assert_eq!(value(outcome), "190");
    assert!(most.load(Ordering::SeqCst) > 1);
}

#[test]
fn an_async_tool_works_without_a_runtime() {
    let wait = Tool::new_async("wait", "Waits.", |_| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(json!("waited"))
    });
    assert_eq!(value(run(builder().tool(wait), "tools.wait()")), "'waited'");
}

#[test]
fn a_tools_failure_is_an_exception() {
    let fail = Tool::new("fail", "Fails.", |given| {
        Err(ToolFailure::new(given.args[0].as_str().unwrap_or_default(), "because"))
    });
    let code = "
seen = []
for kind in 'ValueError', 'KeyError', 'PermissionError', 'Mystery', 'SystemExit', 'int', '':
    try: tools.fail(kind)
    except Exception as error: seen.append((type(error).__name__, str(error)))
seen";
    insta::assert_snapshot!(value(run(builder().tool(fail), code)), @r#"[('ValueError', 'because'), ('KeyError', "'because'"), ('PermissionError', 'because'), ('ToolError', 'Mystery: because'), ('ToolError', 'SystemExit: because'), ('ToolError', 'int: because'), ('ToolError', 'because')]"#);
}

#[test]
fn an_awaited_failure_is_an_exception() {
    let fail = Tool::new("fail", "Fails.", |_| Err(ToolFailure::new("LookupError", "not found")));
    let outcome = run(
        builder().tool(fail),
        "import asyncio\nawait asyncio.gather(tools.fail(), tools.fail(), return_exceptions=True)",
    );
    assert_eq!(value(outcome), "[LookupError('not found'), LookupError('not found')]");
}

#[test]
fn a_failure_that_nobody_catches_ends_the_cell() {
    let outcome = run(builder().tool(add()), "x = 1\ntools.add('a', 'b')");
    let raised = outcome.exception.unwrap();
    assert_eq!((raised.kind.as_str(), raised.message.as_str()), ("TypeError", "add takes two whole numbers"));
    insta::assert_snapshot!(raised.traceback, @r#"
    Traceback (most recent call last):
      File "<cell 1>", line 2, in <module>
        tools.add('a', 'b')
        ~~~~~~~~~^^^^^^^^^^
    TypeError: add takes two whole numbers
    "#);
}

#[test]
fn a_panicking_tool_is_a_failure() {
    let panics = Tool::new("panics", "Panics.", |_| panic!("in the tool"));
    let panics_later = Tool::new_async("panics_later", "Panics.", |_| async { panic!("in the tool") });
    let outcome = block_on(async {
        let sandbox = builder().tool(panics).tool(panics_later).build().await.unwrap();
        let code = "seen = []\nfor tool in tools.panics, tools.panics_later:\n    try: tool()\n    except Exception as e: seen.append((type(e).__name__, str(e)))\nseen";
        sandbox.run(code).await.unwrap()
    });
    assert_eq!(
        value(outcome),
        "[('ToolError', 'the tool panics panicked'), ('ToolError', 'the tool panics_later panicked')]"
    );
}

#[test]
fn a_slow_tool_is_given_up() {
    let slow = Tool::new("slow", "Is slow.", |_| {
        thread::sleep(Duration::from_secs(3));
        Ok(json!(1))
    });
    let policy = Policy { tool_timeout: Duration::from_millis(100), ..Policy::default() };
    let code = "
import asyncio
seen = []
try: tools.slow()
except TimeoutError as error: seen.append('sync')
async def main():
    try: await tools.slow()
    except TimeoutError as error: seen.append('await')
asyncio.run(main())
seen";
    let outcome = run(builder().policy(policy).tool(slow), code);
    assert!(outcome.usage.wall_ms < 2500.0, "{:?}", outcome.usage);
    assert_eq!(value(outcome), "['sync', 'await']");
}

#[test]
fn a_deadline_does_not_wait_for_a_slow_tool() {
    let slow = Tool::new("slow", "Is slow.", |_| {
        thread::sleep(Duration::from_secs(20));
        Ok(json!(1))
    });
    let sandbox = builder().timeout(Duration::from_millis(200)).tool(slow).build_blocking().unwrap();
    for code in [
        "tools.slow()",
        "await tools.slow()",
        "import asyncio\nasync def f(): await tools.slow()\nasyncio.run(f())",
    ] {
        let session = sandbox.session_blocking().unwrap();
        session.run_blocking("x = 1").unwrap();
        let outcome = session.run_blocking(code).unwrap();
        assert_eq!(outcome.status, Status::Timeout, "{code}: {outcome:#?}");
        assert!(outcome.usage.wall_ms < 10_000.0, "{code}: {:?}", outcome.usage);
        assert_eq!(belljar_tests::text(&session, "x"), "1", "{code}");
    }
}

#[test]
fn the_number_of_calls_is_limited() {
    let policy = Policy { tool_calls: 3, ..Policy::default() };
    let code = "
done = 0
try:
    while True:
        tools.add(1, 1); done += 1
except Exception as error: told = type(error).__name__, str(error)
done, told";
    let sandbox = builder().policy(policy).tool(add()).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    assert_eq!(
        belljar_tests::text(&session, code),
        "(3, ('ToolError', 'this cell has used up its 3 tool calls'))"
    );
    assert_eq!(belljar_tests::text(&session, "tools.add(1, 1)"), "2", "the next cell has calls of its own");
}

#[test]
fn the_size_of_arguments_is_limited() {
    let policy = Policy { tool_bytes: 1000, ..Policy::default() };
    for call in ["tools.echo('x' * 2000)", "await tools.echo('x' * 2000)"] {
        let outcome = run(builder().policy(policy.clone()).tool(echo()), call);
        assert_eq!(outcome.exception.unwrap().kind, "ValueError", "{call}");
    }
}

#[test]
fn the_size_of_results_is_limited() {
    let large = Tool::new("large", "Says much.", |_| Ok(json!("x".repeat(2000))));
    let policy = Policy { tool_bytes: 1000, ..Policy::default() };
    for call in [
        "tools.large()",
        "await tools.large()",
        "import asyncio\nasync def f(): return await tools.large()\nasyncio.run(f())",
    ] {
        let outcome = run(builder().policy(policy.clone()).tool(large.clone()), call);
        assert_eq!(outcome.exception.map(|raised| raised.kind).as_deref(), Some("ValueError"), "{call}");
    }
}

#[test]
fn large_arguments_and_results_pass_within_the_limit() {
    let outcome = run(
        builder().tool(echo()),
        "len(tools.echo.sync('x' * 3_000_000)['args'][0]), len((await tools.echo('y' * 3_000_000))['args'][0])",
    );
    assert_eq!(value(outcome), "(3000000, 3000000)");
}

#[test]
fn an_unknown_tool_is_an_attribute_error_that_helps() {
    let raised = run(builder().tool(add()), "tools.ad(1, 2)").exception.unwrap();
    assert_eq!(raised.kind, "AttributeError");
    insta::assert_snapshot!(raised.message, @"there is no tool 'ad'. Did you mean 'add'? Available: add");
    let raised = run(builder(), "tools.anything()").exception.unwrap();
    insta::assert_snapshot!(raised.message, @"there is no tool 'anything': the host offers none to this session");
}

#[test]
fn arguments_that_are_not_json_are_told() {
    for argument in ["object()", "{1, 2}", "b'x'", "float('nan')", "{1: 2}", "[[lambda: 0]]", "print"] {
        let raised = run(builder().tool(echo()), &format!("tools.echo({argument})")).exception.unwrap();
        assert_eq!(raised.kind, "TypeError", "{argument}");
    }
    let raised = run(builder().tool(echo()), "x = []\nx.append(x)\ntools.echo(x)").exception.unwrap();
    assert_eq!(raised.kind, "TypeError");
}

#[test]
fn tools_describe_themselves() {
    let sandbox = builder().tool(add()).tool(echo()).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    assert_eq!(
        belljar_tests::text(&session, "dir(tools), list(tools), 'add' in tools, len(tools)"),
        "(['ToolError', 'add', 'echo'], ['add', 'echo'], True, 2)"
    );
    assert_eq!(
        belljar_tests::text(&session, "import inspect\nstr(inspect.signature(tools.add)), tools.add.__doc__"),
        "('(a: int, b: int)', 'Adds two numbers.')"
    );
    assert_eq!(
        belljar_tests::text(
            &session,
            "from tools import add\nimport tools as same\nadd(1, 1), same is tools"
        ),
        "(2, True)"
    );
}

#[test]
fn names_that_are_no_identifiers_are_refused() {
    for name in ["", "1st", "a-b", "a b", "__init__", "ä"] {
        let tool = Tool::new(name, "", |_| Ok(Value::Null));
        assert!(builder().tool(tool).build_blocking().is_err(), "{name:?}");
    }
    assert!(builder().tool(add()).tool(add()).build_blocking().is_err(), "twice");
}

#[test]
fn a_tool_may_use_another_session() {
    let other = builder().build_blocking().unwrap().session_blocking().unwrap();
    other.run_blocking("total = 0").unwrap();
    let ask = Tool::new("ask", "Asks another session.", move |given| {
        let code = format!("total += {}\ntotal", given.args[0]);
        let outcome =
            other.run_blocking(code).map_err(|error| ToolFailure::new("ToolError", error.to_string()))?;
        Ok(json!(outcome.value.map(|value| value.text)))
    });
    assert_eq!(value(run(builder().tool(ask), "[tools.ask(n) for n in (1, 2, 3)]")), "['1', '3', '6']");
}

#[test]
fn a_late_answer_does_not_reach_the_next_cell() {
    let slow = Tool::new("slow", "Is slow.", |given| {
        thread::sleep(Duration::from_millis(given.args[0].as_u64().unwrap_or(0)));
        Ok(given.args[0].clone())
    });
    let sandbox = builder().timeout(Duration::from_millis(150)).tool(slow).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    for _ in 0..3 {
        session
            .run_blocking(
                "import asyncio\nt = asyncio.ensure_future(tools.slow(200))\nawait asyncio.sleep(0.01)",
            )
            .unwrap();
        assert_eq!(belljar_tests::text(&session, "await tools.slow(1), tools.slow.sync(2)"), "(1, 2)");
    }
}

#[test]
fn integers_that_json_readers_would_round_are_refused() {
    let echo =
        belljar::Tool::new("echo", "", |arguments| Ok(arguments.get("n", 0).cloned().unwrap_or_default()));
    let session = belljar_tests::builder().tool(echo).build_blocking().unwrap().session_blocking().unwrap();
    assert_eq!(
        belljar_tests::text(&session, "tools.echo(2**64 - 1) == 2**64 - 1, tools.echo([-2**63])"),
        "(True, [-9223372036854775808])"
    );
    for code in ["tools.echo(2**64)", "tools.echo({'a': [10**400]})"] {
        let outcome = session.run_blocking(code).unwrap();
        assert_eq!(outcome.exception.unwrap().kind, "TypeError", "{code}");
    }
}
