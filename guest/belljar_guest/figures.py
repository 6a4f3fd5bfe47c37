"""Figures of pyplot that are open when a cell ends, or at `plt.show()`, are displayed and closed, as in a notebook.

Nothing here imports matplotlib: a session that doesn't use it pays nothing.
"""

import builtins
import io
import sys
from importlib.machinery import PathFinder

from .private import OWN as __builtins__

_PYPLOT = "matplotlib.pyplot"


def show_open():
    """After a cell. User code: matplotlib's, and what the user hung into it."""
    pyplot = _modules.get(_PYPLOT)
    if pyplot is None or not pyplot.get_fignums():
        return
    try:
        for number in pyplot.get_fignums():
            data = io.BytesIO()
            figure = pyplot.figure(number)
            figure.savefig(data, format="png", bbox_inches="tight")
            bundle = {"text/plain": repr(figure), "image/png": data.getvalue()}
            builtins.display(bundle, raw=True)
    finally:
        pyplot.close("all")


def show(*args, **kwargs):
    """Display all open figures, and close them."""
    show_open()


class PyplotFinder:
    """Puts our `show` into pyplot when it is imported: Agg's own would warn, and the next plot land in the same figure."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != _PYPLOT:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                module.show = show

            spec.loader.exec_module = exec_module
        return spec

    @staticmethod
    def invalidate_caches():
        pass


def install():
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "PyplotFinder"]
    sys.meta_path.insert(0, PyplotFinder)


_modules = sys.modules
