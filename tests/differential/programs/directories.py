import os, shutil, glob, pathlib, stat, filecmp
os.makedirs('a/b/c')
os.makedirs('a/b/c', exist_ok=True)
for name in ('a/1', 'a/b/2', 'a/b/c/3.txt', '.hidden'):
    open(name, 'w').write(name)
print(sorted((d, sorted(s), sorted(f)) for d, s, f in os.walk('.')), sorted(e.name + '/' * e.is_dir() for e in os.scandir('a')))
print(sorted(glob.glob('**/*', recursive=True)), sorted(glob.glob('a/?')))
os.rename('a/1', 'a/one')
os.replace('a/one', 'a/b/2')
os.rename('a/b', 'moved')
print(open('moved/2').read(), os.path.exists('a/b'), sorted(os.listdir('moved')))
os.chdir('moved/c')
print(os.getcwd(), os.listdir(), open('../2').read(), os.path.abspath('..'), os.path.realpath('../../a'))
os.chdir('/workspace')
shutil.copytree('moved', 'copy')
shutil.move('copy/2', 'a')
shutil.rmtree('moved')
print(sorted(str(p) for p in pathlib.Path('.').rglob('*')), filecmp.cmp('a/2', '.hidden'))
# %%
s = os.stat('a'), os.stat('a/2')
print([stat.S_IFMT(x.st_mode) for x in s], s[1].st_size, s[1].st_nlink, os.path.samefile('a', './copy/../a'), os.path.samefile('a', 'copy'))
print(sorted(set(os.listdir('/')) - {'app', 'session'}), os.path.ismount('/'), sorted(os.listdir('/tmp')), os.path.isdir('/python'), os.listdir('/usr'), os.path.exists('/etc/passwd'))
os.utime('a/2', (1_000_000_000, 1_100_000_000))
print(os.stat('a/2').st_mtime, os.stat('a/2').st_atime)
os.utime('a/2', ns=(5, 10 ** 18 + 7))
os.stat('a/2').st_mtime_ns, os.stat('a/2').st_atime_ns
# %%
p = pathlib.Path('/workspace/x/y.tar.gz')
print(p.parts, p.suffixes, p.with_suffix('.zip'), p.relative_to('/workspace'), p.match('*.gz'), pathlib.Path('~').expanduser(), pathlib.Path.cwd())
os.path.expanduser('~/z'), os.path.commonpath(['/a/b', '/a/c']), os.path.splitext('a.b.c'), os.path.normpath('a/../../b//c/.')
# %% raises FileExistsError
os.makedirs('a')
# %% raises OSError
os.rmdir('a')
