//! Tearing at what the guest kernel stands on: builtins, modules, hooks, and the kernel itself.

use belljar::Status;
use belljar_tests::Hostile;

use crate::cells::{hostile, ruinous};

// After these the kernel itself is whole, so the session must be.
hostile! {
    names_overwritten("print = len = repr = compile = exec = eval = str = type = isinstance = None\nValueError = KeyboardInterrupt = BaseException = int") => [Ok];
    builtins_overwritten("import builtins\nbuiltins.len = builtins.isinstance = builtins.str = builtins.compile = builtins.eval = builtins.type = None") => [Ok];
    builtins_emptied("import builtins\nbuiltins.__dict__.clear()") => [Ok, Error];
    builtins_deleted("del __builtins__") => [Ok];
    builtins_replaced("__builtins__ = {}") => [Ok];
    exceptions_replaced("import builtins\nfor n in list(vars(builtins)):\n    if n.endswith(('Error', 'Exception', 'Exit', 'Interrupt')): setattr(builtins, n, int)") => [Ok];
    modules_emptied("import sys\nsys.modules.clear()") => [Ok, Error];
    modules_replaced("import sys\nsys.modules = None") => [Ok, Error];
    main_deleted("import sys\ndel sys.modules['__main__']") => [Ok];
    sys_emptied("import sys\nfor n in list(vars(sys)):\n    if n not in ('modules', 'path'): \n        try: delattr(sys, n)\n        except Exception: pass") => [Ok, Error];
    hooks_removed("import sys\nsys.displayhook = sys.excepthook = sys.unraisablehook = sys.breakpointhook = None\n1/0") => [Error];
    streams_removed("import sys\ndel sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__\nprint('x')") => [Ok, Error];
    imports_broken("import builtins, sys\nbuiltins.__import__ = None\nsys.meta_path.clear(); sys.path.clear(); sys.path_hooks.clear(); sys.path_importer_cache.clear()") => [Ok];
    json_broken("import json, json.encoder, json.decoder, json.scanner\nfor m in json, json.encoder, json.decoder, json.scanner:\n    for n in list(vars(m)):\n        if not n.startswith('__'): setattr(m, n, None)") => [Ok];
    traceback_broken("import traceback, linecache, tokenize\nfor m in traceback, linecache, tokenize:\n    for n in list(vars(m)):\n        if not n.startswith('__'): setattr(m, n, None)\n1/0") => [Error];
    asyncio_broken("import asyncio, asyncio.events, asyncio.base_events\nfor m in asyncio, asyncio.events, asyncio.base_events:\n    for n in list(vars(m)):\n        if not n.startswith('__'): setattr(m, n, None)") => [Ok, Error];
    codecs_broken("import codecs\nfor n in 'strict', 'replace', 'backslashreplace', 'belljar_escape', 'surrogateescape':\n    codecs.register_error(n, lambda e: 1/0)\nprint('\\udc80')") => [Ok, Error];
    gc_broken("import gc\ngc.disable(); gc.freeze(); gc.set_threshold(1); gc.set_debug(gc.DEBUG_SAVEALL)\ngc.callbacks.append(lambda *a: 1/0)") => [Ok];
    signals_taken("import signal, _signal\nsignal.signal(2, lambda *a: None)\n_signal.signal = _signal.getsignal = None") => [Ok];
    recursion_limit("import sys\nsys.setrecursionlimit(50)\ndef f(): f()\nf()") => [Error];
    smallest_recursion_limit("import sys\nfor n in range(1, 200):\n    try: sys.setrecursionlimit(n); break\n    except RecursionError: pass") => [Ok, Error];
    tracing("import sys\ndef t(*a): raise ValueError('traced')\nsys.settrace(t)") => [Ok, Error];
    tracing_all_frames("import sys\ndef t(*a): raise SystemExit\nf = sys._getframe()\nwhile f:\n    f.f_trace = t; f = f.f_back\nsys.settrace(t)") => [Ok, Error, Exited];
    profiling("import sys\ndef t(*a): raise ValueError('profiled')\nsys.setprofile(t)") => [Ok, Error];
    monitoring("import sys\nm = sys.monitoring\nfor tool in range(6):\n    try: m.use_tool_id(tool, 'x')\n    except ValueError: continue\n    def c(*a): raise ValueError\n    for e in (m.events.PY_START, m.events.PY_RETURN, m.events.LINE, m.events.CALL, m.events.RAISE): m.register_callback(tool, e, c)\n    m.set_events(tool, m.events.PY_START | m.events.PY_RETURN | m.events.LINE | m.events.CALL | m.events.RAISE)") => [Ok, Error, Killed];
    monitoring_without_end("import sys\nm = sys.monitoring\nm.use_tool_id(3, 'x')\ndef c(*a):\n    while True: pass\nm.register_callback(3, m.events.PY_START, c)\nm.set_events(3, m.events.PY_START)\n(lambda: 0)()") => [Timeout, Error];
    warnings_as_errors("import warnings\nwarnings.simplefilter('error')\nwarnings.warn = warnings.showwarning = None\neval('1 is 1')") => [Ok, Error];
    frames_reached("import sys\nf = sys._getframe().f_back\nwhile f:\n    for k in list(f.f_locals):\n        try: f.f_locals[k] = None\n        except Exception: pass\n    f = f.f_back") => [Ok, Error, Killed];
    frames_cleared("import sys\nf = sys._getframe().f_back\nwhile f:\n    try: f.clear()\n    except RuntimeError: pass\n    f = f.f_back") => [Ok];
    display_and_tools_removed("import builtins\ndel builtins.display, builtins.tools\ndisplay = tools = None") => [Ok];
    random_broken("import random\nrandom.seed = random.random = None\nrandom._inst = None") => [Ok];
    os_broken("import os\nos.chdir('/')\nos.environ.clear()\nfor n in list(vars(os)):\n    if not n.startswith('__'): setattr(os, n, None)") => [Ok];
    a_lying_namespace("class D(dict):\n    def __getitem__(self, k): raise SystemExit\n__annotations__ = D()\n__dict__ = D()") => [Ok];
    a_lying_exception("class E(Exception):\n    __class__ = property(lambda s: 1/0)\n    def __getattribute__(self, n): raise KeyboardInterrupt\nraise E") => [Error, Interrupted];
    a_lying_metaclass("class M(type):\n    def __getattribute__(c, n): raise SystemExit(9)\n    def __instancecheck__(c, i): raise SystemExit(8)\n    def __subclasscheck__(c, i): raise SystemExit(8)\nclass E(Exception, metaclass=M): pass\nraise E") => [Error, Exited];
    a_lying_value("class V:\n    def __getattribute__(self, n): raise KeyboardInterrupt\nV()") => [Ok, Error, Interrupted];
    a_lying_string("class S(str):\n    def __getattribute__(self, n): raise KeyboardInterrupt\n    def __len__(self): return -1\n    def __iter__(self): raise SystemExit\nraise ValueError(S('x'))") => [Error, Interrupted];
    a_traceback_in_a_ring("try: 1/0\nexcept Exception as e:\n    t = e.__traceback__\n    try: t.tb_next = t\n    except ValueError: pass\n    e.__cause__ = e; e.__context__ = e\n    raise e") => [Error];
    a_ring_of_causes("a, b = ValueError(), KeyError()\na.__cause__ = b; b.__cause__ = a; a.__context__ = b; b.__context__ = a\nraise a") => [Error];
    frames_that_lie("code = (lambda: 1/0).__code__.replace(co_filename='/etc/passwd', co_name='x' * 100_000, co_firstlineno=2**31 - 1)\nexec(code)") => [Error];
    linecache_poisoned("import linecache\nlinecache.cache['<cell 4>'] = 5\nlinecache.cache = 7\n1/0") => [Error];
    finalisers_at_the_end("class A:\n    def __del__(self):\n        while True:\n            try:\n                while True: pass\n            except BaseException: pass\nx = A()\nraise ValueError(x)") => [Error, Timeout];
    weak_references_that_call_back("import weakref, sys\nclass A: pass\na = A()\nr = weakref.ref(a, lambda _: sys.exit(3))\ndel a") => [Ok];
    a_value_whose_finaliser_never_ends("class A:\n    def __del__(self):\n        while True:\n            try:\n                while True: pass\n            except BaseException: pass\nA()") => [Ok, Timeout];
    a_value_too_deep_to_free("def deep():\n    x = ()\n    for _ in range(1_000_000): x = (x,)\n    return x\ndeep()") => [Ok, Error, Killed];
    object_id_guessing("import gc\nfor o in gc.get_objects():\n    if isinstance(o, dict):\n        o.get('keep')") => [Ok];
}

