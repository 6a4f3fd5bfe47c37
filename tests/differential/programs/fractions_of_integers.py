from fractions import Fraction
total = sum(Fraction(1, n) for n in range(1, 60))
print(total, float(total), Fraction('3.25'), Fraction(0.1), Fraction(0.1).limit_denominator(100), Fraction(-7, 3) // 1)
print(round(Fraction(22, 7), 3), Fraction(1, 2) == 0.5, hash(Fraction(1, 2)) == hash(0.5), f'{Fraction(22, 7):.5f}', Fraction(2, 3) ** -3)
total.numerator, total.denominator
# %% raises ZeroDivisionError
Fraction(1, 0)
