def mandelbrot(width, height, most):
    for y in range(height):
        row = []
        for x in range(width):
            z, c, n = 0j, complex(3.0 * x / width - 2.0, 2.0 * y / height - 1.0), 0
            while abs(z) < 2 and n < most:
                z, n = z * z + c, n + 1
            row.append(' .:-=+*#%@'[n * 9 // most])
        print(''.join(row))
mandelbrot(60, 20, 40)
# %%
x, history = 0.4, []
for _ in range(2000):
    x = 3.99 * x * (1 - x)
    history.append(x)
history[::250], sum(history).hex(), max(history).hex()
# %%
import math
def simpson(f, a, b, n):
    h = (b - a) / n
    odd, even = sum(f(a + i * h) for i in range(1, n, 2)), sum(f(a + i * h) for i in range(2, n, 2))
    return h / 3 * (f(a) + f(b) + 4 * odd + 2 * even)
[simpson(f, 0.1, 2, 500).hex() for f in (math.sin, math.exp, math.sqrt, lambda x: x ** 2.5 / math.log(x + 1))]
