import os, errno
def attempt(name, function):
    try:
        print(name, function())
    except Exception as error:
        print(name, type(error).__name__, errno.errorcode.get(getattr(error, 'errno', None)))
for name in ['ä漢🎉', 'e\u0301', ' ', 'a\nb', '-x', 'a' * 255, 'dot.', '...', 'semi;colon', '*', 'a\\b']:
    attempt('name', lambda: (open(name, 'w').write('x'), open(name).read(), os.stat(name).st_size))
print(sorted(os.listdir('.')), sorted(os.listdir(b'.'))[:4])
for name in ['a' * 256, 'x\udc80', '\ud800']:
    attempt('bad name', lambda: open(name, 'w').close())
for name in os.listdir('.'):
    os.unlink(name)
# %%
def opened(flags, action):
    fd = os.open('f', flags)
    try:
        return action(fd)
    finally:
        os.close(fd)
open('f', 'w').write('0123456789')
attempt('append and read', lambda: opened(os.O_RDWR | os.O_APPEND, lambda fd: (os.read(fd, 3), os.write(fd, b'A'), os.lseek(fd, 0, 1), os.read(fd, 3))))
attempt('create what exists', lambda: opened(os.O_RDWR | os.O_CREAT, lambda fd: os.read(fd, 20)))
attempt('truncate', lambda: opened(os.O_WRONLY | os.O_TRUNC, lambda fd: os.fstat(fd).st_size))
attempt('exclusive', lambda: opened(os.O_WRONLY | os.O_CREAT | os.O_EXCL, lambda fd: fd))
attempt('far away', lambda: opened(os.O_RDWR, lambda fd: (os.lseek(fd, 1 << 40, 0), os.read(fd, 5), os.lseek(fd, 0, 2), os.lseek(fd, 7, 1))))
attempt('sparse', lambda: opened(os.O_RDWR, lambda fd: (os.lseek(fd, 1 << 20, 0), os.write(fd, b'end'), os.fstat(fd).st_size, os.lseek(fd, 100, 0), os.read(fd, 4))))
attempt('no follow', lambda: (os.symlink('f', 's'), opened(os.O_RDONLY, lambda fd: 1), os.open('s', os.O_RDONLY | os.O_NOFOLLOW)))
attempt('empty', lambda: opened(os.O_RDWR, lambda fd: (os.read(fd, 0), os.write(fd, b''))))
attempt('negative read', lambda: opened(os.O_RDONLY, lambda fd: os.read(fd, -1)))
# %%
before = os.stat('f')
open('f', 'a').write('more')
after = os.stat('f')
os.rename('f', 'g')
renamed = os.stat('g')
open('f', 'w').close()
print(before.st_ino == after.st_ino == renamed.st_ino != os.stat('f').st_ino, before.st_dev == os.stat('.').st_dev, before.st_mtime_ns <= after.st_mtime_ns)
print(before.st_uid, before.st_gid, before.st_mode, os.stat('.').st_mode, os.stat('/').st_mode, os.stat('/python').st_mode, os.lstat('s').st_mode)
entry = next(e for e in os.scandir('.') if e.name == 'g')
print(entry.inode() == renamed.st_ino, entry.stat().st_size == renamed.st_size, entry.path, entry)
# %%
os.makedirs('full/inner')
os.makedirs('empty')
os.makedirs('other')
for source, target in [('full', 'empty'), ('other', 'empty'), ('empty/../other', 'x'), ('f', 'full/inner'), ('g', 'f'), ('empty/inner', 'inner'), ('s', 'f')]:
    attempt((source, target), lambda: os.rename(source, target))
sorted((d, sorted(s), sorted(f)) for d, s, f in os.walk('.'))
# %%
listing = os.scandir('.')
for n in range(20):
    open(f'new{n}', 'w').close()
listing.close()
directory = os.open('.', os.O_RDONLY)
for name, function in [('listdir', lambda: len(os.listdir(directory))), ('fchdir', lambda: os.fchdir(directory)), ('stat', lambda: os.stat('new1', dir_fd=directory).st_size), ('open', lambda: os.close(os.open('new2', os.O_RDONLY, dir_fd=directory))), ('mkdir', lambda: os.mkdir('made', dir_fd=directory)), ('read', lambda: os.read(directory, 5)), ('write', lambda: os.write(directory, b'x')), ('seek', lambda: os.lseek(directory, 0, 0)), ('sync', lambda: os.fsync(directory))]:
    attempt(name, function)
# %%
import select, sys
attempt('select', lambda: select.select([], [], [], 0.01))
attempt('select out', lambda: select.select([], [sys.stdout], [], 0)[1] == [sys.stdout])
attempt('select file', lambda: select.select([open('f')], [], [], 0)[0] != [])
attempt('poll', lambda: select.poll().poll(5))
attempt('stdin', lambda: (os.read(0, 5), sys.stdin.readline()))
# %% raises OSError
os.close(1)
print('into nothing')
# %% raises OSError
print('still nothing')
# %%
5
