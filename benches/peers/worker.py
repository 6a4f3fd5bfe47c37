"""Runs one measurement of one peer inside the peer's environment: `worker.py PEER MEASUREMENT PARAMETERS`.

A measurement has a process of its own, so that none sees the heap, threads or caches of another, and a peer that takes
its host down with it loses one number only. The last line of stdout is the result as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType

from sampling import cpu_clock, cpu_times, pss_megabytes, summary, wall_times

IMPORTS = "import json, re, datetime, collections, csv, sqlite3"
# `belljar bench` holds the same.
ONE_MEGABYTE = "data = '0123456789abcdef' * 65536"
STRUCTURED = "data = [{'number': n, 'text': f'item {n}'} for n in range(6000)]"
USE_PACKAGE = "from tabulate import tabulate; print(tabulate([[1, 2]]))"
TABLE = "-  -\n1  2\n-  -\n"


def fresh(peer: ModuleType, parameters: dict) -> dict:
    """A sandbox of its own + `print(1)`, drop included."""
    peer.prepare()
    printed = peer.fresh()
    if printed.strip() != "1":
        raise RuntimeError(f"print(1) printed {printed!r}")
    return latency(peer.fresh, parameters["fresh"], rest=0)


def fresh_warmed(peer: ModuleType, parameters: dict) -> dict:
    """The same with a sandbox object made before and time to prepare the next execution, if the peer isolates each."""
    peer.prepare()
    action = peer.reused()
    action()
    return latency(action, parameters["fresh"], rest=0.02)


def latency(action: Callable[[], object], count: int, rest: float) -> dict:
    """Wall time in ms; and the CPU per call, which tells what a peer does in the background."""
    clock = cpu_clock()
    start = clock()
    wall = summary(wall_times(action, count, rest=rest), 1e3)
    return wall | {"cpu_mean": float(f"{(clock() - start) / count * 1e3:.4g}")}


def cell(peer: ModuleType, parameters: dict) -> dict:
    peer.prepare()
    session = peer.Session()
    session.run("x = 0")
    count = parameters["cell"]
    samples = wall_times(lambda: session.run("x += 1"), count, warmup=0 if slow(peer) else 50)
    if hasattr(session, "value") and session.value("x") != count + 50:
        raise RuntimeError(f"x is {session.value('x')} after {count + 50} cells")
    return summary(samples, 1e6)


def tool(peer: ModuleType, parameters: dict) -> dict:
    """A call of a host function that returns its argument: a cell with n calls less a cell with none, by n."""
    peer.prepare()
    session = peer.Session(tools=True)
    calls = peer.TOOL_CALLS_PER_CELL
    empty = summary(wall_times(lambda: session.run(peer.TOOL_CELL.format(count=0)), 50, warmup=5))["median"]
    samples = wall_times(lambda: session.run(peer.TOOL_CELL.format(count=calls)), parameters["tool"], warmup=2)
    return summary([(sample - empty) / calls for sample in samples], 1e6)


def memory(peer: ModuleType, parameters: dict) -> dict:
    """PSS per live session, over what one session costs anyway: just made, after a cell, after the imports."""
    live = parameters["live"]
    peer.prepare(live + 1)
    first = peer.Session()
    imported = import_what_is_there(first)
    base = pss_megabytes()
    sessions = [peer.Session() for _ in range(live)]
    result = {"live": live, "imported": imported, "created_mb": (pss_megabytes() - base) / live}
    for session in sessions:
        session.run("x = 1")
    result["after_cell_mb"] = (pss_megabytes() - base) / live
    for session in sessions:
        session.run(f"import {', '.join(imported)}")
    result["after_imports_mb"] = (pss_megabytes() - base) / live
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in result.items()}


def import_what_is_there(session: object) -> list[str]:
    """Run IMPORTS one by one; the modules that the peer has."""
    imported = []
    for module in IMPORTS.removeprefix("import ").split(", "):
        try:
            session.run(f"import {module}")
            imported.append(module)
        except Exception:
            pass
    return imported


def cpu(peer: ModuleType, parameters: dict) -> dict:
    """CPU of the whole cell `main()`, from outside, for every program, after its definitions ran."""
    peer.prepare()
    if hasattr(peer, "guest_timings"):
        timings = peer.guest_timings(parameters["programs"], parameters["cpu"])
        return {name: summary(t["times"], 1e3) | {"checksum": t["checksum"]} for name, t in timings.items()}
    result = {}
    for name, source in parameters["programs"].items():
        session = peer.Session()
        session.run(source)
        checksum = session.value("main()")
        samples = cpu_times(lambda: session.run("main()"), parameters["cpu"], warmup=1)
        result[name] = summary(samples, 1e3) | {"checksum": checksum}
        session.close()
    return result


def throughput(peer: ModuleType, parameters: dict) -> dict:
    """Fresh sandboxes + `print(1)` per second, with one thread and with two."""
    peer.prepare()
    if not slow(peer):
        peer.fresh()
    seconds = parameters["throughput"]
    result = {}
    if not slow(peer):
        result["threads_1_per_s"] = rate([peer.fresh], seconds)
    result["threads_2_per_s"] = rate([peer.fresh] * 2, seconds)
    if hasattr(peer, "reused"):
        result["reused_threads_2_per_s"] = rate([peer.reused(), peer.reused()], seconds)
    return result


def rate(actions: list[Callable[[], object]], seconds: float) -> float:
    """Calls per second, a thread per action; each calls until `seconds` are over, at least once."""
    counts = [0] * len(actions)
    start = time.perf_counter()

    def work(index: int) -> None:
        while counts[index] == 0 or time.perf_counter() - start < seconds:
            actions[index]()
            counts[index] += 1

    workers = [threading.Thread(target=work, args=(index,)) for index in range(len(actions))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return float(f"{sum(counts) / (time.perf_counter() - start):.4g}")


def snapshot(peer: ModuleType, parameters: dict) -> dict:
    """A session that holds 1 MB as one string; and beside it one that holds about as much in many small objects."""
    peer.prepare()
    count = parameters["snapshot"]
    return snapshot_of(peer, ONE_MEGABYTE, 1 << 20, count) | {
        "structured": snapshot_of(peer, STRUCTURED, 6000, count)
    }


def snapshot_of(peer: ModuleType, code: str, length: int, count: int) -> dict:
    """To bytes; and from bytes up to the answer of a cell that reads it: in a session that is there already (the same
    one, if the peer can load into it: `reload_ms`), or in a new one, made and dropped meanwhile (`restore_ms`)."""
    session = peer.Session()
    session.run(code)
    state = session.dump()

    def reload(other: object) -> None:
        other.load(state)
        if other.value("len(data)") != length:
            raise RuntimeError("the restored session lost its data")

    def restore() -> None:
        other = peer.Session()
        reload(other)
        other.close()

    if peer.LOADS_INTO_USED_SESSIONS:
        reloads = wall_times(lambda: reload(session), count, warmup=1)
    else:
        reloads = []
        for _ in range(count):
            other = peer.Session()
            reloads += wall_times(lambda: reload(other), 1)
            other.close()
    return {
        "bytes": len(state),
        "snapshot_ms": summary(wall_times(session.dump, count), 1e3),
        "reload_ms": summary(reloads, 1e3),
        "restore_ms": summary(wall_times(restore, count), 1e3),
    }


def package(peer: ModuleType, parameters: dict) -> dict:
    """A sandbox with a package from its wheel, imported ahead of time: until it can be used (`made`), until the first
    code that needs it has answered (`first_result`). Nothing is kept from one to the next."""
    peer.prepare()
    made, answered = [], []
    for _ in range(parameters["package"]):
        start = time.perf_counter()
        execute = peer.with_package(parameters["wheel"], "tabulate")
        made.append(time.perf_counter() - start)
        printed = execute(USE_PACKAGE)
        answered.append(time.perf_counter() - start)
        if printed != TABLE:
            raise RuntimeError(f"the package printed {printed!r}")
    return {"made": summary(made, 1e3), "first_result": summary(answered, 1e3)}


def slow(peer: ModuleType) -> bool:
    return getattr(peer, "SLOW", False)


ALL = (fresh, fresh_warmed, cell, tool, memory, cpu, throughput, snapshot, package)
MEASUREMENTS = {function.__name__: function for function in ALL}


def main() -> None:
    name, measurement, parameters = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    peer = importlib.import_module(f"adapters.{name}_adapter")
    if measurement == "describe":
        result = {"lacks": peer.LACKS, "first_result": getattr(peer, "FIRST_RESULT", None), "slow": slow(peer)}
    else:
        result = MEASUREMENTS[measurement](peer, parameters)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
