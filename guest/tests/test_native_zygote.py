import os
import struct
import tempfile
import unittest

from native_host import GUEST, READY, REFUSED, NativeTest, Zygote

NO_NEW_PRIVS = ["no_new_privs"]


def instruction(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)


def filters(*numbers):
    """Programs that answer EPERM to one system call each."""
    data = struct.pack("<I", len(numbers))
    for number in numbers:
        program = instruction(0x20, 0, 0, 0) + instruction(0x15, 0, 1, number)
        program += instruction(6, 0, 0, 0x00050001) + instruction(6, 0, 0, 0x7FFF0000)
        data += struct.pack("<I", 4) + program
    return data


class Zygotes(unittest.TestCase):
    def test_setup_and_preload(self):
        with Zygote(preload=["this_is_no_module", "colorsys"], setup="import colorsys as c\nx = [1]\ndef f(): return x") as z:
            self.assertTrue(z.first["ready"])
            self.assertIn("this_is_no_module", z.first["failed"]["this_is_no_module"])
            self.assertEqual(list(z.first["failed"]), ["this_is_no_module"])
            first, second = z.fork(), z.fork()
            self.assertEqual(second.error("_")["type"], "NameError")
            first.run("x.append(2)")
            self.assertEqual(first.text("f(), c.__name__, f.__globals__ is globals()"), "([1, 2], 'colorsys', True)")
            self.assertEqual(second.text("f()"), "[1]")
            self.assertIn("return x", second.text("import inspect\ninspect.getsource(f)"))

    def test_setup_that_fails(self):
        for code, word in (("1/0", "ZeroDivisionError"), ("import sys\nsys.exit(3)", "exit(3)"),
                           ("import asyncio\nawait asyncio.sleep(9)", "await"), ("tools.x()", "AttributeError"), ("x = (", "SyntaxError")):
            with self.subTest(code=code), Zygote(setup=code) as z:
                self.assertIn(word, z.first["error"])
                self.assertEqual(z.process.wait(10), 1)

    def test_broken_argument_is_an_answer(self):
        with Zygote(seccomp="/nowhere/at/all") as z:
            self.assertIn("FileNotFoundError", z.first["error"])

    def test_ends_with_its_socket(self):
        z = Zygote()
        kernel = z.fork()
        z.control.close()
        self.assertEqual(z.process.wait(10), 0)
        self.assertEqual(kernel.text("1 + 1"), "2")
        z.close()

    def test_packages(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "a_package.py"), "w") as file:
                file.write("value = 5")
            with open(os.path.join(directory, "evil.pth"), "w") as file:
                file.write("import os; os.environ['PTH'] = 'ran'\n")
            with Zygote(packages=directory, preload=["a_package"]) as z:
                self.assertEqual(z.first["failed"], {})
                k = z.fork()
                self.assertEqual(k.text("import a_package, os, sys\na_package.value, 'PTH' in os.environ"), "(5, False)")
                path = eval(k.text("sys.path"))
                self.assertEqual(path[:2], [directory, ""])
                self.assertEqual(path[-1], str(GUEST))
                self.assertFalse([entry for entry in path if "site-packages" in entry])
                without = z.fork(inject_setup=False)
                self.assertNotIn(directory, eval(without.text("import sys\nsys.path")))


class Requests(NativeTest):
    def test_bad_requests_are_answered(self):
        for data in (b"nonsense", b"[]", b"{}", b'{"steps":5}', b'{"steps":[]}', b'{"steps":[[]]}', b"\xff\xfe"):
            with self.subTest(data=data):
                answer, descriptors = self.zygote.ask(data)
                self.assertIn("error", answer)
                self.assertEqual(descriptors, [])
        self.assertEqual(self.zygote.fork().text("1"), "1")

    def test_namespace_that_cannot_be_joined(self):
        reading, writing = os.pipe()
        answer, _ = self.zygote.ask({"steps": [["setns", 3, 0x20000000]]}, [reading, writing, writing, reading])
        self.assertIn("error", answer)
        os.close(reading)
        os.close(writing)

    def test_descriptors_do_not_pile_up(self):
        count = lambda: len(os.listdir(f"/proc/{self.zygote.process.pid}/fd"))
        before = count()
        for _ in range(5):
            self.zygote.fork().text("1")
            self.zygote.ask(b"nonsense", [0, 1, 2])
        self.assertEqual(count(), before)

    def test_a_kernel_has_only_its_own_descriptors(self):
        # The last one reads the directory.
        self.assertEqual(self.k.text("import os\nsorted(map(int, os.listdir('/proc/self/fd')))"), "[0, 1, 2, 3, 4]")
        self.assertFalse(eval(self.k.text("os.get_inheritable(3)")))

    def test_dead_kernels_leave_no_zombies(self):
        kernel = self.zygote.fork()
        kernel.send(b"\x02\0\0\0\0\0\0import os; os._exit(3)")
        self.assertTrue(kernel.dead())
        self.assertEqual(kernel.receive(), (37, b"\x03\x00\x00\x00"))
        self.assertIsNone(kernel.receive())
        self.zygote.fork()
        with self.assertRaises(FileNotFoundError):
            os.stat(f"/proc/{kernel.pid}")

    def test_signals_are_reset(self):
        self.assertEqual(
            self.k.text("import signal\nsignal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, signal.pthread_sigmask(0, [])"),
            "(True, set())",
        )
        self.assertEqual(self.k.text("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'exit 3']).returncode"), "3")

    def test_sessions_differ_in_chance(self):
        code = "import random, tempfile, uuid\nrandom.random(), next(tempfile._get_candidate_names()), uuid.uuid4().hex"
        values = [self.zygote.fork().text(code) for _ in range(4)]
        self.assertEqual(len(set(values)), 4)
        seeded = [self.zygote.fork(seed="ab" * 16).text("import random\nrandom.random()") for _ in range(2)]
        self.assertEqual(seeded[0], seeded[1])

    def test_builtins(self):
        self.assertEqual(self.k.text("callable(help), callable(exit), callable(display), tools"), "(True, True, True, <tools: none>)")

    def test_workers_are_forks(self):
        self.assertEqual(
            self.k.text("import multiprocessing\ndef f(x): return x * 2\nwith multiprocessing.Pool(2) as p: r = p.map(f, [1, 2])\nr"),
            "[2, 4]",
        )


