import random
random.seed(12345)
print([random.random() for _ in range(5)], random.getrandbits(100), random.randbytes(10))
print(random.sample(range(1000), 8), random.choices('abcdef', weights=[1, 2, 3, 4, 5, 6], k=12), random.randint(-10 ** 30, 10 ** 30))
print(random.gauss(0, 1), random.normalvariate(0, 1), random.expovariate(2), random.betavariate(2, 3), random.gammavariate(2, 3))
print(random.triangular(0, 1, .3), random.vonmisesvariate(1, 2), random.weibullvariate(1, 2), random.binomialvariate(100, 0.3))
items = list(range(30))
random.shuffle(items)
items
# %%
own = random.Random('a text as a seed')
state = own.getstate()
first = [own.random() for _ in range(700)]
own.setstate(state)
first == [own.random() for _ in range(700)], first[699], hash(tuple(first[:50]))
