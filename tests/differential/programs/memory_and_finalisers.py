import gc, weakref
class Loud:
    def __init__(self, name): self.name = name
    def __del__(self): print('deleted', self.name)
a = Loud('a')
b = a
del a
print('still there')
del b
x, y = Loud('x'), Loud('y')
x.other, y.other = y, x
del x, y
print('cycle', gc.collect() >= 2)
weakref.finalize(gone := Loud('finalised'), print, 'finaliser ran')
del gone
def scope():
    local = Loud('local')
    return 'returned'
scope()
# %%
keep = Loud('kept over cells')
# %%
keep = None
total = 0
for n in range(200):
    block = bytearray(1 << 20)
    block[n] = 1
    total += sum(block[:256])
total
# %%
data = [str(n) * 3 for n in range(300_000)]
len(''.join(data)), len(set(data))
# %% raises MemoryError
bytearray(1 << 30)
# %% raises MemoryError
[0] * (1 << 30)
# %% raises OverflowError
'a' * (1 << 40)
# %%
len(data)
