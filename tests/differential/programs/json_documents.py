import json
value = {'int': 10 ** 25, 'float': [0.1, 1e100, -0.0, 1e-7], 'text': 'quote " slash / \\ tab \t ü 漢 🎉 \u2028 \x00', 'nested': [[], {}, [None, True]]}
print(json.dumps(value), json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False), json.dumps(value, separators=(',', ':'))[:40])
print(json.loads(json.dumps(value)) == value, json.loads('[1.0, 1e5, -0, 1E-2, "\\ud83c\\udf89", NaN, -Infinity]'), json.dumps({1: 2, None: 3, 2.5: 4}))
class Encoder(json.JSONEncoder):
    def default(self, o): return sorted(o) if isinstance(o, set) else super().default(o)
print(json.dumps({'s': {3, 1, 2}}, cls=Encoder), json.loads('{"a": 1, "a": 2}', object_pairs_hook=list))
big = json.dumps([{'id': n, 'name': f'n{n}', 'ok': n % 3 == 0} for n in range(3000)])
len(big), sum(r['id'] for r in json.loads(big) if r['ok'])
# %% raises TypeError
json.dumps({1, 2})
# %% raises json.decoder.JSONDecodeError
json.loads('{"a": tru}')
# %% raises ValueError
circular = []
circular.append(circular)
json.dumps(circular)
