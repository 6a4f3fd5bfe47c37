import sys
import time
import unittest

from fake_host import DONE, WAITING, SessionTest


class Await(SessionTest):
    def setUp(self):
        super().setUp()
        self.s.run("import asyncio")

    def test_values(self):
        self.assertEqual(self.s.text("await asyncio.sleep(0, 5)"), "5")
        self.assertEqual(self.s.text("x = await asyncio.sleep(0, 6)\nx"), "6")
        self.assertEqual(self.s.text("y = 7\nawait asyncio.sleep(0, y)"), "7")
        self.assertIsNone(self.s.text("z = await asyncio.sleep(0, 8)"))
        self.assertEqual(self.s.text("z"), "8")

    def test_async_for_and_with(self):
        self.s.run("async def numbers():\n    for i in range(3):\n        await asyncio.sleep(0)\n        yield i\n")
        self.assertEqual(self.s.text("[i async for i in numbers()]"), "[0, 1, 2]")
        self.assertEqual(self.s.text("t = 0\nasync for i in numbers():\n    t += i\nt"), "3")
        self.assertEqual(self.s.text("async with asyncio.Lock():\n    k = 1\nk"), "1")

    def test_the_whole_cell_has_a_running_loop(self):
        self.s.run("async def f():\n    await asyncio.sleep(0.001)\n    return 9\n")
        self.assertEqual(self.s.text("task = asyncio.create_task(f())\nawait task"), "9")
        self.assertEqual(self.s.text("await asyncio.gather(f(), f())"), "[9, 9]")
        self.assertEqual(self.s.error("await f()\nasyncio.run(f())")["type"], "RuntimeError")

    def test_waiting_returns_to_the_host(self):
        kind, payload = self.s.start("await asyncio.sleep(0.05)\n'slept'")
        self.assertEqual(kind, WAITING)
        self.assertTrue(0.03 < payload["timeout"] <= 0.05)
        kind, payload = self.s.resume()  # too early
        self.assertEqual(kind, WAITING)
        time.sleep(payload["timeout"] + 0.002)
        kind, payload = self.s.resume()
        self.assertEqual((kind, payload["value"]), (DONE, {"text/plain": "'slept'"}))

    def test_library(self):
        self.assertEqual(self.s.error("await asyncio.wait_for(asyncio.sleep(9), 0.001)")["type"].split(".")[-1], "TimeoutError")
        self.assertEqual(self.s.text("q = asyncio.Queue()\nasync def p():\n    await q.put(4)\nt = asyncio.create_task(p())\nawait q.get()"), "4")
        self.assertEqual(self.s.text("await asyncio.to_thread(lambda: 3)"), "3")
        self.assertEqual(self.s.error("await asyncio.to_thread(lambda: 1/0)")["type"], "ZeroDivisionError")

    @unittest.skipIf(sys.version_info < (3, 11), "came with 3.11")
    def test_newer_library(self):
        self.s.run("async def f(): return 9")
        self.assertEqual(self.s.text("async with asyncio.TaskGroup() as g:\n    t = g.create_task(f())\nt.result()"), "9")
        self.assertEqual(self.s.error("async with asyncio.timeout(0.001):\n    await asyncio.sleep(9)")["type"], "TimeoutError")

    def test_asyncio_run_in_a_plain_cell(self):
        code = "async def f():\n    await asyncio.sleep(0.01)\n    return 3\nasyncio.run(f())"
        self.assertEqual(self.s.text(code), "3")
        self.assertTrue(self.s.host.waits)
        self.assertEqual(self.s.text("asyncio.get_event_loop().run_until_complete(f())"), "3")
        self.assertEqual(self.s.text("l = asyncio.new_event_loop()\nr = l.run_until_complete(f())\nl.close()\nr"), "3")
        self.assertEqual(self.s.text("l = asyncio.SelectorEventLoop()\nr = l.run_until_complete(f())\nl.close()\nr"), "3")
        self.s.run("asyncio.get_event_loop().close()")
        self.assertEqual(self.s.text("await f()"), "3")

    def test_errors(self):
        error = self.s.error("async def f():\n    await asyncio.sleep(0)\n    1/0\nawait f()")
        self.assertEqual([frame["function"] for frame in error["frames"]], ["<module>", "f"])
        self.assertEqual(self.s.run("import sys\nawait asyncio.sleep(0)\nsys.exit(5)")["exit_code"], 5)
        self.assertEqual(self.s.run("async def g(): sys.exit(6)\nt = asyncio.create_task(g())\nawait asyncio.sleep(1)")["exit_code"], 6)
        self.assertEqual(self.s.text("await asyncio.sleep(0, 1)"), "1")

    def test_deadlock_is_told(self):
        error = self.s.error("await asyncio.Event().wait()")
        self.assertIn("deadlock", error["message"])
        if sys.version_info >= (3, 11):  # 3.10 forgets where a task was cancelled
            self.assertEqual(error["frames"][0]["source"], "await asyncio.Event().wait()")
        self.assertIn("deadlock", self.s.error("async def f(): await asyncio.Event().wait()\nasyncio.run(f())")["message"])
        self.assertEqual(self.s.text("await asyncio.sleep(0, 1)"), "1")

    def test_tasks_live_on_while_later_cells_await(self):
        self.s.run("seen = []\nasync def b():\n    for i in range(3):\n        seen.append(i)\n        await asyncio.sleep(0.001)\n"
                   "t = asyncio.create_task(b())\nawait asyncio.sleep(0)")
        self.assertEqual(self.s.text("seen"), "[0]")
        self.s.run("await t")
        self.assertEqual(self.s.text("seen"), "[0, 1, 2]")

    def test_interrupt_while_waiting(self):
        kind, _ = self.s.start("try:\n    await asyncio.sleep(60)\nfinally:\n    cleaned = True")
        self.assertEqual(kind, WAITING)
        kind, payload = self.s.resume(interrupt=True)
        self.assertEqual((kind, payload["status"]), (DONE, "interrupted"))
        self.assertEqual(payload["exception"]["type"], "KeyboardInterrupt")
        if sys.version_info >= (3, 11):
            self.assertEqual(payload["exception"]["frames"][0]["source"], "await asyncio.sleep(60)")
        self.assertEqual(self.s.text("cleaned"), "True")
        self.assertEqual(self.s.resume()[1]["status"], "error")

    def test_other_tasks_are_untouched_by_an_interrupt(self):
        self.s.start("async def b():\n    await asyncio.sleep(0.01)\n    return 'done'\nt = asyncio.create_task(b())\nawait asyncio.sleep(60)")
        self.assertEqual(self.s.resume(interrupt=True)[1]["status"], "interrupted")
        self.assertEqual(self.s.text("await t"), "'done'")

    def test_a_second_interrupt_ends_the_cell_for_certain(self):
        kind, _ = self.s.start("on = True\nwhile on:\n    try:\n        await asyncio.sleep(60)\n    except BaseException:\n        pass")
        kind, _ = self.s.resume(interrupt=True)
        self.assertEqual(kind, WAITING)
        kind, payload = self.s.resume(interrupt=True)
        self.assertEqual((kind, payload["status"]), (DONE, "interrupted"))
        self.assertEqual(self.s.text("on = False\n5"), "5")

    def test_a_cell_that_will_not_end_is_never_freed(self):
        self.s.start("on = True\nwhile on:\n    try:\n        await asyncio.sleep(60)\n    except BaseException:\n        pass")
        self.s.resume(interrupt=True)
        self.s.resume(interrupt=True)
        self.assertEqual(self.s.text("import gc\ngc.collect()\n5"), "5")
        self.assertEqual(self.s.text("await asyncio.sleep(0, 6)"), "6")
        self.s.run("on = False")

    def test_what_nobody_caught_is_told(self):
        self.s.run("async def b(): 1/0\nt = asyncio.create_task(b())\nawait asyncio.sleep(0.001)\ndel t")
        self.assertIn("Task exception was never retrieved", self.s.stderr)
        self.assertIn("async def b(): 1/0", self.s.stderr)
        self.assertNotIn("belljar_guest", self.s.stderr)

    def test_a_new_cell_abandons_a_waiting_one(self):
        self.s.start("await asyncio.sleep(60)")
        self.assertEqual(self.s.text("5"), "5")
        self.assertEqual(self.s.text("await asyncio.sleep(0, 6)"), "6")

    def test_stop_and_swallowed_cancel(self):
        self.assertEqual(self.s.text("asyncio.get_running_loop().stop()\nawait asyncio.sleep(0.001, 2)"), "2")
        self.s.start("try:\n    await asyncio.sleep(60)\nexcept asyncio.CancelledError:\n    pass")
        self.assertEqual(self.s.resume(interrupt=True)[1]["status"], "interrupted")
