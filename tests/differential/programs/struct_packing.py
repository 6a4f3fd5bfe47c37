import struct
print([struct.calcsize(f) for f in ('<bBhHiIqQ', '=bBhHiIqQ', '@bBhHiIqQ', '@lLnNP')])
print(struct.pack('<bBhHiIqQ', -1, 255, -2, 65535, -3, 2 ** 32 - 1, -4, 2 ** 64 - 1), struct.pack('>fde', 1.1, -2.2e-300, 0.333))
print(struct.unpack('>f', struct.pack('>f', 16777217)), struct.pack('5s3p?x2i', b'ab', b'xyz', True, 1, 2), struct.pack('<dd', float('nan'), -0.0))
print(list(struct.iter_unpack('<H', bytes(range(8)))), struct.unpack_from('<I', bytes(range(10)), 3))
# %% raises struct.error
struct.pack('B', 256)
# %% raises struct.error
struct.unpack('<I', b'abc')
