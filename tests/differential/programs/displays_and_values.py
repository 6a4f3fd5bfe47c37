class Rich:
    def _repr_html_(self): return '<b>rich</b>'
    def _repr_markdown_(self): return '**rich**'
    def _repr_json_(self): return {'a': [1, 2.5, None]}
    def _repr_png_(self): return b'\x89PNG\r\n\x1a\n'
    def __repr__(self): return 'Rich()'
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'plain', 'text/x-own': 'own', 'application/json': {'k': 'v'}}
display(Rich())
display(Bundle())
display(1, 'two', [3])
Rich()
# %%
Bundle()
# %%
None
# %%
1; 2
# %%
_ + 1
# %%
'text with \'quotes\' and \n newline'
# %%
{'a' * 30: list(range(40))}
# %%
print('no newline', end='')
# %%
import sys
sys.stdout.write('partial ')
sys.stderr.write('error ')
print('a', 'b', sep='-', end='!\n')
# %%
class BadRepr:
    def __repr__(self): return 1 / 0
BadRepr()
