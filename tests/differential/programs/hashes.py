import hashlib, hmac, zlib, binascii, secrets
data = bytes(range(256)) * 500
for name in sorted(hashlib.algorithms_guaranteed):
    h = hashlib.new(name, usedforsecurity=False)
    h.update(data[:1000])
    h.update(data[1000:])
    print(name, h.hexdigest(16) if name.startswith('shake') else h.hexdigest(), h.digest_size, h.block_size)
print(sorted(hashlib.algorithms_available - hashlib.algorithms_guaranteed))
print(hashlib.blake2b(data, key=b'k', salt=b's', person=b'p', digest_size=20).hexdigest(), hmac.new(b'key', data, 'sha512').hexdigest())
zlib.crc32(data), zlib.adler32(data), binascii.crc_hqx(data, 0), hmac.compare_digest('a', 'b'), len(secrets.token_hex(8))
# %% raises ValueError
hashlib.new('nope')
