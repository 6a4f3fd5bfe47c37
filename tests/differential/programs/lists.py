a = list(range(10))
a[2:5] = ['x']
a[::4] = 'AB'
a.insert(-1, 'I')
a.extend(x for x in 'yz')
print(a, a[::-1], a.pop(3), a.index('x'), a.count('y'), a * 2 == a + a, [1, 2] < [1, 3], a[5:1:-2])
nested = [1, [2, [3]]]
nested.append(nested)
first, *middle, last = 'abcdef'
print(nested, first, middle, last, [*range(3), *'ab'], [y for x in [[1, 2], [3]] for y in x if y != 2])
matrix = [[i * j for j in range(4)] for i in range(3)]
print(list(zip(*matrix)), sum(map(sum, matrix)), list(enumerate('ab', 5)), list(map(max, *matrix)), [*reversed(range(0, 10, 3))])
# %%
big = [n * 7919 % 1000003 for n in range(300_000)]
ordered = sorted(big)
big[100:200_000] = []
len(big), sum(big), ordered[:5], ordered[150_000], big[::20_000], max(big)
# %%
zeros = [0] * 4_000_000
zeros[1_234_567] = 1
zeros.index(1), len(zeros), sum(zeros)
# %% raises IndexError
[][0]
# %% raises ValueError
[1, 2].remove(3)
# %% raises ValueError
a, b = [1, 2, 3]
