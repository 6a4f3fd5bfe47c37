d = {'one': 1, 2: 'two', (3, 3): [3], None: None, 1.5: 'f', True: 'the same key as 1'}
d[1] = 'yes'
d |= {'z': 26}
d.setdefault('new', []).append(5)
d.update(k=1, **{'l': 2})
print(d, d.pop('one'), d.popitem(), d.get('nope', 7), {**d, 2: 'too'}, list(reversed(d)), d.keys() & {2}, dict.fromkeys('abc', 0))
counts = {}
for word in 'the cat the dog a cat the end'.split():
    counts[word] = counts.get(word, 0) + 1
print(counts, sorted(counts.items(), key=lambda item: (-item[1], item[0])), {v: k for k, v in counts.items()})
# %%
many = {f'key{n}': n for n in range(50_000)}
for n in range(0, 50_000, 3):
    del many[f'key{n}']
many.update({n: -n for n in range(1000)})
len(many), sum(many.values()), list(many)[:3], list(many)[-3:]
# %% raises KeyError
{}['missing key']
# %% raises TypeError
{[]: 1}
# %% raises RuntimeError
for key in counts:
    counts[key + '!'] = 1
