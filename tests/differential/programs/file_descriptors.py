import os
fd = os.open('raw', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
print(os.write(fd, b'0123456789'), os.lseek(fd, 2, os.SEEK_SET), os.read(fd, 3), os.lseek(fd, -1, os.SEEK_END), os.read(fd, 10), os.read(fd, 10))
print(os.fstat(fd).st_size, os.ftruncate(fd, 4), os.lseek(fd, 0, os.SEEK_CUR), os.isatty(fd), os.fsync(fd), os.close(fd))
fd = os.open('raw', os.O_WRONLY | os.O_APPEND)
print(os.lseek(fd, 0, 0), os.write(fd, b'+'), os.lseek(fd, 0, 1), os.close(fd))
open('raw', 'rb').read(), os.isatty(0), os.isatty(1)
# %%
for name, arguments in [('pread', (4, 1)), ('pwrite', (b'AB', 0)), ('readv', ([bytearray(2), bytearray(3)],)), ('writev', ([b'a', b'bc'],)), ('fdatasync', ()), ('posix_fallocate', (0, 20)), ('posix_fadvise', (0, 0, 0)), ('dup', ()), ('dup2', (77,)), ('fchmod', (0o600,)), ('get_blocking', ()), ('set_inheritable', (False,))]:
    fd = os.open('raw', os.O_RDWR)
    try:
        print(name, type(result := getattr(os, name)(fd, *arguments)).__name__, result if name not in ('dup', 'dup2') else '', os.fstat(fd).st_size)
    except Exception as error:
        print(name, type(error).__name__, error)
    os.close(fd)
open('raw', 'rb').read()
# %%
c, d = open('shared', 'w+b', buffering=0), open('shared', 'r+b', buffering=0)
c.write(b'first')
print(d.read(), d.write(b'SECOND'), c.seek(0), c.read(), c.tell(), d.tell(), d.truncate(2), c.seek(0), c.read())
e = open('shared', 'ab', buffering=0)
print(e.tell(), e.write(b'x'), e.tell(), c.seek(0), c.read())
# %%
a = open('f', 'w+')
a.write('kept open')
a.flush()
os.unlink('f')
a.seek(0)
print(a.read(), os.path.exists('f'), os.fstat(a.fileno()).st_size, os.fstat(a.fileno()).st_nlink)
b = open('g', 'w')
b.write('renamed')
os.rename('g', 'h')
b.close()
open('h').read()
# %%
a.seek(0, 2)
a.write(' over cells')
a.seek(0)
a.read()
# %%
handles = [open(f'many{n}', 'w') for n in range(200)]
for n, h in enumerate(handles):
    h.write(str(n))
    h.close()
sum(int(open(f'many{n}').read()) for n in range(200)), len(os.listdir('.'))
# %%
entries = os.scandir('.')
next(entries)
for n in range(0, 200, 2):
    os.unlink(f'many{n}')
len([n for n in os.listdir('.') if n.startswith('many')])