// These reach into the kernel's own objects.
ruinous! {
    the_kernel_emptied("import belljar_guest.kernel as k\nfor n in list(vars(k)):\n    if not n.startswith('__'): setattr(k, n, None)");
    every_kernel_module_emptied("import sys\nfor name, m in list(sys.modules.items()):\n    if name.startswith(('belljar', 'wit_world', 'componentize')):\n        for n in list(vars(m)):\n            if not n.startswith('__'): setattr(m, n, None)");
    the_kernels_methods("import belljar_guest.kernel as k\nfor n in list(vars(k.Kernel)):\n    try: setattr(k.Kernel, n, None)\n    except Exception: pass");
    the_kernels_code("import belljar_guest.kernel as k, types\nfor f in vars(k.Kernel).values():\n    if isinstance(f, types.FunctionType): f.__code__ = (lambda *a, **k: 1).__code__");
    the_kernels_builtins("import belljar_guest.private as p\np.OWN.clear()");
    the_kernels_own_builtins_replaced("import belljar_guest.private as p\nfor n in list(p.OWN): p.OWN[n] = None");
    handle_replaced_by_none("import belljar_guest_wasm as w\nw.WitWorld.handle = None");
    handle_that_raises("import belljar_guest_wasm as w\ndef h(self, frame): raise SystemExit\nw.WitWorld.handle = h");
    handle_that_never_returns("import belljar_guest_wasm as w\ndef h(self, frame):\n    while True: pass\nw.WitWorld.handle = h");
    handle_that_returns_nothing("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b''");
    handle_that_returns_a_number("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: 5");
    handle_that_returns_noise("import belljar_guest_wasm as w, os\nw.WitWorld.handle = lambda self, frame: os.urandom(1000)");
    handle_that_is_always_ready("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b'\\x10'");
    handle_that_always_waits("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b'\\x12{\"timeout\":0}'");
    handle_that_waits_for_ever("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b'\\x12{\"timeout\":null}'");
    handle_that_waits_beyond_all("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b'\\x12{\"timeout\":1e308}'");
    handle_with_broken_json("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b'\\x11{\"status\":'");
    handle_with_deep_json("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b'\\x11' + b'[' * 10_000_000");
    handle_with_a_huge_reply("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b'\\x11' + b' ' * 100_000_000");
    handle_with_huge_frames("import belljar_guest_wasm as w, json\nr = b'\\x11' + json.dumps({'status': 'error', 'exception': {'type': 'x' * 10**6, 'message': 'y' * 10**6, 'traceback': 'z' * 10**6, 'frames': [{'file': 'f', 'line': 2**32 - 1, 'function': '', 'source': ''}] * 50_000}}).encode()\nw.WitWorld.handle = lambda self, frame: r");
    handle_with_a_strange_code("import belljar_guest_wasm as w\nw.WitWorld.handle = lambda self, frame: b'\\x11{\"status\":\"exited\",\"exit_code\":-2147483648}'");
    the_world_removed("import sys\nfor n in list(sys.modules):\n    if 'wit_world' in n or 'belljar' in n: del sys.modules[n]\nimport gc\ngc.collect()");
    everything_in_the_heap("import gc\nfor o in gc.get_objects():\n    try:\n        if isinstance(o, list): o.clear()\n    except BaseException: pass");
    every_dict_in_the_heap("import gc\nfor o in gc.get_objects():\n    try:\n        if isinstance(o, dict) and o is not globals(): o.clear()\n    except BaseException: pass");
    every_class_in_the_heap("import gc\nfor o in gc.get_objects():\n    if isinstance(o, type):\n        for n in list(vars(o)):\n            try: setattr(o, n, None)\n            except BaseException: pass");
    every_function_in_the_heap("import gc, types\nbad = (lambda *a, **k: 1/0).__code__\nfor o in gc.get_objects():\n    if isinstance(o, types.FunctionType) and not o.__closure__:\n        try: o.__code__ = bad\n        except BaseException: pass");
    every_object_shuffled("import gc, random\nobjects = [o for o in gc.get_objects() if isinstance(o, (dict, list))]\nfor o in objects:\n    try:\n        if isinstance(o, list): random.shuffle(o)\n        else:\n            values = list(o.values()); random.shuffle(values)\n            for k, v in zip(list(o), values): o[k] = v\n    except BaseException: pass");
    namespace_emptied("globals().clear()");
    an_audit_hook_that_stays("import sys\ndef h(*a): raise RuntimeError('audited')\nsys.addaudithook(h)");
    the_namespace_taken_away("import belljar_guest_wasm as w\nw.kernel.namespace = None\nw.kernel.program.namespace = 5");
    the_reserve_taken("import belljar_guest_wasm as w\nw.kernel._reserve = None\nw.kernel._values = None");
    the_interrupt_handler_replaced("import belljar_guest.interrupt as i\ni.arm = i.guarded = i.drive = i.check = None\ni._handler.__code__ = (lambda *a: None).__code__\nwhile True: pass");
}

