import builtins
import os
import pathlib
import sys
import tempfile

from fake_host import SessionTest, in_child
from native_host import NativeTest

ID = "a1b2c3"


class Keeper:
    """A host that keeps two artifacts and two datasets on a shelf."""

    def __init__(self, shelf):
        self.shelf = pathlib.Path(shelf)
        (self.shelf / "artifacts" / ID).mkdir(parents=True)
        (self.shelf / "artifacts" / ID / "plot é.txt").write_bytes("höhe\n".encode())
        (self.shelf / "data").mkdir()
        (self.shelf / "data" / "prices.csv").write_text("a,b\n1,2\n")
        (self.shelf / "data" / "notes.bin").write_bytes(b"?")
        self.calls = []

    def tools(self):
        return {"__artifacts__": self.artifacts, "__datasets__": self.datasets}

    def artifacts(self, operation, *arguments):
        self.calls.append((operation, *arguments))
        about = {"id": ID, "name": "plot é.txt", "size": 6, "mime": "text/plain", "sha256": "00"}
        if operation == "list":
            return [about]
        if arguments == ("forbidden",):
            raise PermissionError("the policy of this session doesn't let it see 'forbidden'")
        if arguments == ("odd",):
            raise type("QuotaError", (Exception,), {})("odd")
        if arguments != (ID,):
            raise KeyError(f"there is no artifact {arguments[0]!r}")
        return {**about, "path": f"{self.shelf}/artifacts/{ID}/plot é.txt"} if operation == "path" else about

    def datasets(self, operation, *arguments):
        self.calls.append((operation, *arguments))
        if operation == "list":
            return [{"id": "prices", "version": "1", "size": 8, "sha256": "00", "path": None, "staged": False}]
        name = {"prices": "prices.csv", "notes": "notes.bin"}.get(arguments[0])
        if name is None:
            raise FileNotFoundError(f"there is no dataset {arguments[0]!r}")
        return {"path": f"{self.shelf}/data/{name}"}


