use belljar::Status;
use belljar_tests::{run, session, text};

#[test]
fn top_level_await() {
    assert_eq!(
        run("import asyncio\nawait asyncio.sleep(0.01, result='slept')").value.unwrap().text,
        "'slept'"
    );
}

#[test]
fn await_in_the_middle() {
    let outcome = run("import asyncio\nprint('a')\nx = await asyncio.sleep(0, 20)\nprint('b')\nx + 22");
    assert_eq!((outcome.stdout.as_str(), outcome.value.unwrap().text.as_str()), ("a\nb\n", "42"));
}

#[test]
fn async_for_and_with_at_the_top() {
    let outcome = run("
import contextlib
async def numbers():
    for n in range(3): yield n
@contextlib.asynccontextmanager
async def scope():
    yield 'in'
seen = []
async for n in numbers(): seen.append(n)
async with scope() as where: seen.append(where)
[n async for n in numbers()] + seen");
    assert_eq!(outcome.value.unwrap().text, "[0, 1, 2, 0, 1, 2, 'in']");
}

#[test]
fn asyncio_run() {
    let outcome = run(
        "import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    return 42\nasyncio.run(main())",
    );
    assert_eq!(outcome.value.unwrap().text, "42");
}

#[test]
fn asyncio_run_twice_and_in_a_later_cell() {
    let session = session();
    session.run_blocking("import asyncio\nasync def main(): return await asyncio.sleep(0.001, 1)").unwrap();
    assert_eq!(text(&session, "asyncio.run(main()) + asyncio.run(main())"), "2");
    assert_eq!(text(&session, "await main()"), "1");
    assert_eq!(text(&session, "asyncio.run(main())"), "1");
}

#[test]
fn gather_overlaps() {
    let outcome = run("
import asyncio, time
start = time.monotonic()
values = await asyncio.gather(*(asyncio.sleep(0.2, n) for n in range(50)))
sum(values), time.monotonic() - start < 5");
    assert_eq!(outcome.value.unwrap().text, "(1225, True)");
}

#[test]
fn wait_for_times_out() {
    let outcome = run("
import asyncio
try:
    await asyncio.wait_for(asyncio.sleep(60), 0.05)
except TimeoutError:
    print('timeout')
async with asyncio.timeout(5):
    print(await asyncio.sleep(0, 'in time'))");
    assert_eq!(outcome.stdout, "timeout\nin time\n");
}

#[test]
fn tasks_queues_and_events() {
    let outcome = run("
import asyncio
queue, done = asyncio.Queue(), asyncio.Event()
async def consume():
    total = 0
    while (n := await queue.get()) is not None: total += n
    done.set()
    return total
async with asyncio.TaskGroup() as group:
    task = group.create_task(consume())
    for n in range(10): await queue.put(n)
    await queue.put(None)
await done.wait()
task.result()");
    assert_eq!(outcome.value.unwrap().text, "45");
}

#[test]
fn an_exception_after_await_is_told_with_its_line() {
    let outcome = run("import asyncio\nawait asyncio.sleep(0)\nraise KeyError('late')");
    assert_eq!(outcome.status, Status::Error);
    let raised = outcome.exception.unwrap();
    assert_eq!((raised.frames[0].line, raised.frames[0].source.as_str()), (3, "raise KeyError('late')"));
}

#[test]
fn a_task_lives_on_from_cell_to_cell() {
    let session = session();
    session
        .run_blocking("import asyncio\nasync def work():\n    await asyncio.sleep(0.01)\n    return 'done'\ntask = asyncio.create_task(work())\nawait asyncio.sleep(0)")
        .unwrap();
    assert_eq!(text(&session, "await task"), "'done'");
}

#[test]
fn to_thread_runs_the_function() {
    assert_eq!(run("import asyncio\nawait asyncio.to_thread(pow, 2, 10)").value.unwrap().text, "1024");
}

#[test]
fn a_deadlock_is_told() {
    let outcome = run("import asyncio\nawait asyncio.Event().wait()");
    assert_eq!(outcome.status, Status::Error);
    assert!(outcome.exception.unwrap().message.starts_with("deadlock"));
}
