import functools, operator, random, bisect, heapq
random.seed(7)
rows = [(random.randrange(50), random.choice('abcde'), random.random()) for _ in range(300)]
print(sorted(rows)[:3], sorted(rows, key=operator.itemgetter(1, 0))[:3], sorted(rows, key=lambda r: (-r[0], r[1]), reverse=True)[:3])
print(sorted(['b', 'A', 'a', 'B', 'ä', '10', '9'], key=str.lower), sorted([3, 1.5, True, -0.0, 0]), min(rows), max(rows, key=lambda r: r[2]))
print(sorted('case Insensitive words'.split(), key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b))), sorted(range(40), key=lambda n: n % 3))
print(['FDCBA'[bisect.bisect([60, 70, 80, 90], g)] for g in [33, 99, 77, 70, 89, 90, 100]])
heap = [r[0] for r in rows]
heapq.heapify(heap)
print([heapq.heappop(heap) for _ in range(8)], heapq.heappushpop(heap, 3), heapq.nlargest(3, rows), list(heapq.merge([1, 4, 9], [2, 3, 10])))
# %%
import hashlib
big = sorted(random.random() for _ in range(200_000))
hashlib.sha256(repr(big).encode()).hexdigest(), sorted(str(x)[3:9] for x in big)[::40_000]
# %% raises TypeError
sorted([1, 'a'])
