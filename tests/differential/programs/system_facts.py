import os, platform, sysconfig, time
print(os.name, os.sep, os.linesep, os.pathsep, os.devnull, dict(os.environ), os.getcwd(), len(dir(os)))
print(platform.python_version(), platform.system(), platform.machine(), platform.architecture(), platform.node(), sysconfig.get_platform())
for name in 'getpid getuid getlogin cpu_count getppid fork pipe getloadavg ctermid sched_yield uname umask get_terminal_size'.split():
    try:
        print(name, repr(getattr(os, name)()))
    except Exception as error:
        print(name, type(error).__name__, error)
for name, arguments in [('chmod', ('.', 0o700)), ('chown', ('.', 0, 0)), ('kill', (1, 9)), ('statvfs', ('/',)), ('setuid', (0,)), ('mkfifo', ('p',)), ('urandom', (0,)), ('strerror', (2,)), ('strerror', (9999,)), ('getenv', ('HOME',)), ('putenv', ('A', 'b'))]:
    try:
        print(name, repr(getattr(os, name)(*arguments)))
    except Exception as error:
        print(name, type(error).__name__, error)
# %%
for name in ('time', 'monotonic', 'perf_counter'):
    info = time.get_clock_info(name)
    print(name, info.implementation, info.monotonic, info.adjustable)
start = time.monotonic()
time.sleep(0.02)
time.time() > 1.6e9, time.monotonic() <= time.monotonic(), 0.015 < time.monotonic() - start < 5