/// Frames by hand: `exchange` is reachable, so anything can be sent through it.
macro_rules! frames {
    ($($name:ident($frames:expr) => [$($status:ident),+];)*) => {
        $(#[test]
        fn $name() {
            let code = format!("import wit_world\nfor frame in {}:\n    wit_world.exchange(frame)\n", $frames);
            let allowed = [$(Status::$status),+];
            let hostile = if allowed.contains(&Status::Timeout) { Hostile::default() } else { Hostile::patient() };
            hostile.run(code).ended(&allowed);
        })*
    };
}

frames! {
    an_empty_frame("[b'']") => [Killed];
    a_frame_of_no_kind("[bytes([255])]") => [Killed];
    a_frame_for_the_guest("[b'\\x02abc']") => [Killed];
    a_reply_as_a_message("[b'\\x11{}']") => [Killed];
    a_display_of_nothing("[b'\\x20']") => [Killed];
    a_display_of_a_list("[b'\\x20[1]']") => [Killed];
    a_display_without_data("[b'\\x20{}']") => [Killed];
    a_display_with_strange_data("[b'\\x20{\"data\":{\"\":null,\"a\":[[[1e400]]]}}']") => [Killed, Ok];
    a_display_of_deep_data("[b'\\x20{\"data\":{\"a\":' + b'[' * 1_000_000]") => [Killed];
    a_display_that_is_not_utf8("[b'\\x20{\"data\":{\"a\":\"\\xff\"}}']") => [Killed];
    a_display_with_a_lone_surrogate("[b'\\x20{\"data\":{\"a\":\"\\\\ud800\"}}']") => [Killed];
    a_call_without_a_name("[b'\\x21{}']") => [Killed];
    a_call_of_nothing("[b'\\x21{\"name\":\"nowhere\",\"arguments\":{\"args\":[],\"kwargs\":{}}}']") => [Ok];
    a_call_with_a_strange_name("[b'\\x21{\"name\":\"../../etc\\\\u0000\",\"arguments\":{\"args\":[],\"kwargs\":{}}}']") => [Ok];
    a_call_with_strange_arguments("[b'\\x21{\"name\":\"x\",\"arguments\":7}']") => [Killed];
    a_start_without_an_id("[b'\\x22{\"name\":\"x\",\"arguments\":{\"args\":[],\"kwargs\":{}}}']") => [Killed];
    a_start_with_the_largest_id("[b'\\x22{\"id\":18446744073709551615,\"name\":\"x\",\"arguments\":{\"args\":[],\"kwargs\":{}}}', b'\\x23{\"timeout\":1}']") => [Ok];
    a_start_with_a_negative_id("[b'\\x22{\"id\":-1,\"name\":\"x\",\"arguments\":{\"args\":[],\"kwargs\":{}}}']") => [Killed];
    two_starts_of_one_number("[b'\\x22{\"id\":1,\"name\":\"x\",\"arguments\":{\"args\":[],\"kwargs\":{}}}'] * 2") => [Killed, Ok];
    starts_that_nobody_awaits("(b'\\x22{\"id\":%d,\"name\":\"x\",\"arguments\":{\"args\":[],\"kwargs\":{}}}' % n for n in range(10**7))") => [Killed, Timeout];
    a_wait_for_nothing("[b'\\x23{\"timeout\":null}']") => [Timeout];
    a_wait_beyond_all("[b'\\x23{\"timeout\":1e308}']") => [Timeout];
    a_wait_of_negative_time("[b'\\x23{\"timeout\":-1e308}', b'\\x23{\"timeout\":-0.0}']") => [Ok];
    a_wait_for_a_word("[b'\\x23{\"timeout\":\"x\"}']") => [Killed];
    a_stream_of_no_number("[b'\\x24']") => [Killed];
    a_stream_of_another_number("[b'\\x24\\x03abc']") => [Killed];
    a_stream_by_hand("[b'\\x24\\x01abc\\xff', b'\\x24\\x02def']") => [Ok];
    a_frame_that_is_too_large("[b'\\x20' + bytes(100_000_000)]") => [Killed];
    a_flood_of_frames("(b'\\x24\\x01x' for _ in iter(int, 1))") => [Timeout];
}