class Steps(unittest.TestCase):
    """Those that need no privilege."""

    @classmethod
    def setUpClass(cls):
        file = tempfile.NamedTemporaryFile()
        cls.addClassCleanup(file.close)
        mkdir, mkdirat, symlink = {"x86_64": (83, 258, 88), "aarch64": (34, 34, 36)}[os.uname().machine]
        file.write(filters(mkdir, mkdirat, symlink))
        file.flush()
        cls.zygote = Zygote(seccomp=file.name)
        cls.addClassCleanup(cls.zygote.close)
        assert cls.zygote.first.get("ready"), cls.zygote.first

    def test_all_in_order(self):
        k = self.zygote.fork([
            ["setsid"], ["rlimit", 7, 300, 300], ["rlimit", "core", 0, 0], ["oom_score", 900], ["drop_capabilities"],
            NO_NEW_PRIVS, ["dumpable", 0], ["seccomp"],
        ])
        self.assertEqual(k.text("import resource\nresource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)"), "((300, 300), (0, 0))")
        self.assertEqual(k.error("import os\nos.mkdir('made')")["type"], "PermissionError")
        self.assertEqual(k.text("os.getsid(0) == os.getpid()"), "True")
        with open(f"/proc/{k.pid}/status") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"], status["Seccomp_filters"]), ("1", "2", "3"))
        self.assertEqual({status[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}, {""})
        with open(f"/proc/{k.pid}/oom_score_adj") as file:
            self.assertEqual(file.read(), "900\n")

    def refusal(self, *steps):
        kernel = self.zygote.fork(steps, boot=False)
        kind, payload = kernel.receive()
        self.assertEqual(kind, REFUSED, (kind, payload))
        self.assertIsNone(kernel.receive())
        self.assertTrue(kernel.dead())
        return eval(payload.decode())

    def test_the_first_that_fails_is_the_last(self):
        self.assertEqual(self.refusal(NO_NEW_PRIVS, ["setns", 0, 0x20000], ["seccomp"])["step"], "setns")
        self.assertEqual(self.refusal(["landlock", 1])["step"], "landlock")
        self.assertIn("doesn't know", self.refusal(["unheard_of"])["message"])
        for step in (["setns"], ["setns", 99, 0], ["rlimit", "nothing", 1, 1], ["dumpable", "x"], "seccomp", 5, [], ["oom_score", None]):
            with self.subTest(step=step):
                self.assertTrue(self.refusal(NO_NEW_PRIVS, step)["message"])

    def test_no_filters_is_no_lockdown(self):
        with Zygote() as zygote:
            kernel = zygote.fork([NO_NEW_PRIVS, ["seccomp"]], boot=False)
            self.assertEqual(kernel.receive()[0], REFUSED)

    def test_damaged_filters(self):
        good = filters(1)
        for data in (good[:-1], good + b"x", b"\1", struct.pack("<I", 0), struct.pack("<II", 1, 0), struct.pack("<II", 1, 1 << 31)):
            with self.subTest(data=data), tempfile.NamedTemporaryFile() as file:
                file.write(data)
                file.flush()
                with Zygote(seccomp=file.name) as zygote:
                    self.assertIn("error", zygote.first)

    def test_no_steps(self):
        kernel = self.zygote.fork(boot=False)
        self.assertEqual(kernel.receive(), (READY, b""))


if __name__ == "__main__":
    unittest.main()
