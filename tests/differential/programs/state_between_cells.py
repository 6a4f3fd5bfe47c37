x, items = 1, []
def bump():
    global x
    x += 1
    return x
# %%
bump()
items.append(bump())
x
# %% raises ZeroDivisionError
items.append('before the error')
1 / 0
# %%
items, x, bump()
# %%
del x
# %% raises NameError
x
# %%
import builtins
builtins.custom = 5
len_ = len
len = lambda v: 'shadowed'
len([1])
# %%
custom, len([]), len_([1])
# %%
del len
len([1, 2])
# %%
g = (n * n for n in range(5))
next(g), next(g)
# %%
next(g), list(g)
# %%
import sys
sys.setrecursionlimit(500)
# %%
sys.getrecursionlimit()
