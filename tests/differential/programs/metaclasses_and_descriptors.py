class Meta(type):
    @classmethod
    def __prepare__(mcs, name, bases, **kw): return {'prepared': name, **kw}
    def __new__(mcs, name, bases, body, **kw): return super().__new__(mcs, name, bases, dict(body))
    def __init__(cls, name, bases, body, **kw): super().__init__(name, bases, body)
    def __call__(cls, *a): print('creating', cls.__name__, a); return super().__call__(*a)
    def __iter__(cls): return iter(sorted(k for k in vars(cls) if not k.startswith('_')))
    def __instancecheck__(cls, other): return other == 'special' or super().__instancecheck__(other)
class Thing(metaclass=Meta, option=3):
    b, a = 1, 2
    def __init__(self, *a): self.args = a
list(Thing), Thing(1, 2).args, type(Thing), Thing.option, isinstance('special', Thing)
# %%
class Typed:
    def __set_name__(self, owner, name): self.name = name; print('named', name, owner.__name__)
    def __get__(self, instance, owner): return self if instance is None else instance.__dict__.get(self.name, 'unset')
    def __set__(self, instance, value):
        if not isinstance(value, int):
            raise TypeError(f'{self.name} must be int, not {type(value).__name__}')
        instance.__dict__[self.name] = value
class Point:
    x, y = Typed(), Typed()
p = Point()
p.x = 5
Dynamic = type('Dynamic', (Point,), {'z': property(lambda self: self.x * 2)})
d = Dynamic()
d.x = 21
p.x, p.y, type(Point.x).__name__, d.z
# %%
import abc
from typing import Protocol, runtime_checkable, get_type_hints
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
@Shape.register
class Odd: pass
@runtime_checkable
class Sized(Protocol):
    def __len__(self) -> int: ...
class Box[T]:
    item: T
    def get[U](self, default: U) -> T | U: ...
type Pair[A] = tuple[A, A]
isinstance(Odd(), Shape), Shape.__abstractmethods__, isinstance([], Sized), Box[int], Pair.__value__, get_type_hints(Box.get), list[int] | None
# %% raises TypeError
p.y = 'text'
# %% raises TypeError
Shape()
