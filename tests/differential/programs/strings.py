text = 'The quick brown fox'
print(text.upper(), text.swapcase(), text.title(), text.center(30, '*'), text.zfill(25), text.partition(' '), text.rsplit(maxsplit=1))
print(text.find('q'), text.rfind('o'), text.count('o'), text.replace('o', '0', 1), text.translate(str.maketrans('aeiou', '12345', 'T')))
print('a,b,,c'.split(','), ' x  y '.split(), 'line\r\nnext\x0bthird\u2028fourth'.splitlines(True), '\t'.join('abc').expandtabs(4))
print('xxhixx'.strip('x'), 'prefix.txt'.removesuffix('.txt').removeprefix('pre'), 'abcdef'[::-2], 'a' * 3 in 'baaab', sorted('Straße'))
print('é'.isalpha(), '٣'.isdigit(), '½'.isnumeric(), 'ab1'.isalnum(), 'A B'.istitle(), 'id'.isidentifier(), 'a\n'.isprintable())
# %%
s = ''
for n in range(5000):
    s += chr(97 + n * n % 26)
len(s), s[:40], s.count('ab'), s.find('zz'), hash(s) == hash(''.join(s))
# %% raises ValueError
'abc'.index('z')
# %% raises TypeError
'a' + 1
