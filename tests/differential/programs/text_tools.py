import textwrap, string, difflib, shlex, fnmatch, reprlib, locale
text = 'Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.'
print(textwrap.fill(text, 40, initial_indent='* ', subsequent_indent='  '), textwrap.shorten(text, 30), textwrap.dedent('\n    a\n      b\n'))
print(string.Template('$who owes ${amount} $$').substitute(who='I', amount=5), string.capwords('hello big world'))
print('\n'.join(difflib.unified_diff('one two three'.split(), 'one 2 three four'.split(), 'a', 'b', lineterm='')), difflib.get_close_matches('appel', ['ape', 'apple', 'peach']))
print(shlex.split('a "b c" d\\ e \'f\''), shlex.join(['a b', "c'd"]), fnmatch.filter(['a.py', 'b.txt', '.c.py'], '*.py'), fnmatch.translate('a[!b]?*'))
reprlib.repr(list(range(100))), locale.getlocale(), locale.localeconv()['decimal_point'], locale.setlocale(locale.LC_ALL), f'{1234567:n}'
# %%
import pprint, configparser, io
pprint.pprint({'key%02d' % n: list(range(n)) for n in range(12)}, width=60, compact=True)
c, out = configparser.ConfigParser(), io.StringIO()
c.read_string('[a]\nx = 1\ny = %(x)s2\n[b]\nflag = yes\n')
c.write(out)
c['a'].getint('y'), c.getboolean('b', 'flag'), c.sections(), out.getvalue()
# %% raises configparser.NoOptionError
c.get('a', 'nope')
# %%
locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8'), f'{1234.5:n}'
