import argparse, email.message, http.cookies, io, logging, plistlib, sys, tomllib, unittest, doctest
print(tomllib.loads('a = 1\n[b]\nc = [1.5, "x", 2024-01-01T00:00:00Z]\n'), plistlib.loads(plistlib.dumps({'a': [1, b'x', True]})))
m = email.message.EmailMessage()
m['Subject'], m['To'] = 'Grüße', 'a@b.c'
m.set_content('Hällo\n')
m.add_alternative('<p>x</p>', subtype='html')
m.set_boundary('XX')
print(m.as_string(), http.cookies.SimpleCookie('a=1; b="x y"'))
p = argparse.ArgumentParser('prog', description='d')
p.add_argument('n', type=int, nargs='+')
p.add_argument('--flag', '-f', action='store_true', help='a flag')
print(p.parse_args(['1', '2', '-f']), p.format_help())
log, handler = logging.getLogger('x'), logging.StreamHandler(sys.stdout)
handler.setFormatter(logging.Formatter('%(levelname)s:%(name)s:%(message)s'))
log.addHandler(handler)
log.setLevel('INFO')
log.info('hello %s', 5)
logging.getLogger().warning('on stderr')
# %%
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1, 1)
    def test_b(self): self.assertEqual([1, 2], [1, 3])
result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
def square(x):
    """
    >>> square(3)
    8
    """
    return x * x
doctest.run_docstring_examples(square, {'square': square})
result.testsRun, [f[1] for f in result.failures]
# %% exits 2
p.parse_args(['x'])
