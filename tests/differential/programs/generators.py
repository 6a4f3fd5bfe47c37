def numbers():
    received = yield 1
    print('received', received)
    try:
        yield 2
    except ValueError as error:
        print('caught', error)
        yield 'recovered'
    finally:
        print('closing')
    return 'result'
g = numbers()
print(next(g), g.send('hi'), g.throw(ValueError('thrown')))
g.close()
def outer():
    result = yield from numbers()
    print('inner returned', result)
    yield from (n for n in 'xy')
print(list(outer()))
# %%
import itertools
def fibonacci(a=0, b=1):
    while True:
        yield a
        a, b = b, a + b
def tree(depth):
    if depth:
        yield from tree(depth - 1)
        yield depth
        yield from tree(depth - 1)
print(list(itertools.islice(fibonacci(), 100, 103)), sum(tree(12)), g.gi_frame, type(g).__name__)
print([x * y for x in range(4) for y in range(4) if (x + y) % 2], {x: {y for y in range(x)} for x in range(4)}, [y := 5, y ** 2])
# %% raises StopIteration
next(iter([]))
# %% raises RuntimeError
def bad():
    yield 1
    raise StopIteration
list(bad())
