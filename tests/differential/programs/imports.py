import importlib, sys
names = """annotationlib argparse bz2 cgi cmd colorsys compileall compression.zstd concurrent.futures ctypes curses dbm.dumb distutils
doctest email.mime.text fileinput ftplib getopt http.client http.cookies imaplib imp lzma mailbox modulefinder multiprocessing netrc
optparse pdb plistlib py_compile readline rlcompleter sched selectors shelve ssl string.templatelib stringprep telnetlib tkinter timeit
tomllib trace tracemalloc turtle unittest.mock venv wave xmlrpc.client zipapp"""
for name in names.split():
    try:
        print(name, importlib.import_module(name).__name__)
    except Exception as error:
        print(name, type(error).__name__, error)
colorsys = sys.modules['colorsys']
colorsys.__file__, colorsys.__spec__.origin, colorsys.__spec__.cached, colorsys.rgb_to_hsv(.2, .4, .6)
# %%
import os
os.makedirs('package/sub')
files = {
    'package/__init__.py': 'from . import sub\nNAME = __name__\n',
    'package/sub/__init__.py': 'from .leaf import value\n',
    'package/sub/leaf.py': 'value = 1\ndef fail():\n    raise ValueError("from the leaf")\n',
    'circular_a.py': 'import circular_b\nx = 1\n',
    'circular_b.py': 'from circular_a import x\n',
}
for path, text in files.items():
    open(path, 'w').write(text)
importlib.invalidate_caches()
import package.sub.leaf as leaf
sys.modules['package'].NAME, leaf.value, leaf.__file__, leaf.__package__, sorted(os.listdir('package'))
# %% raises ValueError
leaf.fail()
# %%
open('package/sub/leaf.py', 'w').write('value = 22222\n')
importlib.invalidate_caches()
importlib.reload(leaf).value
# %% raises ImportError
import circular_a
# %% raises ModuleNotFoundError
import not_there_at_all
# %% raises ImportError
from math import nope
# %% raises ModuleNotFoundError
import package.absent
