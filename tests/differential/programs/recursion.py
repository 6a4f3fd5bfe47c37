import sys
def depth(n):
    try:
        return depth(n + 1)
    except RecursionError:
        return n
print(sys.getrecursionlimit(), depth(0))
sys.setrecursionlimit(3000)
depth(0)
# %%
def ackermann(m, n):
    return n + 1 if m == 0 else ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))
def hanoi(n, a, b, c):
    return 0 if n == 0 else hanoi(n - 1, a, c, b) + 1 + hanoi(n - 1, c, b, a)
ackermann(2, 9), hanoi(12, 'a', 'b', 'c')
# %%
import json, pickle, copy
nested = []
for _ in range(300):
    nested = [nested]
len(repr(nested)), json.loads(json.dumps(nested)) == nested, pickle.loads(pickle.dumps(nested)) == nested, copy.deepcopy(nested) == nested
# %% raises RecursionError
json.loads('[' * 100_000)
# %% raises RecursionError
for _ in range(100_000):
    nested = [nested]
repr(nested)
# %%
del nested
# %% raises MemoryError
compile('(' * 5000 + ')' * 5000, 'x', 'eval')
