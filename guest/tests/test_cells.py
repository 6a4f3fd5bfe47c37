import gc
import os

from fake_host import DONE, SessionTest
from belljar_guest.warm import warm


class Cells(SessionTest):
    def test_state_stays(self):
        self.assertIsNone(self.s.run("x = 1")["value"])
        self.s.run("x += 1")
        self.assertEqual(self.s.text("x"), "2")

    def test_trivial_reply_is_constant(self):
        self.assertEqual(
            self.s.run("y = 1"), {"status": "ok", "value": None, "exception": None, "exit_code": None}
        )

    def test_value_is_that_of_the_last_statement_only(self):
        for code, value in {
            "5": "5",
            "5\n": "5",
            "5;": "5",
            "1; 2": "2",
            "1; z = 2": None,
            "a = 1\na": "1",
            "if True: 5": None,
            "for i in range(3): i": None,
            "1\nif True:\n    5": None,
            "{1: 2}": "{1: 2}",
            "[1,\n 2]": "[1, 2]",
            "'''a\nb'''": r"'a\nb'",
            "(lambda: 3)()": "3",
            "# nothing": None,
            "": None,
            "\n\n": None,
            "7 # seven": "7",
            "print": "<built-in function print>",
            "None": None,
            "'doc'": "'doc'",
            "\ufeff8": "8",
            "9\r\n": "9",
            "x = 4\r\nx\r\n": "4",
            "1 \\\n+ 1": "2",
        }.items():
            with self.subTest(code=code):
                self.assertEqual(self.s.text(code), value)

    def test_underscore_is_the_last_value(self):
        self.s.run("41")
        self.s.run("None")
        self.assertEqual(self.s.text("_ + 1"), "42")

    def test_main_module(self):
        self.assertEqual(self.s.text("__name__"), "'__main__'")
        self.s.run("class A:\n    pass\n")
        self.assertEqual(self.s.text("import pickle\ntype(pickle.loads(pickle.dumps(A()))) is A"), "True")
        self.assertEqual(self.s.text("import sys\nsys.modules['__main__'].__dict__ is globals()"), "True")
        self.assertEqual(self.s.text("__builtins__.__name__"), "'builtins'")

    def test_future_holds_for_later_cells(self):
        self.s.run("from __future__ import annotations")
        self.assertEqual(self.s.text("def f(a: nowhere): pass\nf.__annotations__"), "{'a': 'nowhere'}")

    def test_file_name(self):
        self.assertIn('File "prog.py", line 2', self.s.run("\n1/0", "prog.py")["exception"]["traceback"])
        self.assertEqual(self.s.text("__file__"), "'prog.py'")
        self.assertIn('File "<cell 3>", line 1', self.s.error("1/0")["traceback"])

    def test_exit(self):
        for code, expected in {
            "import sys\nsys.exit()": 0, "sys.exit(3)": 3, "sys.exit(-1)": 255, "sys.exit(True)": 1, "exit()": 0,
            "quit(4)": 4, "raise SystemExit('bye')": 1, "sys.exit(256)": 0, "sys.exit([1])": 1,
        }.items():
            with self.subTest(code=code):
                outcome = self.s.run(code)
                self.assertEqual((outcome["status"], outcome["exit_code"]), ("exited", expected))
        self.assertIn("bye\n", self.s.stderr)
        self.assertIn("[1]\n", self.s.stderr)
        self.assertEqual(self.s.text("1"), "1")
        self.assertIn("end the cell", self.s.text("exit"))

    def test_no_keyboard(self):
        self.assertEqual(self.s.error("input('name')")["type"], "EOFError")
        self.assertIn("no keyboard", self.s.error("import getpass\ngetpass.getpass()")["message"])
        self.assertIn("terminal", self.s.error("breakpoint()")["message"])

    def test_bytes_that_are_not_text(self):
        self.assertEqual(self.s.run(b"x = '\xff'")["exception"]["type"], "SyntaxError")
        self.assertEqual(self.s.run(b"x\x00y")["status"], "error")
        self.assertEqual(self.s.run(b"x = '\xed\xb2\x80'")["status"], "error")
        self.assertEqual(self.s.text("1"), "1")

    def test_source_for_inspect(self):
        self.s.run("def f():\n    return 'here'\n")
        self.assertIn("here", self.s.text("import inspect\ninspect.getsource(f)"))

    def test_unknown_and_broken_frames(self):
        for frame in (b"", b"\x63", b"\x02", b"\x02\x01\x00", b"\x01nonsense", b"\x03", b"\x03{}", b"\x03[]"):
            reply = self.s.handle(frame)
            self.assertEqual(reply[0], DONE)
        self.assertEqual(self.s.text("1"), "1")

    def test_warnings_and_indentation(self):
        self.assertEqual(self.s.error("  x = 1")["type"], "IndentationError")
        self.assertEqual(self.s.error("x = (")["type"], "SyntaxError")


class Boot(SessionTest):
    def test_boot_again(self):
        self.addCleanup(os.chdir, os.getcwd())
        s = self.session(cwd="/tmp", seed="01" * 16)
        s.run("import os, random, sys; random.seed(4); os.chdir('/'); state = random.getstate()")
        s.handle(b'\x01{"argv":["new"],"env":{}}')
        self.assertEqual(
            s.run("state == random.getstate(), sys.argv, os.getcwd()")["value"]["text/plain"], "(True, ['new'], '/')"
        )
        s.handle(b'\x01{"seed":"' + b"02" * 16 + b'"}')
        self.assertEqual(s.run("state == random.getstate()")["value"]["text/plain"], "False")

    def test_boot(self):
        self.addCleanup(os.chdir, os.getcwd())
        self.addCleanup(os.environ.pop, "BELLJAR_TEST", None)
        s = self.session(cwd="/tmp", env={"BELLJAR_TEST": "1"}, argv=["a", "b"], seed="ff" * 16)
        self.assertEqual(s.text("import os, sys\nos.getcwd(), os.environ['BELLJAR_TEST'], sys.argv"),
                         "('/tmp', '1', ['a', 'b'])")
        first = s.text("import random\nrandom.random()")
        s.handle(b'\x01{"seed":"' + b"ff" * 16 + b'"}')
        self.assertEqual(s.text("random.random()"), first)

    def test_a_missing_directory_is_an_answer(self):
        reply = self.s.handle(b'\x01{"cwd":"/nowhere/at/all"}')
        self.assertEqual(reply[0], DONE)
        self.assertIn(b"FileNotFoundError", reply)


class Rehearsal(SessionTest):
    def test_warming_leaves_nothing(self):
        names = sorted(self.s.kernel.namespace)
        self.addCleanup(gc.unfreeze)
        warm(self.s.kernel)
        self.assertEqual(sorted(self.s.kernel.namespace), names)
        self.assertEqual(self.s.host.displays, [])
        self.assertEqual(self.s.error("_")["type"], "NameError")
        self.assertEqual(self.s.text("tools"), "<tools: none>")
