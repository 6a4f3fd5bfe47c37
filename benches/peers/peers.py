#!/usr/bin/env python3
"""Installs the peers of Belljar and measures them. `peers.py install`, then `peers.py run --json`."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.dont_write_bytecode = True  # Not into the source tree.

from environments import InstallError, clean_environment, default_cache, locked, say
from native_peers import places
from peer_environments import FETCH, PINS, ensure_tools, install, installed, interpreter, wheel
from sampling import summary

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"
PEERS = list(PINS)
MEASUREMENTS = [
    "fresh",
    "fresh_warmed",
    "cell",
    "tool",
    "process",
    "memory",
    "cpu",
    "throughput",
    "snapshot",
    "package",
]
UNITS = {
    "fresh": "fresh_ms",
    "fresh_warmed": "fresh_warmed_ms",
    "cell": "cell_us",
    "tool": "tool_us",
    "process": "process_ms",
    "cpu": "cpu_ms",
    "package": "package_ms",
}
# Samples; seconds for throughput; live sessions for memory. "slow" is for peers that take seconds per run.
COUNTS = {
    "full": {
        "fresh": 200,
        "cell": 2000,
        "tool": 40,
        "process": 20,
        "cpu": 9,
        "throughput": 5,
        "live": 200,
        "snapshot": 7,
        "package": 2,
    },
    "quick": {
        "fresh": 30,
        "cell": 200,
        "tool": 8,
        "process": 5,
        "cpu": 5,
        "throughput": 1,
        "live": 20,
        "snapshot": 3,
        "package": 1,
    },
    "slow": {"fresh": 3, "cell": 2, "process": 2, "cpu": 5, "throughput": 0},
    "slow quick": {"fresh": 1, "cell": 1, "process": 1, "cpu": 5, "throughput": 0},
}
# Two interpreters that compile for half a minute each, on a busy machine.
TIMEOUT_SECONDS = 900


def main() -> int:
    arguments = parse(sys.argv[1:])
    try:
        with locked(arguments.cache):
            if arguments.command == "install":
                install(arguments.cache, PEERS, arguments.python)
            elif arguments.command == "native":
                print(json.dumps(places(arguments.cache, ensure_tools(arguments.cache))))
            else:
                report = measure(arguments.cache, arguments.only, arguments.measure, arguments.quick)
                print(json.dumps(report, indent=None if arguments.json else 2))
    except InstallError as error:
        say(f"peers.py: {error}")
        return 1
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peers.py", description=__doc__)
    cache = argparse.ArgumentParser(add_help=False)
    cache.add_argument("--cache", type=lambda text: Path(text).resolve(), default=default_cache(), metavar="DIR")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("install", parents=[cache], help="make the peers' environments")
    command.add_argument("--python", metavar="PATH", help=f"the host Python (3.12 to 3.14), or '{FETCH}' for Debian's")
    commands.add_parser("native", parents=[cache], help="make bwrap and Jupyter available, and say where they are")
    command = commands.add_parser("run", parents=[cache], help="measure the peers and the native baseline")
    command.add_argument("--only", type=of(PEERS), default=PEERS, metavar="NAME,…", help=f"of {','.join(PEERS)}")
    command.add_argument(
        "--measure", type=of(MEASUREMENTS), default=MEASUREMENTS, metavar="NAME,…", help=f"of {','.join(MEASUREMENTS)}"
    )
    command.add_argument("--quick", action="store_true", help="few samples: to see that it works")
    command.add_argument("--json", action="store_true", help="one line, not indented")
    return parser.parse_args(argv)


def of(known: list[str]) -> Callable[[str], list[str]]:
    """What reads names of `known`, with commas between them."""

    def names(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
        return chosen

    return names


def measure(cache: Path, peers: list[str], measurements: list[str], quick: bool) -> dict:
    """The whole report. A measurement that fails becomes `{"error": …}`; the others go on."""
    if missing := [peer for peer in peers if not installed(cache, peer)]:
        raise InstallError(f"not installed: {', '.join(missing)}. Run `{sys.argv[0]} install` first.")
    programs = {path.stem: path.read_text() for path in sorted(PROGRAMS.glob("*.py"))}
    with tempfile.TemporaryDirectory(prefix="belljar-peers-") as scratch:
        bench = Bench(Path(scratch), quick, {"programs": programs, "wheel": str(wheel(cache))}, measurements)
        report = {"schema": 1, "quick": quick, "machine": machine(), "baseline": bench.baseline(), "peers": {}}
        for peer in peers:
            report["peers"][peer] = bench.peer(peer, interpreter(cache, peer), report["baseline"])
    report["machine"]["load_after"] = os.getloadavg()[0]
    return report


class Bench:
    """Starts the workers, each in an empty directory that is gone afterwards."""

    def __init__(self, scratch: Path, quick: bool, inputs: dict, measurements: list[str]) -> None:
        self.measurements = measurements
        self.scratch = scratch
        self.quick = quick
        self.inputs = inputs

    def baseline(self) -> dict:
        python = Path("/usr/bin/python3")
        if not python.exists():
            python = Path(sys.executable)
        say(f"native: {python}")
        parameters = self.parameters(slow=False)
        result = {
            "python": describe_python(python),
            "process_ms": self.process([python, "-c", "print(1)"], parameters["process"]),
        }
        if "cpu" in self.measurements:
            result["cpu_ms"] = self.worker(python, "native", "cpu", parameters)
        return result

    def peer(self, name: str, python: Path, baseline: dict) -> dict:
        about = self.worker(python, name, "describe", {})
        result = {"packages": PINS[name], "host_python": describe_python(python)}
        if "error" in about:
            return result | about
        parameters = self.parameters(about["slow"])
        result["host_python"]["process_ms"] = self.process(
            [python, "-c", "print(1)"], self.parameters(False)["process"]
        )
        for measurement in self.measurements:
            key = UNITS.get(measurement, measurement)
            if measurement in about["lacks"]:
                result[key] = {"lacks": about["lacks"][measurement]}
                continue
            say(f"{name}: {measurement}")
            if measurement == "process":
                result[key] = self.process([python, "-c", about["first_result"]], parameters["process"])
            else:
                result[key] = self.worker(python, name, measurement, parameters)
        if "cpu" in self.measurements:
            compare(result["cpu_ms"], baseline["cpu_ms"])
        return result

    def parameters(self, slow: bool) -> dict:
        kind = ("slow quick" if self.quick else "slow") if slow else ("quick" if self.quick else "full")
        return COUNTS[kind] | self.inputs

    def worker(self, python: Path, peer: str, measurement: str, parameters: dict) -> dict:
        argv = [str(python), "-B", str(HERE / "worker.py"), peer, measurement, json.dumps(parameters)]
        with self.directory() as directory:
            try:
                done = subprocess.run(
                    argv,
                    capture_output=True,
                    text=True,
                    cwd=directory,
                    env=clean_environment(),
                    timeout=TIMEOUT_SECONDS,
                )
            except subprocess.TimeoutExpired:
                return {"error": f"no result after {TIMEOUT_SECONDS} s"}
        lines = done.stdout.splitlines()
        if done.returncode != 0 or not lines:
            return {"error": f"status {done.returncode}: {done.stderr.strip()[-500:]}"}
        return json.loads(lines[-1])

    def process(self, argv: list[str | Path], count: int) -> dict:
        """A new process that prints 1: until that line, until it is gone. The first one fills caches: not counted."""
        first, gone, environment = [], [], clean_environment()
        for _ in range(count + 1):
            with self.directory() as directory:
                start = time.perf_counter()
                child = subprocess.Popen(
                    [str(part) for part in argv],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=directory,
                    env=environment,
                )
                # A peer may log to stdout, before its result and after it.
                printed = any(line == b"1\n" for line in child.stdout)
                first.append(time.perf_counter() - start)
                child.communicate()
                gone.append(time.perf_counter() - start)
            if not printed or child.returncode != 0:
                return {"error": f"status {child.returncode}, {'1' if printed else 'no 1'} printed"}
        return {"first_result": summary(first[1:], 1e3), "exit": summary(gone[1:], 1e3)}

    def directory(self) -> tempfile.TemporaryDirectory:
        return tempfile.TemporaryDirectory(dir=self.scratch, ignore_cleanup_errors=True)


def compare(programs: dict, native: dict) -> None:
    """Adds ÷ native to every program, and the geometric mean; refuses a program that computed something else."""
    if "error" in programs or "error" in native:
        return
    for name, result in programs.items():
        if result["checksum"] != native[name]["checksum"]:
            result["error"] = f"the checksum is {result['checksum']}, native {native[name]['checksum']}"
        for statistic in ("min", "median"):
            result[f"{statistic}_by_native"] = round(result[statistic] / native[name][statistic], 3)
    means = {}
    for key in ("min_by_native", "median_by_native"):
        means[key] = round(math.prod(result[key] for result in programs.values()) ** (1 / len(programs)), 3)
    programs["geometric_mean"] = means


def machine() -> dict:
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(": ", 1)[1]
            break
    cores = len(os.sched_getaffinity(0))
    return {"cpu": model, "cores": cores, "kernel": platform.release(), "load_before": os.getloadavg()[0]}


def describe_python(python: Path) -> dict:
    script = "import platform; print(platform.python_version())"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True)
    return {"path": str(python), "version": done.stdout.strip()}


if __name__ == "__main__":
    sys.exit(main())
