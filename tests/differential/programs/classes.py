class Base:
    registry = []
    def __init_subclass__(cls, /, tag=None, **kw):
        super().__init_subclass__(**kw)
        cls.tag = tag
        Base.registry.append(cls.__name__)
    def hello(self):
        return f'Base of {type(self).__name__}'
class A(Base, tag='a'):
    def hello(self):
        return 'A > ' + super().hello()
class B(Base):
    def hello(self):
        return 'B > ' + super().hello()
class C(A, B, tag='c'):
    pass
C().hello(), [k.__name__ for k in C.__mro__], Base.registry, C.tag, B.tag, isinstance(C(), B)
# %%
class Vector:
    __slots__ = ('x', 'y')
    def __init__(self, x, y): self.x, self.y = x, y
    def __repr__(self): return f'Vector({self.x!r}, {self.y!r})'
    def __add__(self, other): return Vector(self.x + other.x, self.y + other.y)
    def __rmul__(self, n): return Vector(self.x * n, self.y * n)
    def __eq__(self, other): return (self.x, self.y) == (other.x, other.y)
    def __hash__(self): return hash((self.x, self.y))
    def __bool__(self): return bool(self.x or self.y)
    def __getitem__(self, i): return (self.x, self.y)[i]
    def __format__(self, spec): return f'<{self.x:{spec}}, {self.y:{spec}}>'
    def __matmul__(self, other): return self.x * other.x + self.y * other.y
v = Vector(1, 2)
v + v, 3 * v, v == Vector(1, 2), {v: 1}[Vector(1, 2)], bool(Vector(0, 0)), list(v), 2 in v, f'{v:.2f}', v @ v
# %%
class Temperature:
    def __init__(self, celsius): self.celsius = celsius
    @property
    def fahrenheit(self): return self.celsius * 9 / 5 + 32
    @fahrenheit.setter
    def fahrenheit(self, value): self.celsius = (value - 32) * 5 / 9
    @classmethod
    def boiling(cls): return cls(100)
    @staticmethod
    def unit(): return 'C'
class Lazy:
    def __getattr__(self, name): return name.upper()
    def __setattr__(self, name, value): print('set', name, value); super().__setattr__(name, value)
    def __delattr__(self, name): print('del', name)
    def __dir__(self): return ['b', 'a']
t, l = Temperature.boiling(), Lazy()
t.fahrenheit = 50
l.x = 1
del l.y
t.celsius, t.fahrenheit, t.unit(), vars(t), getattr(t, 'nope', 'default'), l.x, l.anything, dir(l)
# %%
Temperature(5)
# %% raises AttributeError
v.z = 1
# %% raises AttributeError
t.clesius
# %% raises TypeError
class D(Base, A): pass
# %% raises AttributeError
v + 1