class KeptTest:
    def keeper(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return Keeper(directory.name)


class Kept(KeptTest, SessionTest):
    def setUp(self):
        self.host = self.keeper()
        self.s = self.session({**self.host.tools(), "add": lambda a, b: a + b})

    def test_artifacts_are_read(self):
        self.assertEqual(self.s.text(f"artifacts.read({ID!r})"), repr("höhe\n".encode()))
        self.assertEqual(self.s.text(f"with artifacts.open({ID!r}) as f: b = f.read(2)\nb"), "b'h\\xc3'")
        for mode in ("r", "rt"):
            self.assertEqual(self.s.text(f"artifacts.open({ID!r}, {mode!r}).read()"), "'höhe\\n'")
        self.assertEqual(self.s.text(f"artifacts.open({ID!r}, 'r', encoding='latin-1').read()"), "'hÃ¶he\\n'")
        self.assertEqual(self.s.text(f"artifacts.path({ID!r}).name, type(artifacts.path({ID!r})).__name__"),
                         f"('plot é.txt', '{type(pathlib.Path()).__name__}')")
        self.assertEqual(self.s.text(f"artifacts.info({ID!r})['mime'], [a['id'] for a in artifacts.list()]"),
                         f"('text/plain', ['{ID}'])")
        self.assertEqual(self.s.text("artifacts.read(artifacts.list()[0])"), repr("höhe\n".encode()))

    def test_artifacts_are_not_written(self):
        for mode in ("w", "wb", "a", "r+", "rb+", "x", "", "U", None, ["r"]):
            with self.subTest(mode=mode):
                error = self.s.error(f"artifacts.open({ID!r}, {mode!r})")
                self.assertIn(error["type"], ("ValueError", "TypeError"))
                if isinstance(mode, str):
                    self.assertIn("write a file below artifacts/", error["message"])
        self.assertEqual(self.host.calls, [])

    def test_errors_are_those_that_the_host_names(self):
        for code, kind, part in (
            ("artifacts.path('none')", "KeyError", "there is no artifact 'none'"),
            ("artifacts.info('forbidden')", "PermissionError", "doesn't let it see"),
            ("artifacts.read('odd')", "tools.ToolError", "QuotaError: odd"),
            ("datasets.path('none')", "FileNotFoundError", "there is no dataset 'none'"),
            ("load('none')", ("FileNotFoundError", "ImportError"), ""),
            ("artifacts.path(7)", "TypeError", "the id of an artifact is a string, and not an object of type int"),
            ("datasets.path({})", "TypeError", "the id of a dataset"),
            ("datasets.path('prices', object())", "TypeError", "isn't JSON"),
        ):
            with self.subTest(code=code):
                error = self.s.error(code)
                self.assertIn(error["type"], kind if isinstance(kind, tuple) else (kind,))
                self.assertIn(part, error["message"])
                self.assertEqual(error["frames"][-1]["source"], code)

    def test_datasets(self):
        self.assertEqual(self.s.text("[d['id'] for d in datasets.list()]"), "['prices']")
        self.assertEqual(self.s.text("datasets.path('prices').read_text()"), "'a,b\\n1,2\\n'")
        self.s.run("datasets.path('prices', '2')\ndatasets.path('prices', version=3)")
        self.assertEqual(self.host.calls[-2:], [("path", "prices", "2"), ("path", "prices", 3)])

    def test_load(self):
        """With a stand-in for pandas, which the tests of the engines have."""
        self.s.run("import sys, types\npandas = types.ModuleType('pandas')\n"
                   "pandas.read_csv = lambda path, **options: (path.rpartition('/')[2], options)\n"
                   "saved = sys.modules.get('pandas')\nsys.modules['pandas'] = pandas")
        try:
            self.assertEqual(self.s.text("load('prices', sep=';')"), "('prices.csv', {'sep': ';'})")
            self.assertEqual(self.s.text("datasets.load('prices', version='2')"), "('prices.csv', {})")
            error = self.s.error("load('notes')")
            self.assertEqual(error["type"], "ValueError")
            self.assertIn("can't tell what 'notes.bin' is; datasets.path(id) leads to the file", error["message"])
            self.s.run("def lacking(path):\n    raise ImportError('Missing optional dependency.\\nMore.')\npandas.read_csv = lacking")
            error = self.s.error("load('prices')")
            self.assertEqual((error["type"], error["message"]), (
                "ImportError",
                "pandas.read_csv() lacks a package for 'prices.csv': Missing optional dependency; datasets.path(id) works without",
            ))
            self.s.run("sys.modules['pandas'] = None")
            error = self.s.error("load('prices')")
            self.assertEqual((error["type"], error["message"]), (
                "ImportError", "load() needs pandas; datasets.path(id) works without",
            ))
        finally:
            self.s.run("sys.modules.pop('pandas')\nif saved: sys.modules['pandas'] = saved")

    def test_readers_go_by_the_ending(self):
        from belljar_guest.kept import _reader
        for name, reader, options in (
            ("x.parquet", "read_parquet", {}), ("x.CSV", "read_csv", {}), ("x.tsv.gz", "read_csv", {"sep": "\t"}),
            ("x.v1.json", "read_json", {}), ("x.ndjson", "read_json", {"lines": True}), ("x.feather", "read_feather", {}),
            ("x.xlsx", "read_excel", {}),
        ):
            self.assertEqual(_reader(pathlib.Path(name)), (reader, options))
        for name in ("x", "x.gz", ".csv", "x.parquet.txt"):
            with self.assertRaises(ValueError):
                _reader(pathlib.Path(name))

    def test_they_never_need_an_await(self):
        self.assertEqual(self.s.text(f"import asyncio\nawait asyncio.sleep(0)\nartifacts.read({ID!r})[:1], datasets.list()[0]['id']"),
                         "(b'h', 'prices')")
        self.assertEqual(self.s.text(f"async def f(): return artifacts.path({ID!r}).name\nasyncio.run(f())"), "'plot é.txt'")
        self.assertEqual(self.s.host.started, [])

    def test_the_tools_behind_them_are_hidden(self):
        self.assertEqual(self.s.text("tools, dir(tools), len(tools), list(tools), '__artifacts__' in tools"),
                         "(<tools: add>, ['ToolError', 'add'], 1, ['add'], False)")
        self.assertEqual(self.s.error("tools.__artifacts__('list')")["type"], "AttributeError")
        self.s.run("help(tools)\nhelp(artifacts)\nhelp(load)")
        self.assertNotIn("__artifacts__", self.s.stdout)
        self.assertIn("write a file below artifacts/", self.s.stdout)
        self.assertEqual(self.s.text("artifacts, datasets, dir(artifacts), dir(datasets)"),
                         "(<artifacts: info(), list(), open(), path(), read()>, <datasets: list(), load(), path()>, "
                         "['info', 'list', 'open', 'path', 'read'], ['list', 'load', 'path'])")
        self.assertEqual(self.s.text("[name for name in globals() if name[0] != '_']"), "[]")

    def test_imports(self):
        self.assertEqual(self.s.text("import artifacts as a, datasets as d\na is artifacts, d is datasets"), "(True, True)")
        self.assertEqual(self.s.text("from datasets import path, load as l\npath('prices').name"), "'prices.csv'")
        self.assertEqual(self.s.error("import datasets.more")["type"], "ModuleNotFoundError")

    def test_a_module_of_the_users_own_wins_and_a_directory_does_not(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        os.makedirs(f"{directory.name}/artifacts")
        os.makedirs(f"{directory.name}/datasets")
        with open(f"{directory.name}/datasets/__init__.py", "w") as file:
            file.write("face = 'hugging'")
        self.s.run(f"import sys\nsys.path.insert(0, {directory.name!r})")
        try:
            self.assertEqual(self.s.text("import artifacts\nartifacts.list()[0]['id']"), f"'{ID}'")
            self.assertEqual(self.s.text("import datasets\ndatasets.face"), "'hugging'")
            self.assertEqual(self.s.text("del datasets\ndatasets.path('prices').name"), "'prices.csv'")
        finally:
            self.s.run(f"sys.path.remove({directory.name!r})\nfor name in ('artifacts', 'datasets'): sys.modules.pop(name, None)")

    def test_a_session_without_them_has_none(self):
        self.s.run("import artifacts, datasets")
        self.s.close()
        s = self.session({"add": lambda a, b: a + b})
        for name in ("artifacts", "datasets", "load"):
            self.assertEqual(s.error(name)["type"], "NameError")
            self.assertFalse(hasattr(builtins, name))
        self.assertEqual(s.error("import artifacts")["type"], "ModuleNotFoundError")
        self.assertFalse(any(type(finder).__name__ == "KeptFinder" for finder in sys.meta_path))
        s.close()
        s = self.session({"__datasets__": self.host.datasets})
        self.assertEqual(s.error("artifacts")["type"], "NameError")
        self.assertEqual(s.text("datasets.path('prices').name"), "'prices.csv'")

    def test_names_are_the_users_to_take(self):
        self.assertEqual(self.s.text("load = 5\nartifacts = 'mine'\nload, artifacts"), "(5, 'mine')")
        self.assertEqual(self.s.text("del load, artifacts\nartifacts.list()[0]['id']"), f"'{ID}'")
        self.assertEqual(self.s.text("import builtins\nbuiltins.load = len\nload('abc')"), "3")
        self.boot_again()
        self.assertEqual(self.s.text("load('abc')"), "3")
        self.assertEqual(self.s.text(f"del builtins.load, builtins.artifacts\nimport artifacts\nartifacts.path({ID!r}).name"),
                         "'plot é.txt'")
        self.boot_again()
        self.assertEqual(self.s.text("del artifacts\nartifacts.list()[0]['id']"), f"'{ID}'")

    def boot_again(self):
        """As a session that wakes does."""
        reply = self.s.handle(b'\x01{"tools":[{"name":"add"},{"name":"__artifacts__"},{"name":"__datasets__"}]}')
        self.assertEqual(reply[0], 16)

    def test_a_broken_interpreter_still_boots(self):
        self.s.run("import sys\nsaved = sys.meta_path\nsys.meta_path = None\nartifacts._host = None\ndatasets.__class__.load = 1")
        try:
            self.boot_again()
            self.assertEqual(self.s.text("tools.add(1, 2)"), "3")
        finally:
            from belljar_guest import kept
            self.s.run("sys.meta_path = saved")
            kept.Datasets.load = self.s.kernel.kept.load.__func__


class KeptByHostileCells(SessionTest):
    def test_what_they_do_to_builtins_breaks_only_themselves(self):
        outcomes = in_child([
            "import builtins\nfor name in list(vars(builtins)):\n    if name not in ('__build_class__',): delattr(builtins, name)",
            "1 + 1",
        ])
        self.assertEqual(outcomes[-1]["value"], {"text/plain": "2"})


class NativeKept(KeptTest, NativeTest):
    def test_they_survive_shadows_and_saving(self):
        host = self.keeper()
        k = self.zygote.fork(tools=host.tools(), cwd=self.directory)
        k.run("import artifacts as a\nd = datasets\nread = artifacts.read\nl = load\nboth = [a, d]")
        _, shadow = k.shadow()
        self.assertEqual(shadow.text(f"artifacts.read({ID!r})[:1], d.path('prices').name"), "(b'h', 'prices.csv')")
        shadow.close()
        _, shadow = k.shadow()
        file = self.file()
        answer = shadow.ask(5, {}, [file.fileno()])
        shadow.close()
        self.assertEqual(answer["lost"], [])
        woken = self.zygote.fork(tools=host.tools(), cwd=self.directory)
        self.assertEqual(woken.ask(6, {}, [file.fileno()]), {"lost": []})
        self.assertEqual(
            woken.text(f"a is artifacts, d is datasets, both[0] is a, read({ID!r})[:1], l == load, d.path('prices').name"),
            "(True, True, True, b'h', True, 'prices.csv')",
        )

    def test_a_zygote_offers_nothing_before_boot(self):
        self.assertEqual(self.k.error("artifacts")["type"], "NameError")
        self.assertEqual(self.k.error("load('x')")["type"], "NameError")
