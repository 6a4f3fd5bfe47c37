import os
def attempt(name, function):
    try:
        print(name, function())
    except OSError:
        print(name, 'is refused')  # wasmtime says EPERM, Belljar EROFS or EXDEV, as Linux does
attempt('write', lambda: open('/python/new', 'w'))
attempt('append', lambda: open('/python/json/__init__.py', 'a'))
attempt('r+', lambda: open('/usr/share/zoneinfo/UTC', 'r+b'))
attempt('mkdir', lambda: os.mkdir('/python/d'))
attempt('unlink', lambda: os.unlink('/python/os.py'))
attempt('rmdir', lambda: os.rmdir('/python/json'))
attempt('rename', lambda: os.rename('/python/os.py', '/python/so.py'))
attempt('rename out', lambda: os.rename('/python/os.py', '/workspace/os.py'))
attempt('rename in', lambda: (open('w', 'w').close(), os.rename('w', '/python/w')))
attempt('truncate', lambda: os.truncate('/python/os.py', 0))
attempt('utime', lambda: os.utime('/python/os.py'))
attempt('link', lambda: os.link('/python/os.py', '/workspace/l'))
attempt('symlink', lambda: os.symlink('x', '/python/s'))
open('/python/os.py').readline(), os.path.isdir('/python/json'), 'json' in os.listdir('/python'), open('/usr/share/zoneinfo/UTC', 'rb').read(4)
# %%
attempt('out', lambda: open('/python/../../etc/passwd'))
attempt('above', lambda: open('../../../etc/passwd').read())
attempt('device', lambda: open('/dev/null', 'w'))
