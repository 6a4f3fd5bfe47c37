from dataclasses import dataclass, field, asdict, replace, fields, astuple, KW_ONLY
@dataclass(order=True)
class Item:
    price: float
    name: str = field(compare=False)
    tags: list[str] = field(default_factory=list, repr=False)
    _: KW_ONLY
    count: int = 1
    total: float = field(init=False)
    def __post_init__(self): self.total = self.price * self.count
@dataclass(frozen=True, slots=True)
class Key:
    x: int
    y: int = 0
a, b = Item(2.5, 'a', count=4), Item(1.5, 'b')
print(a, sorted([a, b]), asdict(a), replace(b, price=9), astuple(b), [f.name for f in fields(a)], {Key(1): 'v'}[Key(1)])
# %%
from enum import Enum, IntFlag, auto, StrEnum
from collections import namedtuple
class Color(Enum):
    RED = 1
    GREEN = 2
    ALIAS = 1
    @property
    def lower(self): return self.name.lower()
class Perm(IntFlag):
    R, W, X = auto(), auto(), auto()
class Kind(StrEnum):
    A, B = auto(), 'bee'
P = namedtuple('P', 'x y', defaults=[5])
list(Color), Color.ALIAS, Color['GREEN'].lower, Perm.R | Perm.X, Perm(7) & ~Perm.W, list(Perm), Kind.A, f'{Kind.B}', Perm(0), P(1), P(1)._replace(x=2), P(1)._asdict()
# %% raises ValueError
Color(9)
# %% raises dataclasses.FrozenInstanceError
Key(1).x = 2
# %% raises TypeError
Item(1)
