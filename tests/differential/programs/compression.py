import zlib, gzip, io, zipfile, tarfile, hashlib
data = b'the quick brown fox ' * 2000 + bytes(range(256)) * 20
for level in range(-1, 10):
    packed = zlib.compress(data, level)
    print(level, len(packed), hashlib.md5(packed).hexdigest(), zlib.decompress(packed) == data)
c = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_FILTERED)
raw = c.compress(data[:5000]) + c.flush(zlib.Z_SYNC_FLUSH) + c.compress(data[5000:]) + c.flush()
d = zlib.decompressobj(-15)
print(len(raw), d.decompress(raw, 100)[:20], len(d.unconsumed_tail), d.eof, hashlib.md5(gzip.compress(data, mtime=0)).hexdigest())
buffer = io.BytesIO()
with zipfile.ZipFile(buffer, 'w', zipfile.ZIP_DEFLATED) as z:
    for n in range(3):
        z.writestr(zipfile.ZipInfo(f'dir/{n}.txt', (2020, 1, 2, 3, 4, 6)), data[:n * 1000])
hashlib.md5(buffer.getvalue()).hexdigest(), [(i.filename, i.file_size, i.CRC) for i in zipfile.ZipFile(buffer).infolist()], zipfile.ZipFile(buffer).testzip()
# %%
with tarfile.open('t.tar.gz', 'w:gz') as t:
    info = tarfile.TarInfo('a/b')
    info.size = 5
    t.addfile(info, io.BytesIO(b'hello'))
with tarfile.open('t.tar.gz') as t:
    print(t.getnames(), t.extractfile('a/b').read())
    t.extractall('out', filter='data')
open('out/a/b').read()
# %% raises zlib.error
zlib.decompress(b'not zlib')
# %% raises gzip.BadGzipFile
gzip.decompress(b'not gzip')
# %% raises zipfile.BadZipFile
zipfile.ZipFile(io.BytesIO(b'x'))
