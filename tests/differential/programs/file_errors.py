import os, errno
os.mkdir('d')
open('d/f', 'w').close()
open('file', 'w').write('x')
fd, wfd = os.open('file', os.O_RDONLY), os.open('file', os.O_WRONLY)
def attempt(function, *arguments):
    shown = [a if len(str(a)) < 50 else f'{a[:10]}…' for a in arguments]
    if shown[0] in (fd, wfd):
        shown[0] = 'fd'
    try:
        result = function(*arguments)
        print(function.__name__, shown, '->', sorted(result) if isinstance(result, list) else result if isinstance(result, (str, bool)) else type(result).__name__)
    except Exception as error:
        name = errno.errorcode.get(getattr(error, 'errno', None))
        message = str(error) if len(str(error)) < 200 else '…'
        print(function.__name__, shown, type(error).__name__, name, message)
for arguments in [('missing',), ('missing/x', 'w'), ('file/x',), ('file/',), ('d', 'w'), ('d',), ('file', 'x'), ('',), ('nul\0',), ('x' * 300, 'w'), ('a/' * 3000 + 'x',), ('d/', 'w'), ('new/', 'w'), ('d/../file',), ('missing/../file',), ('d//f',), ('./d/./f',)]:
    attempt(open, *arguments)
for arguments in [('d', os.O_WRONLY), ('d', os.O_RDONLY), ('file', os.O_RDONLY | os.O_DIRECTORY), ('missing', os.O_RDWR), ('file', os.O_CREAT | os.O_EXCL | os.O_WRONLY), ('d', os.O_CREAT | os.O_RDONLY)]:
    attempt(os.open, *arguments)
# %%
for function, paths in [(os.mkdir, ['d', 'file', 'no/way', 'file/x', '', '.', '/', 'd/', 'nd/']), (os.rmdir, ['d', 'file', 'missing', '.', '', 'nd', '/']), (os.unlink, ['d', 'missing', 'file/x', 'file/', '']), (os.listdir, ['file', 'missing', '', 'd/']), (os.stat, ['missing', 'file/x', 'file/', '', 'd/f/../f']), (os.readlink, ['file', 'missing', 'd']), (os.chdir, ['file', 'missing', ''])]:
    for path in paths:
        attempt(function, path)
# %%
for arguments in [('missing', 'x'), ('file', 'd'), ('d', 'file'), ('d', 'd/inside'), ('file', 'no/where'), ('file', 'file'), ('d', 'd'), ('', 'x'), ('file', ''), ('d/f', 'd'), ('/', 'x'), ('.', 'x'), ('file', 'x/'), ('d', 'e/'), ('e', 'd')]:
    attempt(os.rename, *arguments)
sorted(os.listdir('.'))
# %%
for function, arguments in [(os.truncate, ('missing', 5)), (os.truncate, ('d', 5)), (os.truncate, ('file', -1)), (os.read, (999, 1)), (os.close, (999,)), (os.lseek, (999, 0, 0)), (os.lseek, (fd, -5, 0)), (os.lseek, (fd, 0, 9)), (os.ftruncate, (fd, 1)), (os.fstat, (999,)), (os.link, ('missing', 'l')), (os.link, ('file', 'd/f')), (os.symlink, ('x', 'file')), (os.utime, ('missing',)), (os.access, ('missing', os.R_OK)), (os.access, ('file', os.R_OK | os.W_OK)), (os.access, ('file', os.X_OK)), (os.scandir, ('missing',)), (os.lseek, (1, 0, 0)), (os.write, (0, b'x')), (os.read, (1, 1))]:
    attempt(function, *arguments)
# %% raises FileNotFoundError
open('missing.txt')
# %% raises IsADirectoryError
open('d', 'w')
# %% raises NotADirectoryError
open('file/below')
# %% raises io.UnsupportedOperation
open('file').write('x')
# %% raises ValueError
f = open('file')
f.close()
f.read()
