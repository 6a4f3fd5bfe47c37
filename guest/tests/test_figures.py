"""With a stand-in for pyplot: what is drawn doesn't matter here."""

import os
import sys
import tempfile

from fake_host import SessionTest

PYPLOT = """
_open, fail = {}, False
class Figure:
    def __init__(self, number): self.number = number
    def savefig(self, file, format, **options):
        if fail: raise ValueError("can't draw")
        file.write(b"PNG%d" % self.number)
    def __repr__(self): return f"<Figure {self.number}>"
def get_fignums(): return sorted(_open)
def figure(number=None):
    number = number or len(_open) + 1
    return _open.setdefault(number, Figure(number))
def close(what): _open.clear()
def show(): raise AssertionError("the backend's own")
"""


class Figures(SessionTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        os.mkdir(os.path.join(directory.name, "matplotlib"))
        for name, text in (("__init__.py", ""), ("pyplot.py", PYPLOT)):
            with open(os.path.join(directory.name, "matplotlib", name), "w") as file:
                file.write(text)
        sys.path.insert(0, directory.name)
        self.addCleanup(sys.path.remove, directory.name)
        for name in ("matplotlib", "matplotlib.pyplot"):
            self.addCleanup(sys.modules.pop, name, None)

    def shown(self):
        return [display["data"]["text/plain"] for display in self.s.host.displays]

    def test_open_figures_are_shown_and_closed(self):
        self.s.run("import matplotlib.pyplot as plt\nplt.figure(); plt.figure(); 5")
        self.assertEqual(self.shown(), ["<Figure 1>", "<Figure 2>"])
        self.assertEqual(self.s.host.displays[0]["data"]["image/png"], "UE5HMQ==")
        self.assertEqual(self.s.text("plt.get_fignums()"), "[]")

    def test_show_begins_a_new_figure(self):
        self.s.run("import matplotlib.pyplot as plt\nplt.figure(); plt.show(); display(3); plt.figure(); plt.show(block=True)")
        self.assertEqual(self.shown(), ["<Figure 1>", "3", "<Figure 1>"])

    def test_failures(self):
        self.s.run("import matplotlib.pyplot as plt")
        self.assertEqual(self.s.error("plt.figure(); 1/0")["type"], "ZeroDivisionError")
        self.assertEqual(self.shown(), [])
        self.assertEqual(self.s.text("7"), "7")
        self.assertEqual(self.shown(), ["<Figure 1>"])
        self.assertEqual(self.s.error("plt.fail = True; plt.figure(); 5")["message"], "can't draw")
        self.assertEqual(self.s.text("6"), "6")
        self.s.run("plt.get_fignums = None")
        self.assertEqual(self.s.error("8")["type"], "TypeError")
        self.s.run("import sys; sys.modules.pop('matplotlib.pyplot')")
        self.assertEqual(self.s.text("9"), "9")

    def test_await(self):
        self.s.run("import matplotlib.pyplot as plt, asyncio\nplt.figure()\nawait asyncio.sleep(0)")
        self.assertEqual(self.shown(), ["<Figure 1>"])