#[test]
fn random_frames_are_contained() {
    let sandbox = belljar_tests::builder().policy(Hostile::policy()).build_blocking().unwrap();
    let session = sandbox.session_blocking().unwrap();
    session.run_blocking("keep = 41\nimport random, wit_world").unwrap();
    for seed in 0..200 {
        let code = format!(
            "r = random.Random({seed})\n\
             kind = r.choice([0x20, 0x21, 0x22, 0x23, 0x24, r.randrange(256)])\n\
             body = bytearray(r.choice([b'{{\"data\":{{\"text/plain\":\"x\"}},\"metadata\":{{}}}}', b'{{\"id\":1,\"name\":\"x\",\"arguments\":{{\"args\":[],\"kwargs\":{{}}}}}}', b'{{\"timeout\":0}}', r.randbytes(20)]))\n\
             for _ in range(r.randrange(4)): body[r.randrange(len(body))] = r.randrange(256)\n\
             wit_world.exchange(bytes([kind]) + body)\n"
        );
        let outcome = session.run_blocking(code).unwrap();
        assert!(
            [Status::Ok, Status::Killed, Status::Timeout].contains(&outcome.status),
            "{seed}: {outcome:#?}"
        );
        assert_eq!(belljar_tests::text(&session, "keep"), "41", "{seed}");
    }
}
