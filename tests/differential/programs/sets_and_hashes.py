s = {'apple', 'banana', 'cherry', 'date', 'elderberry', 'fig', 'grape', 'a', 'b', 'c'}
print(s, frozenset('hello world'), {x for x in 'mississippi'}, set('abc') ^ set('bcd'), s > {'a'}, s.isdisjoint({'q'}))
print(hash('abc'), hash(b'abc'), hash(('a', 1)), hash(frozenset('ab')), hash(''), [hash(str(n)) % 1009 for n in range(20)])
numbers = set(range(0, 10_000, 7)) & set(range(0, 10_000, 11))
numbers.add(-1)
numbers, len(numbers), {1, True, 1.0}, {None}
# %% raises KeyError
set().remove('x')
