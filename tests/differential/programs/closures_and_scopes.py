def counter(start=0):
    count = start
    def increment(by=1):
        nonlocal count
        count += by
        return count
    return increment
c = counter(5)
print(c(), c(10), c.__closure__[0].cell_contents, c.__code__.co_freevars)
def f(a, /, b, *args, c=3, d, **kw):
    return a, b, args, c, d, kw
print(f(1, 2, 3, d=4, e=5), f(1, b=2, d=0), f.__kwdefaults__, f.__code__.co_varnames)
def default(items=[]):
    items.append(len(items))
    return items
print(default(), default(), [fn(10) for fn in [lambda x, n=n: x + n for n in range(3)]], [fn() for fn in [lambda: n for n in range(3)]])
x = 'global'
def scopes():
    x = 'local'
    class Inner:
        y = x
        z = [x for _ in range(2)]
    def change():
        global x
        x = 'changed'
    change()
    return Inner.y, Inner.z, x, sorted(locals())
scopes(), x
# %% raises UnboundLocalError
def unbound():
    print(x)
    x = 1
unbound()
# %% raises TypeError
f(1)
# %% raises NameError
conuter()
