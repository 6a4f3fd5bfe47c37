def attempt(n):
    try:
        if n == 0: return 'try'
        if n == 1: raise ValueError('one')
        if n == 2: raise KeyError('two')
        if n == 3: [][5]
    except ValueError as error:
        return repr(error)
    except (KeyError, IndexError) as error:
        return f'{type(error).__name__}: {error}'
    else:
        return 'else'
    finally:
        print('finally', n)
[attempt(n) for n in range(5)]
# %%
class Custom(Exception):
    def __init__(self, code, **details):
        super().__init__(code)
        self.details = details
    def __str__(self): return f'code {self.args[0]} {self.details}'
try:
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise Custom(7, why='x') from error
except Custom as error:
    print(error, error.args, repr(error.__cause__), error.__suppress_context__)
try:
    raise ExceptionGroup('several', [ValueError(1), TypeError(2), ExceptionGroup('inner', [ValueError(3)])])
except* ValueError as group:
    print('values', group.exceptions)
except* TypeError as group:
    print('types', group.exceptions)
# %%
import contextlib, warnings, sys
@contextlib.contextmanager
def manager(name):
    print('enter', name)
    try:
        yield name.upper()
    except LookupError as error:
        print('swallowed', error)
    finally:
        print('exit', name)
with manager('a') as a, manager('b') as b:
    print(a, b)
    {}['gone']
with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
    stack.callback(print, 'callback')
    open('/nonexistent')
warnings.warn('shown on stderr')
print('to stderr', file=sys.stderr)
# %% raises AssertionError
assert 1 == 2, 'they differ'
# %% raises Custom
raise Custom(42, a=1)
# %% raises ExceptionGroup
raise ExceptionGroup('group', [ValueError('a'), ExceptionGroup('sub', [KeyError('b'), OSError(2, 'c', 'file')])])
# %% raises ValueError
error = ValueError('noted')
error.add_note('a note')
raise error
