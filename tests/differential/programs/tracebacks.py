def first(n):
    return second(n - 1)

def second(n):
    if n > 3:
        return first(n)
    values = {'a': [1, 2, {'b': None}]}
    return (values['a'][2]['b'].attribute
            + 1)
# %% raises AttributeError
first(8)
# %% raises TypeError
x = {'k': [1, 2]}
x['k'][0]['y'] + first(3)
# %% raises RuntimeError
try:
    first(4)
except AttributeError:
    raise RuntimeError('while handling')
# %% raises RuntimeError
try:
    first(4)
except AttributeError as error:
    raise RuntimeError('caused') from error
# %% raises SyntaxError
def broken(:
    pass
# %% raises SyntaxError
print('unclosed'
# %% raises IndentationError
if True:
print('x')
# %% raises SyntaxError
exec('x = = 3')
# %% raises json.decoder.JSONDecodeError
import json
json.loads('{"a": [1, 2,, 3]}')
# %%
import traceback
try:
    [f for f in map(lambda v: 1 / v, [1, 0])]
except ZeroDivisionError as error:
    print(traceback.format_exc(), traceback.extract_tb(error.__traceback__)[-1].line)
# %% raises RecursionError
def forever(n): return forever(n + 1) + 1
forever(0)
# %%
class R:
    def __repr__(self): return repr(self)
R()
