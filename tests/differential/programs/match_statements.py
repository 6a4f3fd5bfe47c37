from dataclasses import dataclass
@dataclass
class Point:
    x: int
    y: int
def describe(value):
    match value:
        case 0 | 1: return 'small'
        case int(n) if n < 0: return f'negative {n}'
        case str() as s: return f'text {s}'
        case []: return 'empty'
        case [x]: return f'one {x}'
        case [x, y, *rest] if rest: return f'many {x} {y} {rest}'
        case (x, y): return f'pair {x} {y}'
        case {'type': 'a', 'v': [first, *_], **others}: return f'map {first} {others}'
        case Point(x=0, y=y): return f'on y axis {y}'
        case Point(x, y): return f'point {x} {y}'
        case None | True: return 'constant'
        case _: return 'other'
[describe(v) for v in (0, -5, 'hi', [], [1], (1, 2), [1, 2, 3], {'type': 'a', 'v': [9, 8], 'z': 1}, Point(0, 3), Point(1, 2), None, 3.5, {}, b'ab')]
