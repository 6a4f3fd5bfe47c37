# Compiles modules of packages, none of which is run. Called with a directory, a list of paths in it, and where the
# directory will be seen. Says the number of each path before it begins with it: one that ends this process is known.
import importlib.util
import json
import os
import resource
import sys
import warnings
from importlib._bootstrap_external import _code_to_hash_pyc

# Whatever a source makes the compiler do: no more than this.
limits = {"RLIMIT_AS": 4 << 30, "RLIMIT_CPU": 900, "RLIMIT_FSIZE": 256 << 20, "RLIMIT_NOFILE": 64, "RLIMIT_CORE": 0}
for name, most in limits.items():
    hard = resource.getrlimit(getattr(resource, name))[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(getattr(resource, name), (most, most))
warnings.simplefilter("ignore")
directory, names, seen_at, start = sys.argv[1:]
with open(names, encoding="utf-8") as file:
    names = json.load(file)
for number, name in list(enumerate(names))[int(start) :]:
    os.write(1, b"%d\n" % number)
    path = os.path.join(directory, name)
    try:
        with open(path, "rb") as file:
            source = file.read()
        code = compile(source, os.path.join(seen_at, name), "exec", dont_inherit=True)
        code = _code_to_hash_pyc(code, importlib.util.source_hash(source), False)
        place = importlib.util.cache_from_source(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "xb") as file:
            file.write(code)
    except Exception:
        # Importing it will say why.
        pass
