//! Bounded random attempts, the same every time.

use std::time::Duration;

use belljar::{Clock, Entropy, Policy, Session, Status};
use belljar_tests::{Hostile, builder, within};

/// What mutants start from: functions that use most of the interpreter.
const PREPARE: &str = "
import random, types, marshal
keep = 41
def calls(a, b=2, *c, d=4, **e): return [a, b, c, d, e, len(c), max(a, b)]
def loops(n):
    total = 0
    for i in range(n):
        if i % 3: total += i
        else: continue
    while total > 100: total //= 2
    return total
def tries(x):
    try: return 1 / x
    except ZeroDivisionError as error: return str(error)
    finally: x = None
def closes(x):
    y = [x]
    def inner(): y.append(x); return y
    return inner()
def yields(n):
    for i in range(n): got = yield i * i
def matches(x):
    match x:
        case {'a': [1, *rest]}: return rest
        case (a, b) | [a, b, _]: return a + b
        case str() as s: return s
        case _: return None
def strings(x): return f'{x!r:>10} {x} {x:03}' + '%s' % x
def attributes(x): x = types.SimpleNamespace(a=1, b=2); x.a += 1; del x.b; return x.a
def comprehensions(n): return {k: [v for v in range(k)] for k in range(n)}, {i for i in range(n)}, sum(i for i in range(n))
def globals_(x):
    global made
    made = x
    import math
    return math.pi, made
class Made:
    x: int = 1
    def method(self): return super().__repr__()
FUNCTIONS = [(calls, (1, 2, 3)), (loops, (20,)), (tries, (0,)), (closes, (1,)), (yields, (5,)), (matches, ({'a': [1, 2]},)),
             (strings, (7,)), (attributes, (1,)), (comprehensions, (4,)), (globals_, (1,)), (Made.method, (Made(),))]
";

const MUTATE_CODE: &str = "
r = random.Random(SEED)
function, arguments = r.choice(FUNCTIONS)
code = function.__code__
body = bytearray(code.co_code)
for _ in range(r.randrange(1, 6)):
    at = r.randrange(0, len(body), 2)
    how = r.randrange(4)
    if how == 0: body[at] = r.randrange(256)
    elif how == 1: body[at + 1] = r.randrange(256)
    elif how == 2: body[at:at + 2] = b''
    else: body[at:at] = bytes([r.randrange(256), r.randrange(8)])
change = {'co_code': bytes(body)}
if r.random() < 0.2: change['co_stacksize'] = r.choice([0, 1, 1000])
if r.random() < 0.2: change['co_consts'] = code.co_consts[:r.randrange(len(code.co_consts) + 1)]
if r.random() < 0.2: change['co_exceptiontable'] = r.randbytes(r.randrange(12))
if r.random() < 0.2: change['co_flags'] = code.co_flags ^ (1 << r.randrange(12))
mutant = types.FunctionType(code.replace(**change), globals(), closure=function.__closure__)
mutant(*arguments)
";

const MUTATE_MARSHAL: &str = "
r = random.Random(SEED)
data = bytearray(marshal.dumps(r.choice(FUNCTIONS)[0].__code__))
for _ in range(r.randrange(1, 8)): data[r.randrange(len(data))] = r.randrange(256)
code = marshal.loads(bytes(data))
exec(code) if isinstance(code, types.CodeType) and not code.co_freevars else None
";

/// Runs the code with many seeds. Broken bytecode may ruin the interpreter without a trap: then the session is
/// replaced. The host and the neighbour must stay sound throughout.
fn fuzz(code: &str, seeds: std::ops::Range<u32>) {
    let code = code.to_owned();
    within(Duration::from_secs(170), move || {
        let policy = Policy {
            timeout: Some(Duration::from_millis(150)),
            memory: 128 << 20,
            clock: Clock::Fixed(1_700_000_000_000_000_000),
            entropy: Entropy::Seeded(1),
            ..Hostile::policy()
        };
        let sandbox = builder().policy(policy).build_blocking().unwrap();
        let start = || -> Session {
            let session = sandbox.session_blocking().unwrap();
            assert_eq!(session.run_blocking(PREPARE).unwrap().status, Status::Ok);
            session
        };
        let (neighbour, mut session) = (start(), start());
        let (mut counts, mut ruined) = (std::collections::BTreeMap::<String, u32>::new(), 0);
        for seed in seeds {
            let outcome = session.run_blocking(code.replace("SEED", &seed.to_string())).unwrap();
            *counts.entry(format!("{:?}", outcome.status)).or_default() += 1;
            let answer = session.run_blocking("keep").unwrap();
            if answer.value.is_none_or(|value| value.text != "41") {
                ruined += 1;
                session = start();
            }
        }
        assert_eq!(belljar_tests::text(&neighbour, "keep"), "41");
        #[expect(clippy::print_stderr, reason = "for those who look")]
        {
            eprintln!("{counts:?}, {ruined} sessions ruined");
        }
    });
}

#[test]
fn mutated_bytecode_1() {
    fuzz(MUTATE_CODE, 0..250);
}

#[test]
fn mutated_bytecode_2() {
    fuzz(MUTATE_CODE, 250..500);
}

#[test]
fn mutated_marshal() {
    fuzz(MUTATE_MARSHAL, 0..300);
}
