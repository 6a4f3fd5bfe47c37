data = bytes(range(256))
print(data[60:70], data[::-51], data.hex(' ', -4)[:50], bytes.fromhex('de ad BE ef'), b'%d-%s' % (5, b'x'), data.find(b'AB'), sum(data))
buffer = bytearray(b'hello')
buffer[0:1] = b'J'
buffer += b'!' * 3
buffer.insert(2, 45)
buffer.reverse()
view = memoryview(bytearray(range(24))).cast('B', (4, 6))
print(buffer, view.shape, view[2, 3], view.tolist()[1], memoryview(b'abcdefgh').cast('I').tolist(), memoryview(data)[10:20:3].tobytes())
# %%
import array
a = array.array('d', [1.5, 2.5])
a.extend([3.5] * 3)
a.byteswap()
b, c = array.array('q', range(-3, 3)), array.array('w', 'añ🎉')
a, b.tobytes(), c, a.itemsize, array.array('l').itemsize, array.array('i', [2 ** 31 - 1]).tolist()
# %% raises OverflowError
array.array('b', [200])
# %% raises BufferError
held = memoryview(buffer)
buffer.append(1)
# %% raises ValueError
bytes([256])
