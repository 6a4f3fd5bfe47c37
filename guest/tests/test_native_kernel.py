import os
import signal
import threading
import time
import unittest

from native_host import DONE, NativeTest


class Cells(NativeTest):
    def test_streams(self):
        self.k.run("import sys, os\nprint('out'); print('err', file=sys.stderr); os.write(1, b'raw\\n')\nprint('half', end='')")
        self.assertEqual((self.k.output(1), self.k.output(2)), ("out\nraw\nhalf", "err\n"))
        self.k.run("import subprocess\nsubprocess.run(['/bin/echo', 'child'])")
        self.assertEqual(self.k.output(), "child\n")

    def test_boot(self):
        k = self.zygote.fork(cwd=self.directory, env={"A": "b", "PYTHONPATH": "/x:/y"}, argv=["a", "b"])
        self.assertEqual(
            k.text("import os, sys\nos.getcwd() == os.environ['HOME'], os.environ['A'], sys.argv, '/x' in sys.path"),
            "(True, 'b', ['a', 'b'], True)",
        )
        self.assertEqual(k.talk(b'\x01{"cwd":"/nowhere/at/all"}')[0], DONE)
        self.assertEqual(k.text("1"), "1")

    def test_tools_and_display(self):
        k = self.zygote.fork(tools={"add": lambda a, b: a + b, "fail": lambda: 1 / 0})
        self.assertEqual(k.text("tools.add(1, b=2)"), "3")
        self.assertEqual(k.text("import asyncio\nawait asyncio.gather(tools.add(1, 2), tools.add(3, 4))"), "[3, 7]")
        self.assertEqual(k.text("async def f(): return await tools.add(5, 6)\nasyncio.run(f())"), "11")
        self.assertEqual(k.error("tools.fail()")["type"], "ZeroDivisionError")
        k.run("display(1); display({'text/html': '<b>'}, raw=True)")
        self.assertEqual([shown["data"].get("text/html") for shown in k.displays], [None, "<b>"])

    def test_large_messages(self):
        size = 20_000_000
        k = self.zygote.fork(tools={"twice": lambda text: text + text}, max_value_bytes=100_000_000)
        self.assertEqual(k.text("x = '" + "a" * size + "'\nlen(x)"), str(size))
        self.assertEqual(k.text("len(tools.twice(x[:5_000_000]))"), "10000000")
        self.assertEqual(len(k.text("x")), size + 2)

    def test_broken_frames(self):
        for frame in (b"", b"\x63", b"\x02", b"\x01nonsense", b"\x03[]"):
            self.assertEqual(self.k.talk(frame)[0], DONE)
        for kind in (4, 5, 6, 7):
            self.assertTrue({"error", "refused", "bytes"} & set(self.k.ask(kind, {})))
        for kind in (6, 7):
            with open("/dev/null") as nothing:
                self.assertTrue(self.k.ask(kind, [], [nothing.fileno()]))
        self.assertEqual(self.k.text("1"), "1")

    def test_surplus_descriptors_are_closed(self):
        count = "import os\nlen(os.listdir('/proc/self/fd'))"
        before = self.k.text(count)
        for _ in range(3):
            self.k.talk(b"\x63", [0, 1, 2, 0, 1])
            self.k.talk(b"\x63", [0])
        self.assertEqual(self.k.text(count), before)

    def test_end_of_the_host(self):
        self.k.connection.close()
        self.assertTrue(self.k.dead())

    def test_end_of_the_host_while_a_cell_asks(self):
        k = self.zygote.fork(tools={"x": None})
        k.begin("tools.x()")
        k.receive()
        k.connection.close()
        self.assertTrue(k.dead())

    def test_a_closed_socket_ends_only_this_session(self):
        self.k.begin("import os\nos.close(3)")
        self.assertIsNone(self.k.listen())
        self.assertTrue(self.k.dead())
        self.assertEqual(self.zygote.fork().text("1"), "1")

    def test_tables_have_names(self):
        from belljar_native import frames

        for name in ("", "/", "a/b", "..", ".", "../a", ".hidden", "a\0b", "x" * 300, ".parquet"):
            with self.subTest(name=name), self.assertRaises(ValueError):
                frames.load(name)
        with self.assertRaises(TypeError):
            frames.save(None, 5)


