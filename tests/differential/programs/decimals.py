from decimal import *
print(Decimal('0.1') + Decimal('0.2'), Decimal(1) / 7, Decimal(2).sqrt(), Decimal('1e-10') * 3, Decimal(0.1))
with localcontext() as context:
    context.prec = 120
    print(Decimal(2).sqrt(), Decimal(1).exp(), Decimal(10).ln(), Decimal(3) ** Decimal('0.5'))
for mode in (ROUND_UP, ROUND_DOWN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_05UP):
    print(mode, [str(Decimal(text).quantize(Decimal('1.0'), rounding=mode)) for text in ('1.25', '1.35', '-1.25', '2.05')])
print(f"{Decimal('1234567.891'):,.2f}", Decimal('-0'), Decimal('NaN'), Decimal('Infinity') - 1, Decimal('12.340').as_tuple())
print(Decimal('123.456').scaleb(-5), Decimal(7).remainder_near(4), Decimal('1.1').fma(3, 4), hash(Decimal('1.5')) == hash(1.5))
# %% raises decimal.DivisionByZero
Decimal(1) / 0
# %% raises decimal.InvalidOperation
Decimal('spam')
