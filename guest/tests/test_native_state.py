"""Without third-party packages: how functions and arrays are kept is tested where cloudpickle and numpy are."""

import os
import struct
import unittest

from native_host import NativeTest


class States(NativeTest):
    def save(self, kernel=None):
        """What is saved, as a host does it: by a shadow. (the file, the answer)"""
        _, shadow = (kernel or self.k).shadow()
        file = self.file()
        answer = shadow.ask(5, {}, [file.fileno()])
        shadow.close()
        return file, answer

    def wake(self, file, **spec):
        kernel = self.zygote.fork(cwd=self.directory, **spec)
        return kernel, kernel.ask(6, {}, [file.fileno()])

    def names(self, answer):
        return sorted(item["name"] for item in answer["lost"])

    def test_variables(self):
        self.k.run("import json, os.path as p\nx = 5\nl = [1]\nalias = l\ncycle = [l]\ncycle.append(cycle)\nd = {'l': l, 'n': None}\nb = bytearray(b'x' * 300_000)\n_private = (1,)")
        file, answer = self.save()
        self.assertEqual(answer["lost"], [])
        self.assertEqual(answer["bytes"], os.fstat(file.fileno()).st_size)
        k, answer = self.wake(file)
        self.assertEqual(answer, {"lost": []})
        self.assertEqual(
            k.text("x, alias is l, cycle[0] is l, cycle[1] is cycle, d['l'] is l, len(b), _private, json.dumps(1), p.sep"),
            "(5, True, True, True, True, 300000, (1,), '1', '/')",
        )

    def test_kernel_objects_are_the_new_ones(self):
        self.k.run("g = globals()\nholder = [g, {'g': g}]\nt = tools\nshow = display\nimport sys, __main__ as m\nout = sys.stdout")
        file, answer = self.save()
        self.assertEqual(answer["lost"], [])
        k, _ = self.wake(file, tools={"add": lambda a, b: a + b})
        self.assertEqual(
            k.text("g is globals(), holder[0] is g, holder[1]['g'] is g, t is tools, show is display, m.__dict__ is g, out is sys.stdout, t.add(1, 2)"),
            "(True, True, True, True, True, True, True, 3)",
        )

    def test_a_tool_in_a_variable(self):
        k = self.zygote.fork(tools={"add": lambda a, b: a + b})
        k.run("add = tools.add")
        file, answer = self.save(k)
        self.assertEqual(answer["lost"], [])
        k, _ = self.wake(file, tools={"add": lambda a, b: a + b})
        self.assertEqual(k.text("add(1, 2)"), "3")

    def test_what_cannot_be_saved_is_named(self):
        self.k.run("import socket, threading, sqlite3, sys\nkept = [1]\ngen = (i for i in kept)\nsock = socket.socket()\n"
                   "db = sqlite3.connect(':memory:')\nlock = threading.Lock()\nfile = open('/dev/null')\nframe = sys._getframe()\n"
                   "mixed = [kept, lock]\ndeep = []\nfor _i in range(100_000): deep = [deep]\nlast = kept")
        file, answer = self.save()
        lost = {item["name"]: item for item in answer["lost"]}
        self.assertEqual(sorted(lost), ["db", "deep", "file", "frame", "gen", "lock", "mixed", "sock"])
        self.assertEqual(lost["gen"]["type"], "generator")
        self.assertIn("generator", lost["gen"]["reason"])
        self.assertEqual(lost["deep"]["reason"], "nested too deeply")
        k, answer = self.wake(file)
        self.assertEqual(answer["lost"], [])
        self.assertEqual(k.text("last is kept, _i, 'gen' in globals()"), "(True, 99999, False)")
        self.assertEqual(self.k.text("next(gen)"), "1")

    def test_a_deep_recursion_limit_does_not_crash(self):
        self.k.run("import sys\nsys.setrecursionlimit(10**8)\ndeep = []\nfor i in range(10**6): deep = [deep]")
        _, answer = self.save()
        self.assertEqual(self.names(answer), ["deep"])

    def test_what_does_not_come_back_is_named(self):
        with open(os.path.join(self.directory, "mine.py"), "w") as file:
            file.write("def fail(): raise ValueError('not again')\nclass Bad:\n    def __reduce__(self): return fail, ()\n"
                       "class Good:\n    pass\nclass Odd:\n    def __reduce__(self): raise SystemExit(3)\n")
        self.k.run("import mine\ngood = mine.Good()\ngood.bad = None\nbad = mine.Bad()\nwith_bad = {'bad': bad, 'l': []}\nshares = [with_bad['l']]\nodd = mine.Odd()\nafter = [good, good]")
        file, answer = self.save()
        self.assertEqual(self.names(answer), ["bad", "odd", "with_bad"])
        k, answer = self.wake(file)
        self.assertEqual(answer["lost"], [])
        self.assertEqual(k.text("after[0] is good, shares"), "(True, [[]])")

    def test_a_module_that_is_gone(self):
        path = os.path.join(self.directory, "mine.py")
        with open(path, "w") as file:
            file.write("class Good:\n    pass\n")
        self.k.run("import mine\nx = 1\na = mine.Good()\nb = [a]\nc = [x]\nd = c")
        file, answer = self.save()
        self.assertEqual(answer["lost"], [])
        os.unlink(path)
        k, answer = self.wake(file)
        self.assertEqual(self.names(answer), ["a", "b", "mine"])
        self.assertIn("mine", answer["lost"][0]["reason"])
        self.assertEqual(k.text("x, d is c, 'a' in globals()"), "(1, True, False)")

    def test_surroundings(self):
        k = self.zygote.fork(cwd=self.directory, env={"A": "1", "B": "2", "C": "3"}, seed="07" * 16)
        k.run("import os, sys, random\nos.environ['A'] = 'changed'; os.environ['NEW'] = 'n'; del os.environ['B']\nos.mkdir('sub'); os.chdir('sub')\n"
              "sys.path.insert(1, '/added')\nrandom.random()\ndel os.environ['C']; os.environ['C'] = '3'")
        k.run("from __future__ import annotations\n41")
        file, _ = self.save(k)
        expected = k.text("random.random()")
        k, _ = self.wake(file, env={"A": "1", "B": "2", "C": "other"})
        self.assertEqual(k.text("_"), "41")
        self.assertEqual(k.text("random.random()"), expected)
        self.assertEqual(
            k.text("os.path.basename(os.getcwd()), os.environ['A'], os.environ['NEW'], 'B' in os.environ, os.environ['C'], sys.path[1]"),
            "('sub', 'changed', 'n', False, 'other', '/added')",
        )
        self.assertEqual(k.text("def f(a: nowhere): pass\nf.__annotations__"), "{'a': 'nowhere'}")

    def test_what_was_deleted_stays_deleted(self):
        self.k.run("x = 1")
        file, _ = self.save()
        k = self.zygote.fork(cwd=self.directory)
        k.run("y = 2")
        k.ask(6, {}, [file.fileno()])
        self.assertEqual(k.text("x, 'y' in globals(), __name__"), "(1, False, '__main__')")

    def test_damaged_files(self):
        self.k.run("x = 1")
        file, _ = self.save()
        good = os.pread(file.fileno(), 1 << 20, 0)
        k = self.zygote.fork(cwd=self.directory)
        k.run("mine = 1")
        huge = good[:16] + struct.pack("<QQ", 1 << 60, 1 << 50) + good[32:]
        for data in (b"", b"x", good[:50], good[:-1], good + b"x", b"X" + good[1:], good[:120] + b"?" + good[121:], huge, b"\0" * len(good)):
            other = self.file()
            other.write(data)
            other.flush()
            answer = k.ask(6, {}, [other.fileno()])
            self.assertIn("error", answer, data[:10])
        self.assertEqual(k.text("mine"), "1")
        self.assertEqual(k.ask(6, {}, [file.fileno()]), {"lost": []})

    def test_a_file_that_cannot_be_written(self):
        with open("/dev/null") as nothing:
            self.assertIn("error", self.k.ask(5, {}, [nothing.fileno()]))
        self.assertEqual(self.k.text("1"), "1")

    def test_spill_without_numpy(self):
        self.assertEqual(self.k.ask(7, {"frame_bytes": 1, "array_bytes": 1}, [self.file().fileno()]), {"bytes": 0, "names": []})


if __name__ == "__main__":
    unittest.main()
