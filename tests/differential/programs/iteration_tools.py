from itertools import *
import operator
print(list(permutations('abc', 2)), list(combinations(range(4), 3)), list(product([0, 1], repeat=2)), list(accumulate([1, 2, 3, 4], operator.mul, initial=10)))
print([(k, list(g)) for k, g in groupby('aaabbca')], list(chain.from_iterable(['ab', 'c'])), list(compress('abcd', [1, 0, 1])), list(islice(cycle('ab'), 5)))
print(list(dropwhile(lambda x: x < 3, range(6))), list(takewhile(lambda x: x < 3, range(6))), list(filterfalse(None, [0, 1, ''])), list(islice(count(10, 2.5), 3)))
print(list(starmap(pow, [(2, 3), (3, 2)])), list(zip_longest('ab', 'c', fillvalue='-')), list(pairwise('abcd')), list(batched('abcdefg', 3)), [list(x) for x in tee([1, 2])])
sum(1 for _ in permutations(range(8))), operator.attrgetter('real')(5), operator.methodcaller('upper')('x')
# %% raises ValueError
list(zip('ab', 'c', strict=True))
