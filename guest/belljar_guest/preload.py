"""Modules imported when the runtime is made, so that a cell's `import` finds them in memory."""

import importlib

ABSENT = []  # names that this interpreter doesn't have

MODULES = """
abc argparse array ast asyncio base64 binascii bisect calendar cmath cmd code codecs collections collections.abc colorsys
concurrent.futures concurrent.futures.thread configparser contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis
email email.message email.mime.multipart email.mime.text email.parser email.utils encodings.ascii encodings.idna
encodings.latin_1 encodings.utf_8_sig encodings.utf_16 encodings.cp1252 enum errno filecmp fileinput fnmatch fractions
functools gc getpass gettext glob graphlib gzip hashlib heapq hmac html html.entities html.parser http http.client
http.cookies importlib importlib.metadata importlib.resources importlib.util inspect io ipaddress itertools json keyword
linecache locale logging logging.handlers marshal math mimetypes numbers operator os os.path pathlib pickle pickletools
pkgutil platform plistlib pprint pydoc queue quopri random re reprlib runpy sched secrets select selectors shelve shlex
shutil signal socket sqlite3 stat statistics string string.templatelib struct subprocess sys sysconfig tarfile tempfile
textwrap threading time timeit token tokenize tomllib trace traceback tracemalloc types typing unicodedata unittest
unittest.mock urllib.error urllib.parse urllib.request uuid warnings wave weakref xml.dom.minidom xml.etree.ElementTree
xml.sax xml.sax.saxutils zipfile zlib zoneinfo _strptime _pydecimal doctest multiprocessing ssl bz2 lzma
compression.zstd
""".split()


def preload(modules=MODULES):
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException:
            ABSENT.append(name)
