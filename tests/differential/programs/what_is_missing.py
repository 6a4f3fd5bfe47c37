import threading, subprocess, multiprocessing, concurrent.futures, os
def attempt(name, function):
    try:
        print(name, function())
    except Exception as error:
        print(name, type(error).__name__, error)
attempt('thread', lambda: threading.Thread(target=print).start())
attempt('pool', lambda: list(concurrent.futures.ThreadPoolExecutor(2).map(len, ['a', 'bb'])))
attempt('subprocess', lambda: subprocess.run(['ls']))
attempt('system', lambda: os.system('ls'))
attempt('popen', lambda: os.popen('ls').read())
attempt('process', lambda: multiprocessing.Process(target=print).start())
lock, local = threading.RLock(), threading.local()
local.x = 1
with lock:
    print(threading.current_thread().name, threading.active_count(), lock.acquire(blocking=False), vars(local), threading.Event().wait(0.01))
# %% raises OSError
import ctypes
ctypes.CDLL(None)
# %% raises ModuleNotFoundError
import ssl
