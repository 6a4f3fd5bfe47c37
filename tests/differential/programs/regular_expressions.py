import re
text = 'John Smith <john@example.com>, Ann-Marie O\'Neil <ann.marie@mail.example.org>; tel: +49 (0)30 123-456'
print(re.findall(r'[\w.]+@[\w.]+', text), re.search(r'(?P<first>\w+)\s(?P<last>\w+)', text).groupdict(), [m.span() for m in re.finditer(r'\b[A-Z]', text)])
print(re.sub(r'(\w+)@(\w+)', r'\2 at \g<1>', text), re.subn(r'\d', lambda m: str(9 - int(m[0])), text), re.split(r'(\d)', 'a1b2'))
print(re.fullmatch(r'(\d{3})-?(\d{3})?', '123'), re.findall(r'(?<=\()\d(?=\))', text), re.findall(r'(?i)JOHN', text), re.sub(r'(?m)^', '> ', 'a\nb'))
print(re.compile(r'(?P<year>\d{4}) - (?P<month>\d\d)  # a date', re.VERBOSE | re.ASCII), re.findall(r'(?s)a.b', 'a\nb'), re.escape('a.b*c[d]'))
print(re.findall(r'\w+', 'naïve café 漢字'), re.findall(r'\w+', 'naïve', re.A), re.findall(r'(\w)\1', 'aabbcd'), re.findall(r'x++y|(?>z+)', 'xxyzzz'))
# %%
len(re.findall(r'(?:(?:a|b)*c)+', 'abababc' * 5000)), bool(re.match(r'(?:a?){18}a{18}', 'a' * 18))
# %% raises re.PatternError
re.compile('(unclosed')
# %% raises re.PatternError
re.compile(r'(?P<x>a)(?P<x>b)')
