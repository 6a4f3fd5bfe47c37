//! Ways to leave, all of which end the cell at most.

use crate::cells::{hostile, raising};

hostile! {
    sys_exit("import sys\nkeep2 = 1\nsys.exit(1)") => [Exited];
    sys_exit_in_a_finaliser("import sys\nclass A:\n    def __del__(self): sys.exit(1)\na = A()\ndel a") => [Ok];
    sys_exit_with_a_nasty_code("import sys\nclass C:\n    def __str__(self): raise SystemExit\n    __repr__ = __int__ = __index__ = __str__\nsys.exit(C())") => [Exited];
    sys_exit_with_a_nasty_number("import sys\nclass C(int):\n    def __int__(self): raise ValueError\n    __and__ = __index__ = __int__\nsys.exit(C(3))") => [Exited];
    a_subclass_of_system_exit("class E(SystemExit):\n    @property\n    def code(self): raise ValueError\nraise E") => [Exited];
    os_exit("import os\nos._exit(3)") => [Exited];
    os_exit_in_a_finaliser("import os\nclass A:\n    def __del__(self): os._exit(0)\na = A()\ndel a") => [Exited];
    os_exit_at_the_end("import os\nclass A:\n    def __repr__(self): os._exit(0)\nA()") => [Exited];
    os_exit_while_awaiting("import os, asyncio\nawait asyncio.sleep(0.01)\nos._exit(0)") => [Exited];
    os_abort("import os\nos.abort()") => [Killed];
    exec_functions("import os\ngetattr(os, 'execv', lambda *a: None)('/bin/sh', ['sh'])") => [Ok, Error];
    raise_signal("import signal\nfor n in range(1, 32):\n    try: signal.raise_signal(n)\n    except BaseException as e: print(n, type(e))") => [Ok, Killed, Exited, Interrupted];
    raise_abort("import signal\nsignal.raise_signal(6)") => [Killed, Exited, Error];
    raise_interrupt("import signal\nsignal.raise_signal(2)") => [Interrupted];
    raise_interrupt_for_ever("import signal\nwhile True:\n    try: signal.raise_signal(2)\n    except KeyboardInterrupt: pass") => [Timeout];
    simulate_interrupt("import _thread\n_thread.interrupt_main()\nwhile True: pass") => [Interrupted, Timeout, Error];
    keyboard_interrupt("raise KeyboardInterrupt") => [Interrupted];
    handlers_for_everything("import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass") => [Timeout];
    base_exception("raise BaseException('x')") => [Error];
    generator_exit("raise GeneratorExit") => [Error];
    stop_iteration("raise StopIteration") => [Error];
    cancelled("import asyncio\nraise asyncio.CancelledError") => [Error];
    cancelling_oneself("import asyncio\nasyncio.current_task().cancel()\nawait asyncio.sleep(1)") => [Error, Interrupted];
    stopping_the_loop("import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(0.01)\n1") => [Ok, Error];
    closing_the_loop("import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().close()\nawait asyncio.sleep(0.01)") => [Ok, Error];
    faulthandler("import faulthandler\nfaulthandler._sigsegv()") => [Ok, Error, Killed, Exited];
    faulthandler_stack("import faulthandler\nfaulthandler._stack_overflow()") => [Ok, Error, Killed, Exited];
    faulthandler_read_null("import faulthandler\nfaulthandler._read_null()") => [Ok, Error, Killed, Exited];
    faulthandler_fatal("import faulthandler\nfaulthandler._fatal_error_c_thread()") => [Ok, Error, Killed, Exited];
    faulthandler_later("import faulthandler\nfaulthandler.dump_traceback_later(1, exit=True)") => [Ok, Error, Killed, Exited];
    at_exit("import atexit, os\natexit.register(os._exit, 1)\natexit._run_exitfuncs()") => [Exited];
    finalising("import sys\ngetattr(sys, '_clear_internal_caches', lambda: None)()\nsys._clear_type_cache() if hasattr(sys, '_clear_type_cache') else 0") => [Ok];
    null_codecs("import codecs\ncodecs.register(lambda name: 1)\n'a'.encode('nowhere')") => [Error];
}

raising! {
    ctypes_loads_nothing("import ctypes\nctypes.CDLL(None)") => "OSError";
    ctypes_reaches_no_memory("import ctypes\nctypes.string_at(0)") => "OSError";
    _ctypes_is_absent("import _ctypes") => "ModuleNotFoundError";
    testcapi_is_absent("import _testcapi") => "ModuleNotFoundError";
    testinternalcapi_is_absent("import _testinternalcapi") => "ModuleNotFoundError";
    threads_are_refused("import threading\nthreading.Thread(target=print).start()") => "RuntimeError";
    low_threads_are_refused("import _thread\n_thread.start_new_thread(print, ())") => "RuntimeError";
    thread_pools_are_refused("import concurrent.futures\nconcurrent.futures.ThreadPoolExecutor().submit(print)") => "RuntimeError";
    processes_are_refused("import subprocess\nsubprocess.run(['ls'])") => "OSError";
    os_system_is_refused("import os\nos.system('ls')") => "OSError";
    os_popen_is_refused("import os\nos.popen('ls')") => "OSError";
    process_pools_are_refused("import multiprocessing\nmultiprocessing.Pool(2)") => "OSError";
    a_process_is_refused("import multiprocessing\nmultiprocessing.Process(target=print).start()") => "OSError";
    fork_is_absent("import os\nos.fork()") => "AttributeError";
    kill_is_absent("import os\nos.kill(1, 9)") => "AttributeError";
}
