"""What life under glass is like. Run it with `belljar run examples/tour.py`."""

import os
import socket
import sqlite3
import statistics
import sys
import time


def title(text):
    print(f"\n\033[1m{text}\033[0m" if os.environ.get("COLOR") else f"\n== {text}")


def attempt(what, action):
    try:
        print(f"  {what:<42} got {action()!r}")
    except BaseException as error:
        print(f"  {what:<42} {type(error).__name__}: {str(error)[:60]}")


def recurse(n):
    return recurse(n + 1)


title("A whole CPython")
print(f"  Python {sys.version.split()[0]} on {sys.platform}, working in {os.getcwd()}")

title("Real work: a database in memory, a chart in text")
database = sqlite3.connect(":memory:")
database.execute("create table sales(month integer, amount real)")
database.executemany("insert into sales values (?, ?)", [(m, 40 + 30 * (m % 5) + m * 3) for m in range(1, 13)])
rows = database.execute("select month, amount from sales order by month").fetchall()
for month, amount in rows:
    print(f"  {month:>2} {'█' * int(amount / 6)} {amount:.0f}")
amounts = [amount for _, amount in rows]
print(f"  mean {statistics.mean(amounts):.1f}, deviation {statistics.stdev(amounts):.1f}")

title("What the glass is for")
attempt("read /etc/passwd", lambda: open("/etc/passwd").read())
attempt("climb out with ../../..", lambda: open("../../../../etc/shadow").read())
attempt("call home", lambda: socket.create_connection(("example.com", 80)))
attempt("start a shell", lambda: os.system("id"))
attempt("eat all memory", lambda: bytearray(10**9))
attempt("recurse for ever", lambda: recurse(0))
attempt("write to the standard library", lambda: open("/python/os.py", "w"))
attempt("fill the disk", lambda: open("big", "wb").write(bytes(200 << 20)))

title("And it is quick")
started = time.perf_counter()
total = sum(n * n for n in range(300_000))
print(f"  summed 300,000 squares to {total} in {(time.perf_counter() - started) * 1e3:.0f} ms")
