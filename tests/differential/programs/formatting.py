print('%5d|%-8s|%08.3f|%x|%r|%c|%%|%+d|%e' % (42, 'left', 3.14159, 255, 'q\n', 65, 7, 12345.678), '%(a)s' % {'a': 1})
print('{0!r:>12}|{1:^+10.2f}|{2:#010x}|{a[0]}|{b.real}|{3:,}|{3:_}|{4:.1%}'.format('x', 2.5, 255, 1234567, 0.256, a=[9], b=3 + 0j))
value, width = 3.14159, 12
print(f'{value:{width}.{3}}|{value=}|{value!s:>10}|{"nested " + f"{width}"}|{width:b}|{width:<5}|{-width:=8}|{True:d}|{10 ** 20:n}')
print(f'{1234567.891:,.2f} {1e-7:.10f} {2.5:.0f} {3.5:.0f} {1e21} {123456789:,} {0.000123:.2g} {-0.0:+.1f} {255:#o} {65:c}')
print(format(2 ** 70, ',d'), format('text', '*^12'), format(1 + 2j, '.1f'), t'{value} and {width:>{5}}'.strings)
# %% raises IndexError
'{} {}'.format(1)
# %% raises ValueError
f'{5:q}'
# %% raises TypeError
'%d' % 'x'
