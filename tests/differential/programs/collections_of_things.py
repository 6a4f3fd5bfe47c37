from collections import *
c = Counter('abracadabra')
c.subtract('b' * 5)
print(c, c.most_common(2), +c, c | Counter('zz'), c.total())
d = deque(range(5), maxlen=6)
d.extend([5, 6])
d.appendleft(-1)
d.rotate(2)
dd = defaultdict(list)
dd['x'].append(1)
o = OrderedDict(a=1, b=2, c=3)
o.move_to_end('a')
m = ChainMap({'a': 1}, {'a': 2, 'b': 3})
print(d, d[2], d.popleft(), d.maxlen, dd, o, o.popitem(last=False), m, m['b'], sorted(m), m.parents, UserList([1]) + [2], UserString('x') * 3)
# %%
import queue, weakref, types, graphlib
q = queue.PriorityQueue()
for x in (3, 1, 2):
    q.put(x)
class W: pass
w = W()
r, k = weakref.ref(w), weakref.WeakKeyDictionary({w: 1})
print(r() is w, len(k))
del w
print(r(), len(k), [q.get() for _ in range(3)], list(graphlib.TopologicalSorter({'d': 'bc', 'b': 'a', 'c': 'a'}).static_order()))
types.SimpleNamespace(a=1, b=[2]), types.MappingProxyType({'a': 1})
# %% raises IndexError
deque().pop()
