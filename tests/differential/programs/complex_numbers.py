import cmath
z = 3 - 4j
print(z, abs(z), z.conjugate(), z ** 2, z ** 0.5, z ** -1, z * 1j, z / (1 + 1j), repr(-0j), complex('1e3-2.5j'), f'{z:.2f}')
print([f(z) for f in (cmath.sqrt, cmath.exp, cmath.log, cmath.sin, cmath.tanh, cmath.acos, cmath.phase)])
print(cmath.polar(z), cmath.rect(2, 1), cmath.isclose(z, z + 1e-12), hash(z), complex(2, -0.0))
# %% raises TypeError
z < 1j
# %% raises ZeroDivisionError
z / 0j
