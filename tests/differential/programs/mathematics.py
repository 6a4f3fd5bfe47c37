import math
values = [0.0, 0.1, 1.0, 2.5, 10.75, 100.0, 1e-10]
for name in ['sin', 'cos', 'tan', 'atan', 'sinh', 'tanh', 'exp', 'expm1', 'log1p', 'sqrt', 'cbrt', 'erf', 'erfc', 'asinh', 'exp2']:
    print(name, [getattr(math, name)(x) for x in values])
print([(math.log(x), math.log2(x), math.log10(x), math.gamma(x), math.lgamma(x)) for x in values if x])
print(math.fsum([0.1] * 10), math.hypot(3, 4, 12), math.dist((1, 2), (4, 6)), math.frexp(1e300), math.ldexp(0.5, -1073))
print(math.nextafter(1, 2), math.ulp(1e300), math.fmod(-7, 3), math.remainder(7, 2.5), math.fma(0.1, 10, -1))
print(math.pi ** math.e, math.atan2(-0.0, -1.0), math.copysign(1, -0.0), math.modf(-3.75), math.sumprod([1, 2.5], [3, 4]))
# %% raises ValueError
math.log(-1)
# %% raises OverflowError
math.exp(1000)
