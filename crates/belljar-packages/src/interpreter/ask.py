# Says what this Python is. Python 2 must understand it, to be refused in words.
import json
import os
import sys
import sysconfig

try:
    from importlib.util import MAGIC_NUMBER as magic
except ImportError:
    magic = b""
try:
    library = os.confstr("CS_GNU_LIBC_VERSION")
except (AttributeError, ValueError):
    library = None
level = {"alpha": "a", "beta": "b", "candidate": "rc"}.get(sys.version_info[3])
version = "%d.%d.%d" % tuple(sys.version_info[:3])
shared = ""
if sysconfig.get_config_var("Py_ENABLE_SHARED"):
    shared = os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "")
prefix = os.path.realpath(getattr(sys, "base_prefix", sys.prefix))
names = [
    getattr(sys, "_base_executable", None) or sys.executable,
    os.path.join(prefix, "bin", "python%d.%d" % tuple(sys.version_info[:2])),
    os.path.join(prefix, "bin", "python3"),
]
executables = [os.path.realpath(name) for name in names if name and os.path.isfile(name)]
print(
    json.dumps(
        {
            "implementation": getattr(getattr(sys, "implementation", None), "name", "unknown"),
            "major": sys.version_info[0],
            "minor": sys.version_info[1],
            "version": version + (level + str(sys.version_info[4]) if level else ""),
            "prefix": prefix,
            "executables": executables,
            "shared": shared,
            "soabi": sysconfig.get_config_var("SOABI") or "",
            "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
            "library": library or "",
            "platform": sys.platform,
            "machine": os.uname()[4],
            "wide": sys.maxsize > 2**32,
            "tag": getattr(getattr(sys, "implementation", None), "cache_tag", "") or "",
            "magic": "".join("%02x" % byte for byte in bytearray(magic)),
        }
    )
)
