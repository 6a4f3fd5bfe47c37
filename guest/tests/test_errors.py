import os
import sys
import tempfile
import unittest

from fake_host import SessionTest


class Errors(SessionTest):
    def test_shape(self):
        error = self.s.error("def f(a):\n    return 1 / a\nf(0)")
        self.assertEqual((error["type"], error["message"]), ("ZeroDivisionError", "division by zero"))
        self.assertEqual(error["frames"], [
            {"file": "<cell 1>", "line": 3, "function": "<module>", "source": "f(0)"},
            {"file": "<cell 1>", "line": 2, "function": "f", "source": "return 1 / a"},
        ])
        self.assertTrue(error["traceback"].startswith('Traceback (most recent call last):\n  File "<cell 1>", line 3'))
        self.assertTrue(error["traceback"].endswith("ZeroDivisionError: division by zero"))
        self.assertNotIn("belljar_guest", error["traceback"])

    def test_library_frames_are_hidden(self):
        error = self.s.error("import json\njson.loads('{')")
        self.assertEqual(error["type"], "json.decoder.JSONDecodeError")
        self.assertEqual(len(error["frames"]), 1)
        self.assertNotIn("decoder.py", error["traceback"])
        error = self.s.error("import statistics\nstatistics.mean([])")
        self.assertEqual(error["type"], "statistics.StatisticsError")
        error = self.s.error("import nowhere_at_all")
        self.assertEqual(len(error["frames"]), 1)

    def test_a_librarys_inner_context_is_hidden(self):
        error = self.s.error("import zoneinfo\nzoneinfo.ZoneInfo('No/Where')")
        self.assertNotIn("During handling", error["traceback"])

    def test_files_of_the_user_are_shown(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "mine_belljar.py"), "w") as file:
                file.write("def f():\n    raise KeyError('k')\n")
            error = self.s.error(f"import sys\nsys.path.insert(0, {directory!r})\nimport mine_belljar\nmine_belljar.f()")
            self.s.run("sys.path.pop(0)")
        self.assertEqual([frame["source"] for frame in error["frames"]], ["mine_belljar.f()", "raise KeyError('k')"])

    def test_earlier_cells_have_source(self):
        self.s.run("def f():\n    raise LookupError('x')")
        self.assertIn("raise LookupError('x')", self.s.error("f()")["traceback"])

    def test_chains(self):
        error = self.s.error("try:\n    1/0\nexcept Exception as e:\n    raise ValueError('v') from e")
        self.assertIn("direct cause", error["traceback"])
        error = self.s.error("try:\n    1/0\nexcept Exception:\n    raise ValueError('v')")
        self.assertIn("During handling", error["traceback"])
        error = self.s.error("try:\n    1/0\nexcept Exception:\n    raise ValueError('v') from None")
        self.assertNotIn("ZeroDivisionError", error["traceback"])
        error = self.s.error("e = ValueError(1)\ne.__cause__ = e\nraise e")
        self.assertEqual(error["type"], "ValueError")

    @unittest.skipIf(sys.version_info < (3, 11), "groups and notes came with 3.11")
    def test_groups_and_notes(self):
        error = self.s.error("e = ExceptionGroup('g', [ValueError(1), KeyError('k')])\ne.add_note('a note')\nraise e")
        self.assertIn("a note", error["traceback"])
        self.assertIn("KeyError: 'k'", error["traceback"])

    def test_syntax_error(self):
        error = self.s.error("x = 1\ny = = 2\n")
        self.assertEqual(error["type"], "SyntaxError")
        self.assertIn("y = = 2", error["traceback"])
        self.assertIn("^", error["traceback"])
        self.assertNotIn("Traceback", error["traceback"])
        self.assertEqual(error["frames"], [{"file": "<cell 1>", "line": 2, "function": "<module>", "source": "y = = 2"}])

    def test_recursion_is_bounded(self):
        error = self.s.error("def f(): g()\ndef g(): f()\nf()")
        self.assertEqual(error["type"], "RecursionError")
        self.assertLessEqual(len(error["frames"]), 60)
        self.assertIn("calls left out", error["traceback"])
        self.assertLess(len(error["traceback"]), 20000)

    def test_long_chains_are_bounded(self):
        error = self.s.error("e = None\nfor i in range(400):\n    n = ValueError(i)\n    n.__cause__ = e\n    e = n\nraise e")
        self.assertEqual((error["type"], error["message"]), ("ValueError", "399"))

    def test_names(self):
        self.assertEqual(self.s.error("class Mine(Exception):\n    class Inner(Exception): pass\nraise Mine.Inner('m')")["type"],
                         "Mine.Inner")
        self.assertEqual(self.s.error("import decimal\nraise decimal.InvalidOperation")["type"], "decimal.InvalidOperation")

    def test_broken_exceptions(self):
        self.assertEqual(self.s.error("class E(Exception):\n    def __str__(self): 1/0\nraise E")["message"],
                         "<exception str() failed>")
        self.assertLess(len(self.s.error("raise ValueError('x' * 10**7)")["message"]), 20000)
        self.assertLess(len(self.s.error("raise ValueError('x' * 10**7)")["traceback"]), 80000)
        self.assertEqual(self.s.error("class E(Exception):\n    @property\n    def __class__(self): 1/0\nraise E('x')")["type"], "E")
        self.assertEqual(self.s.error(
            "class M(type):\n    @property\n    def __module__(self): 1/0\nclass E(Exception, metaclass=M): pass\nraise E('x')")["type"], "E")
        self.assertEqual(self.s.error("class E(Exception): pass\nE.__qualname__ = 'n' * 10**6\nraise E")["type"], "n" * 500)
        self.assertEqual(self.s.error("exec(compile('1/0', 'f' * 10**6, 'exec'))")["type"], "ZeroDivisionError")
        self.assertEqual(self.s.error("raise GeneratorExit")["type"], "GeneratorExit")
        self.assertEqual(self.s.error("raise BaseException('b')")["message"], "b")
        self.assertIn("\\udc80", self.s.error("raise ValueError('\\udc80')")["message"])

    def test_memory_error(self):
        error = self.s.error("'a' * (1 << 62)")
        self.assertEqual(error["type"], "MemoryError")
        self.assertIsNotNone(self.s.kernel._reserve)
        self.assertEqual(self.s.text("1"), "1")

    def test_user_keeps_the_traceback(self):
        self.s.run("e = ValueError('kept')\nraise e")
        self.assertEqual(self.s.text("e.__traceback__ is not None"), "True")
