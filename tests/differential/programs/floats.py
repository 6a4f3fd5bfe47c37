numbers = [0.1, 1 / 3, 1e16, 1e15, 123456789012345680.0, 1e22, 1e-5, 0.0001, 5e-324, 1.7976931348623157e308, -0.0, 2.5]
for x in [*numbers, float('inf'), float('-inf'), float('nan')]:
    print(repr(x), f'{x:.3f}', f'{x:e}', f'{x:g}', f'{x:.0f}', x.hex())
# %%
print(0.1 + 0.2, sum([0.1] * 10), 1e308 * 10, 1e-320 / 10, 2 ** 0.5, (-8) ** (1 / 3), 7.5 // 2, -7.5 % 2, divmod(-7.5, 2))
print([round(x, n) for x, n in [(2.675, 2), (0.5, 0), (1.5, 0), (2.5, 0), (1234.5678, -2)]], round(2.5), round(-3.5))
print(float.fromhex('0x1.fffffffffffffp+1023'), (0.1).as_integer_ratio(), (1e22).is_integer(), float(' 1e-3_0 '))
import struct, math
print([struct.pack(">d", x) for x in (float("inf") * 0, float("inf") - float("inf"), -float("nan"), math.fmod(5, 3), 0.0 * -1)])
print([hash(x) for x in (0.5, 1.0, 1e100, float('inf'), 3.14159)], float('nan') == float('nan'))
# %% raises ZeroDivisionError
1.0 / 0
