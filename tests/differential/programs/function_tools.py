import functools
@functools.lru_cache(maxsize=100)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(90), fib.cache_info(), functools.reduce(lambda a, b: a * 10 + b, [1, 2, 3]), functools.partial(int, base=2)('1011'))
@functools.singledispatch
def show(x): return f'object {x}'
@show.register
def _(x: int | float): return f'number {x}'
@show.register(list)
def _(x): return [show(y) for y in x]
@functools.total_ordering
class Version:
    def __init__(self, text): self.parts = tuple(map(int, text.split('.')))
    def __eq__(self, other): return self.parts == other.parts
    def __lt__(self, other): return self.parts < other.parts
class Cached:
    @functools.cached_property
    def value(self): print('computing'); return 42
def decorate(f):
    @functools.wraps(f)
    def inner(*a, **k): return f'<{f(*a, **k)}>'
    return inner
@decorate
@decorate
def named():
    'Doc.'
    return 'x'
x = Cached()
show([1, 'a', 2.5]), Version('1.10') >= Version('1.9'), x.value, x.value, named(), named.__name__, named.__doc__
