import tempfile, os
print(tempfile.gettempdir(), tempfile.gettempprefix())
with tempfile.NamedTemporaryFile('w+', suffix='.txt') as f:
    f.write('x')
    f.seek(0)
    print(f.read(), f.name.startswith('/tmp/'), f.name.endswith('.txt'), os.path.exists(f.name))
with tempfile.TemporaryDirectory(prefix='p-') as d:
    open(os.path.join(d, 'y'), 'w').write('y')
    print(os.path.basename(d)[:2], os.listdir(d))
print(os.path.exists(f.name), os.path.exists(d), os.listdir('/tmp'))
with tempfile.TemporaryFile() as f:
    f.write(b'abc')
    f.seek(1)
    print(f.read())
with tempfile.SpooledTemporaryFile(max_size=5) as f:
    f.write(b'123')
    print(f._rolled, f.write(b'4567'), f._rolled, f.seek(0), f.read())
fd, path = tempfile.mkstemp(dir='.')
os.write(fd, b'z')
os.close(fd)
open(path).read(), os.path.dirname(path), os.path.basename(tempfile.mkdtemp(suffix='end'))[-3:]
