print(2 ** 521 - 1)
print((7 ** 400) // (3 ** 300), (7 ** 400) % (3 ** 300), -(7 ** 90) // 10 ** 20)
print(pow(3, 10 ** 40, 10 ** 30 + 57), pow(17, -1, 10 ** 9 + 7))
print(-7 // 2, -7 % 2, 7 // -2, 7 % -2, divmod(-10 ** 30, 7))
print((1 << 200) ^ (1 << 100) | 0xFF, ~(1 << 70), -(1 << 65) >> 3)
print((2 ** 300).bit_length(), (2 ** 300 - 1).bit_count(), hex(3 ** 100), oct(-(5 ** 40)), bin(2 ** 40 + 5))
print(int('z' * 40, 36), int('-1_000_000'), int(' 12\n'), int(1e30), int('٣٤'))
print((10 ** 50).to_bytes(30, 'little', signed=True), int.from_bytes(b'\xff' * 17, 'big', signed=True))
# %%
import math
math.factorial(60), math.comb(200, 77), math.perm(40, 20), math.gcd(2 ** 90, 6 ** 50), math.lcm(*range(1, 40)), math.isqrt(10 ** 61)
# %%
total = 0
for n in range(1, 3000):
    total = (total * 31 + n ** 13) % (2 ** 255 - 19)
str(5 ** 6000)[::997], total, hash(2 ** 61), hash(2 ** 61 - 1), hash(-1), hash(10 ** 60)
# %% raises ValueError
int('9' * 5000)
# %% raises OverflowError
float(10 ** 400)