class Threads(NativeTest):
    def test_display_and_tools_from_threads(self):
        k = self.zygote.fork(tools={"double": lambda x: x * 2})
        self.assertEqual(
            k.text("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n"
                   "    r = list(pool.map(tools.double, range(50)))\nr == [2 * i for i in range(50)]"),
            "True",
        )
        k.run("import threading\nts = [threading.Thread(target=display, args=(i,)) for i in range(20)]\n[t.start() for t in ts]\n[t.join() for t in ts]")
        self.assertEqual(len(k.displays), 20)

    def test_a_thread_speaks_when_the_next_cell_runs(self):
        self.k.run("import threading, time\ndef late():\n    time.sleep(0.2)\n    display('late')\nt = threading.Thread(target=late)\nt.start()")
        time.sleep(0.4)
        self.k.run("t.join()")
        self.assertEqual(self.k.displays[0]["data"]["text/plain"], "'late'")

    def test_a_thread_in_a_call_at_the_end_of_the_cell(self):
        k = self.zygote.fork(tools={"slow": lambda: time.sleep(0.3) or 5})
        k.run("import threading\nr = []\nt = threading.Thread(target=lambda: r.append(tools.slow()))\nt.start()\nimport time; time.sleep(0.1)")
        self.assertEqual(k.text("t.join()\nr"), "[5]")


class Interrupts(NativeTest):
    def after(self, kernel, seconds):
        timer = threading.Timer(seconds, kernel.interrupt)
        timer.start()
        self.addCleanup(timer.join)

    def test_cells(self):
        for code in ("while True: pass", "import time\ntime.sleep(60)", "import threading\nthreading.Event().wait()",
                     "import subprocess\nsubprocess.run(['/bin/sleep', '60'])"):
            with self.subTest(code=code):
                self.after(self.k, 0.15)
                self.assertEqual(self.k.run(code)["status"], "interrupted")
                self.assertEqual(self.k.text("1"), "1")

    def test_between_cells_it_is_harmless(self):
        for _ in range(20):
            self.k.interrupt()
            self.k.interrupt()
            time.sleep(0.002)
            self.assertEqual(self.k.text("40 + 2"), "42")

    def test_in_a_call(self):
        k = self.zygote.fork(tools={"slow": lambda: 7})

        def interrupt(payload):
            k.interrupt()
            time.sleep(0.05)

        k.on_call = interrupt
        self.assertEqual(k.run("tools.slow()")["status"], "interrupted")
        self.assertEqual(k.run("await tools.slow()")["status"], "interrupted")
        k.on_call = None
        self.assertEqual(k.text("tools.slow()"), "7")
        k.on_call = interrupt
        self.assertEqual(k.text("try:\n    tools.slow()\nexcept KeyboardInterrupt:\n    r = 'caught'\nr"), "'caught'")

    def test_in_a_call_while_another_thread_gets_the_signal(self):
        k = self.zygote.fork(tools={"slow": lambda: 7})
        k.run("import threading, time\nstop = False\ndef work():\n    while not stop: time.sleep(0.001)\nt = threading.Thread(target=work)\nt.start()")
        k.on_call = lambda payload: (k.interrupt(), time.sleep(0.05))
        for _ in range(5):
            self.assertEqual(k.run("tools.slow()")["status"], "interrupted")
        k.on_call = None
        self.assertEqual(k.text("tools.slow()"), "7")
        k.run("stop = True\nt.join()")

    def test_storm(self):
        k = self.zygote.fork(tools={"add": lambda a, b: a + b})
        k.run("import asyncio\nn = 0")
        cells = ("n += 1", "tools.add(1, 2)", "await tools.add(1, 2)", "display(3)", "1/0", "print('x')", "sum(range(3000))")
        stop = threading.Event()

        def storm():
            while not stop.is_set():
                k.interrupt()
                time.sleep(0.0005)

        thread = threading.Thread(target=storm)
        thread.start()
        try:
            end = time.monotonic() + 1
            done = 0
            while time.monotonic() < end:
                self.assertIn(k.run(cells[done % len(cells)])["status"], ("ok", "error", "interrupted"))
                done += 1
        finally:
            stop.set()
            thread.join()
        self.assertGreater(done, 30)
        self.assertEqual(k.text("tools.add(40, 2)"), "42")

    def test_alarms_of_the_user(self):
        k = self.zygote.fork(tools={"slow": lambda: time.sleep(0.2) or 7})
        k.run("import signal\ndef late(*a): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)")
        self.assertEqual(k.error("signal.setitimer(signal.ITIMER_REAL, 0.05)\ntools.slow()")["type"], "TimeoutError")
        self.assertEqual(k.text("tools.slow()"), "7")
        k.run("signal.setitimer(signal.ITIMER_REAL, 0.05)")
        time.sleep(0.15)
        self.assertEqual(k.text("1"), "1")


