import pickle, copy, hashlib
class Node:
    def __init__(self, v): self.v, self.next = v, None
class Slotted:
    __slots__ = ('a',)
    def __getstate__(self): return {'a': self.a * 2}
    def __setstate__(self, s): self.a = s['a'] + 1
a, b = Node(1), Node(2)
a.next, b.next = b, a
value = [1, 10 ** 40, 2.5, 'ü', b'\x00\xff', (1,), {'k': {1, 2}}, None, True, 3j, range(5), len, Node, bytearray(b'x'), frozenset([1]), ..., a]
for protocol in range(6):
    data = pickle.dumps(value, protocol)
    back = pickle.loads(data)
    print(protocol, len(data), hashlib.md5(data).hexdigest(), back[:-1] == value[:-1], back[-1].next.next is back[-1])
s = Slotted()
s.a = 5
shared = [1]
pair = copy.deepcopy([shared, shared])
pickle.loads(pickle.dumps(s)).a, copy.copy(s).a, copy.deepcopy([s])[0].a, pair[0] is pair[1], copy.copy({'a': shared})['a'] is shared
# %%
import io, pickletools
out = io.StringIO()
pickletools.dis(pickle.dumps([1, 'a'], 2), out)
print(out.getvalue())
# %% raises _pickle.PicklingError
pickle.dumps(lambda: 0)
# %% raises _pickle.UnpicklingError
pickle.loads(b'garbage')
