import sys, builtins, math
print(sys.version, sys.version_info, sys.implementation.name, sys.implementation.cache_tag, sys.platform, sys.byteorder, sys.maxsize)
print(sys.float_info, sys.int_info, sys.hash_info, sys.thread_info, sys.flags, sys.getrecursionlimit(), sys.getswitchinterval())
print(sys.getdefaultencoding(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.dont_write_bytecode, sys.pycache_prefix)
print(sys.path, sys.argv, sys.orig_argv, sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix, sys.platlibdir, sys.warnoptions)
print(sys.builtin_module_names, [type(f).__name__ for f in sys.meta_path], len(sys.path_hooks), len(sys.stdlib_module_names))
print(sorted(dir(builtins)), sorted(dir(math)), [sys.getsizeof(x) for x in (0, 2 ** 100, 1.5, '', 'abc', 'ü', '漢', b'', [], (), {}, set())])
# %%
import linecache
print(sorted(sys.modules), sorted(linecache.cache), hasattr(sys, 'last_exc'), sys.exc_info())
# %%
__name__, __builtins__.__name__, sorted(k for k in globals() if k.startswith('__')), vars().keys() == globals().keys()
# %%
import gc, signal
gc.isenabled(), gc.get_threshold(), [s.name for s in signal.Signals], signal.getsignal(signal.SIGINT) is not None
