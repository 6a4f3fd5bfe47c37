"""What stands in for pip and uv, without a supervisor."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SHIMS = pathlib.Path(__file__).resolve().parent.parent / "belljar_native" / "shims"
sys.path.insert(0, str(SHIMS))

from belljar_install import Failure, project, requirements  # noqa: E402


class Requirements(unittest.TestCase):
    def test_what_is_satisfied(self):
        installed = {"six": "1.17.0", "zope-interface": "6.0", "odd": "1.0rc1"}
        for good in ("six", "Six", "six>=1.5", "six>=1,<2", "six==1.17", "six==1.*", "six~=1.16", "six!=1.16", "zope.interface >= 6", "six (>1)", "odd==1.0rc1"):
            self.assertTrue(requirements.is_satisfied(good, installed), good)
        for bad in ("seven", "six>=2", "six<1.17", "six==1.16.*", "six~=1.18", "six~=1.16.0", "six[x]", "six; python_version > '3'", "odd>=1", "six>=1.x", "six!=1.*", "six==1.17.0.1"):
            self.assertFalse(requirements.is_satisfied(bad, installed), bad)

    def test_what_is_not_of_the_index(self):
        for bad in (".", "./x", "/x", "~/x", "x.whl", "x @ https://y", "git+https://x", "a/b", "-x", ""):
            with self.assertRaises(Failure, msg=bad):
                requirements.check(bad)

    def test_lists(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "requirements.txt")
            pathlib.Path(directory, "more.txt").write_text("seven\n")
            path.write_text("# all\nsix>=1 # why\n\nlong; \\\n  python_version > '3'\n-r more.txt\n--index-url https://x\n")
            notes = []
            self.assertEqual(requirements.read_list(str(path), notes), ["six>=1", "long;    python_version > '3'", "seven"])
            self.assertEqual(len(notes), 1)
            for bad in ("-e .\n", "six --hash=sha256:00\n", "-r requirements.txt\n", "-c x\n"):
                path.write_text(bad)
                with self.assertRaises(Failure, msg=bad):
                    requirements.read_list(str(path), [])


class Projects(unittest.TestCase):
    def test_dependencies_are_changed_and_the_rest_stays(self):
        text = '[build-system]\nrequires = ["a"]\n\n[project]\nname = "x"\ndependencies = [\n  "one>=1", # ]\n  \'two; extra == "y"\',\n]\n\n[tool.x]\ndependencies = ["no"]\n'
        found = project.Project("pyproject.toml", text)
        self.assertEqual(found.dependencies, ["one>=1", 'two; extra == "y"'])
        found.add("three")
        found.add("One>=2")
        self.assertEqual(found.dependencies, ["One>=2", "three", 'two; extra == "y"'])
        self.assertTrue(found.text.startswith('[build-system]\nrequires = ["a"]\n\n[project]\nname = "x"\n'))
        self.assertTrue(found.text.endswith('[tool.x]\ndependencies = ["no"]\n'))
        found.remove("three")
        with self.assertRaises(Failure):
            found.remove("three")

    def test_one_without_dependencies(self):
        for text, start in (('[project]\nname = "x"\n', '[project]\ndependencies = [\n    "one",\n]\nname = "x"\n'), ("", "\n\n[project]\ndependencies = [")):
            found = project.Project("pyproject.toml", text)
            found.add("one")
            self.assertTrue(found.text.startswith(start), found.text)
            self.assertEqual(found.dependencies, ["one"])


class Programs(unittest.TestCase):
    def run_program(self, module, *arguments):
        with tempfile.TemporaryDirectory() as home:
            environment = {"HOME": home, "VIRTUAL_ENV": home + "/.venv", "PATH": os.environ["PATH"], "PYTHONPATH": str(SHIMS)}
            code = f"import sys; from belljar_install import {module}; sys.exit({module}.main(sys.argv[1:]))"
            return subprocess.run(
                [sys.executable, "-B", "-c", code, *arguments], cwd=home, env=environment, capture_output=True, text=True, timeout=60
            )

    def test_without_permission(self):
        for module, arguments in (("pip", ("install", "six")), ("uv", ("pip", "install", "six"))):
            done = self.run_program(module, *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn("allow it with --allow-install (Policy.install)", done.stderr)

    def test_unknown_words(self):
        for module, arguments in (("pip", ("nonsense",)), ("uv", ("nonsense",)), ("uv", ("pip", "nonsense")), ("pip", ("install", "--nonsense", "x"))):
            done = self.run_program(module, *arguments)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done)

    def test_a_virtual_environment(self):
        done = self.run_program("uv", "venv", "-q", "here")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(self.run_program("pip", "list").stdout, "")


if __name__ == "__main__":
    unittest.main()