class Forks(NativeTest):
    def test_a_fork_is_not_the_kernel(self):
        outcome = self.k.run("import os\npid = os.fork()\nif pid == 0:\n    print('child')\n    code = None\nelse:\n    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\ncode")
        self.assertEqual(outcome["value"]["text/plain"], "0")
        self.assertEqual(self.k.output(), "child\n")
        for body, code in (("raise SystemExit(7)", "7"), ("1/0", "1"), ("display(1)", "1"), ("os._exit(4)", "4")):
            with self.subTest(body=body):
                outcome = self.k.run(f"pid = os.fork()\nif pid == 0:\n    {body}\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
                self.assertEqual(outcome["value"]["text/plain"], code)
        self.assertIn("only the session's own process", self.k.output(2))
        self.assertEqual(self.k.text("1"), "1")

    def test_shadow(self):
        self.k.run("import random\nx = 1\nrandom.seed(5)")
        answer, shadow = self.k.shadow()
        self.k.run("x = 2")
        expected = self.k.text("random.random()")
        self.assertEqual(shadow.text("x"), "1")
        self.assertEqual(shadow.text("random.random()"), expected)
        self.assertEqual(self.k.text("x"), "2")
        self.assertEqual(shadow.text("import os\nos.getpid(), os.getsid(0) == os.getpid()"), f"({answer['pid']}, True)")
        again, second = shadow.shadow()
        self.assertEqual(second.text("x"), "1")
        shadow.close()
        self.assertEqual(second.text("x"), "1")
        second.close()

    def test_the_parent_may_die(self):
        _, shadow = self.k.shadow()
        signal.pidfd_send_signal(self.k.pidfd, signal.SIGKILL)
        self.assertTrue(self.k.dead())
        self.assertEqual(shadow.text("1 + 1"), "2")
        shadow.close()

    def test_shadows_are_reaped(self):
        answer, shadow = self.k.shadow()
        pidfd = os.pidfd_open(answer["pid"])
        shadow.close()
        shadow.pidfd = pidfd
        self.assertTrue(shadow.dead())
        os.close(pidfd)
        _, other = self.k.shadow()
        with self.assertRaises(FileNotFoundError):
            os.stat(f"/proc/{answer['pid']}")
        other.close()

    def test_no_shadow_while_threads_run(self):
        self.k.run("import threading\ndone = threading.Event()\nt = threading.Thread(target=done.wait, name='worker')\nt.start()")
        answer, shadow = self.k.shadow()
        self.assertIn("worker", answer["refused"])
        shadow.close()
        self.k.run("done.set()\nt.join()")
        answer, shadow = self.k.shadow()
        self.assertIn("pid", answer)
        shadow.close()

    def test_handlers_of_the_user_at_fork(self):
        self.k.run("import os\ndef bad(): raise ValueError('at fork')\nos.register_at_fork(before=bad, after_in_child=bad, after_in_parent=bad)")
        _, shadow = self.k.shadow()
        self.assertEqual((self.k.text("1"), shadow.text("2")), ("1", "2"))
        shadow.close()


if __name__ == "__main__":
    unittest.main()
