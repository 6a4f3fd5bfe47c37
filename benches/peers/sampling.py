"""Clocks, memory and order statistics. Runs in the driver and inside every peer's environment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path


def summary(samples: Iterable[float], scale: float = 1.0) -> dict:
    """Median, p10, p90, minimum and count of `samples`, each multiplied by `scale`."""
    ordered = sorted(sample * scale for sample in samples)
    return {
        "median": _round(_quantile(ordered, 0.5)),
        "p10": _round(_quantile(ordered, 0.1)),
        "p90": _round(_quantile(ordered, 0.9)),
        "min": _round(ordered[0]),
        "n": len(ordered),
    }


def wall_times(action: Callable[[], object], count: int, warmup: int = 0, rest: float = 0.0) -> list[float]:
    """Seconds per call of `action`; between two calls the thread rests for `rest` seconds."""
    for _ in range(warmup):
        action()
    samples = []
    for _ in range(count):
        if rest:
            time.sleep(rest)
        start = time.perf_counter()
        action()
        samples.append(time.perf_counter() - start)
    return samples


def cpu_times(action: Callable[[], object], count: int, warmup: int = 0) -> list[float]:
    """CPU seconds of this process, all its threads and its living children, per call of `action`."""
    for _ in range(warmup):
        action()
    clock = cpu_clock()
    samples = []
    for _ in range(count):
        start = clock()
        action()
        samples.append(clock() - start)
    return samples


def cpu_clock() -> Callable[[], float]:
    """A clock of the CPU seconds of this process and of the children that it has now; they must stay."""
    # What `clock_getcpuclockid(3)` computes on Linux: another process's CPU clock, in nanoseconds.
    clocks = [(~pid << 3) | 2 for pid in descendants(os.getpid())]
    return lambda: time.process_time() + sum(time.clock_gettime(clock) for clock in clocks)


def pss_megabytes() -> float:
    """Proportional set size of this process and its descendants, in 10⁶ bytes."""
    total = 0
    for pid in [os.getpid(), *descendants(os.getpid())]:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total / 1e6


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def _quantile(ordered: list[float], fraction: float) -> float:
    position = (len(ordered) - 1) * fraction
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _round(value: float) -> float:
    return float(f"{value:.4g}")
