def sieve(n):
    flags = bytearray([1]) * (n + 1)
    flags[:2] = b'\0\0'
    for p in range(2, int(n ** .5) + 1):
        if flags[p]:
            flags[p * p::p] = bytes(len(range(p * p, n + 1, p)))
    return [i for i, f in enumerate(flags) if f]
def queens(n, row=0, columns=0, left=0, right=0):
    if row == n:
        return 1
    total, free = 0, ((1 << n) - 1) & ~(columns | left | right)
    while free:
        bit = free & -free
        free ^= bit
        total += queens(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return total
def distance(a, b):
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (x != y)))
        previous = current
    return previous[-1]
primes = sieve(200_000)
len(primes), primes[-3:], sum(primes), [queens(n) for n in range(1, 9)], distance('kitten sitting on the mitten' * 4, 'sitting kitten in the kitchen' * 4)
# %%
import heapq
def dijkstra(graph, start):
    best, heap = {start: 0}, [(0, start)]
    while heap:
        d, node = heapq.heappop(heap)
        for other, weight in graph[node]:
            if d + weight < best.get(other, 10 ** 9):
                best[other] = d + weight
                heapq.heappush(heap, (d + weight, other))
    return best
def life(cells):
    counts = {}
    for x, y in cells:
        for dx in (-1, 0, 1):
            for dy in (-1, 0, 1):
                if dx or dy:
                    counts[x + dx, y + dy] = counts.get((x + dx, y + dy), 0) + 1
    return {c for c, n in counts.items() if n == 3 or n == 2 and c in cells}
graph = {n: [((n * 7 + 3) % 500, n % 13 + 1), ((n * 11 + 5) % 500, n % 7 + 2), ((n + 1) % 500, 9)] for n in range(500)}
cells = {(1, 0), (2, 1), (0, 2), (1, 2), (2, 2), (10, 10), (10, 11), (10, 12)}
for _ in range(60):
    cells = life(cells)
sum(dijkstra(graph, 0).values()), sorted(cells)
# %%
import re
class Parser:
    def __init__(self, text):
        self.tokens, self.i = re.findall(r'\d+\.?\d*|[-+*/()^]', text), 0
    def peek(self):
        return self.tokens[self.i] if self.i < len(self.tokens) else None
    def take(self):
        self.i += 1
        return self.tokens[self.i - 1]
    def expression(self):
        value = self.term()
        while self.peek() in ('+', '-'):
            value = value + self.term() if self.take() == '+' else value - self.term()
        return value
    def term(self):
        value = self.factor()
        while self.peek() in ('*', '/'):
            value = value * self.factor() if self.take() == '*' else value / self.factor()
        return value
    def factor(self):
        if self.peek() == '-':
            self.take()
            return -self.factor()
        if self.peek() == '(':
            self.take()
            value = self.expression()
            self.take()
        else:
            value = float(self.take())
        if self.peek() == '^':
            self.take()
            value **= self.factor()
        return value
Parser('2 + 3 * (4 - 1) ^ 2 / -5 + 1.5').expression()
