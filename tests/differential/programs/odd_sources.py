# -*- coding: utf-8 -*-
naïve, 変数, ℌ = 1, 2, 3
print(naïve + 変数 + H, """triple
lines""", r'\raw', b'\x00', u'u', f"{'nested'!r:>10}", 1_000, 0xFF, 0o17, 0b11, 1e3, 1j, ...)
if True: x = (1,
    2); y = \
    3
x, y, "adjacent" 'strings' f"{y}", not None, -2 ** 2, 2 ** -1, 1 < 2 < 3, 5 & 3 | 4 ^ 1, ~5
# %%
# only a comment
# %%
"""only a docstring"""
# %%
for i in range(3):
    if i == 5: break
else:
    print('no break', i)
while i: i -= 1
else: print('done', i)
# %%
x = 5 is 5
x
# %% raises SyntaxError
return 5
# %% raises SyntaxError
x = 1 +
# %% raises SyntaxError
nonlocal q
# %% raises SyntaxError
'\N{NOT A NAME}'
# %% raises SyntaxError
print 'hello'
# %% raises SyntaxError
b = 'unterminated
# %% raises TabError
if 1:
        a
	b
