import signal
import sys
import time
import unittest

from fake_host import DONE, SessionTest, run_frame
from belljar_guest import interrupt


class Interrupts(SessionTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        old = signal.signal(signal.SIGALRM, interrupt._handler)  # a timer sends no SIGINT
        self.addCleanup(signal.signal, signal.SIGALRM, old)

    def after(self, seconds, interval=0.2):
        """Again and again: one that comes before the cell, on a busy machine, is rightly forgotten."""
        signal.setitimer(signal.ITIMER_REAL, seconds, interval)

    def interrupted(self, code, seconds=0.02):
        self.after(seconds)
        outcome = self.s.run(code)
        self.after(0, 0)
        self.assertEqual(outcome["status"], "interrupted", outcome)
        self.assertEqual(self.s.text("40 + 2"), "42")
        return outcome

    def test_loop(self):
        self.s.run("x = 1")
        outcome = self.interrupted("while True:\n    x += 1")
        self.assertEqual(outcome["exception"]["type"], "KeyboardInterrupt")
        self.assertEqual(outcome["exception"]["frames"][0]["file"], "<cell 2>")
        self.assertNotEqual(self.s.text("x"), "1")

    def test_sleep_and_library_code(self):
        self.interrupted("import time\ntime.sleep(60)")
        self.interrupted("import json\nwhile True: json.dumps([1] * 100, indent=1)")

    def test_repr_and_str(self):
        self.interrupted("class R:\n    def __repr__(self):\n        while True: pass\nR()")
        self.after(0.02)
        outcome = self.s.run("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E")
        self.assertEqual((outcome["status"], outcome["exception"]["type"]), ("error", "E"))
        self.assertEqual(self.s.text("1"), "1")
        self.interrupted("class R:\n    def _repr_html_(self):\n        while True: pass\nR()")

    def test_a_stream_that_never_flushes(self):
        self.s.run("import sys\nclass W:\n    closed = False\n    def write(self, t): pass\n    def flush(self):\n        while True: pass\n")
        self.after(0.02)
        self.s.run("sys.stdout = W()")
        self.assertEqual(self.s.run("print('back')")["status"], "ok")
        self.assertEqual(self.s.stdout, "back\n")

    def test_in_await(self):
        self.interrupted("import asyncio\nawait asyncio.sleep(0)\nwhile True: pass")
        self.interrupted("while True: await asyncio.sleep(0)")
        self.interrupted("async def b():\n    while True: pass\nt = asyncio.create_task(b())\nawait asyncio.sleep(60)")
        self.assertEqual(self.s.text("await asyncio.sleep(0, 3)"), "3")

    def test_in_asyncio_run(self):
        self.interrupted("import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nasyncio.run(f())")
        self.interrupted("asyncio.run(asyncio.sleep(60))")

    def test_taken_signal_comes_back(self):
        self.s.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
        self.interrupted("while True: pass")

    def test_outside_a_cell_it_is_forgotten(self):
        signal.raise_signal(signal.SIGINT)
        self.assertEqual(self.s.text("1"), "1")

    def test_caught_by_the_cell(self):
        self.after(0.02)
        self.assertEqual(self.s.text("try:\n    while True: sum(range(10))\nexcept KeyboardInterrupt:\n    r = 'caught'\nr"), "'caught'")

    def test_at_every_bytecode_of_the_kernel(self):
        """Interrupts `handle` once at each line of its own code, and wants an answer every time."""
        self.s.run("import asyncio\nx = 0")
        for code in ("x += 1", "x", "1/0", "await asyncio.sleep(0)", "if x: x += 1\nx", "display(1)", "raise SystemExit(2)"):
            position = 0
            while True:
                count = 0
                fired = False

                def trace(frame, event, argument):
                    nonlocal count, fired
                    if "belljar_guest" not in frame.f_code.co_filename or frame.f_code.co_name == "_handler":
                        return None
                    if event == "line":
                        count += 1
                        if count == position + 1 and not fired:
                            fired = True
                            signal.raise_signal(signal.SIGINT)
                    return trace

                # The kernel turns tracing off, so keep it on by hiding that from it.
                from belljar_guest import kernel as module
                saved = module._gettrace
                module._gettrace = lambda: None
                frame = run_frame(code, 9)
                sys.settrace(trace)
                try:
                    reply = self.s.kernel.handle(frame)
                finally:
                    sys.settrace(None)
                    module._gettrace = saved
                self.assertEqual(reply[0], DONE)
                if not fired:
                    break
                position += 1
            self.assertGreater(position, 20)
            self.assertEqual(self.s.text("40 + 2"), "42")
        self.assertEqual(self.s.text("await asyncio.sleep(0, 3)"), "3")

    def test_storm(self):
        """Interrupts at random moments, for half a second; nothing escapes and the state is right."""
        self.s.run("import asyncio, time\nclass R:\n    def __repr__(self): return 'r' * 100\nn = 0")
        cells = ["n += 1", "R()", "1/0", "sum(range(2000))", "await asyncio.sleep(0)", "print('x')", "x = [\n1]\nx", "{}['k']"]
        done = 0
        end = time.monotonic() + 0.5
        self.after(0.0005, 0.0007)
        while time.monotonic() < end:
            reply = self.s.kernel.handle(run_frame(cells[done % len(cells)]))
            self.assertEqual(reply[0], DONE)
            done += 1
        self.after(0, 0)
        self.assertGreater(done, 50)
        self.assertEqual(self.s.text("n > 0, len(repr(R()))"), "(True, 100)")
        self.assertEqual(self.s.text("await asyncio.sleep(0, 3)"), "3")


if __name__ == "__main__":
    unittest.main()
