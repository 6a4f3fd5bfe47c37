"""The evaluation loop itself: integer arithmetic in a for loop."""


def main():
    total = 0
    for i in range(400000):
        total += i * i % 7
        if i & 1:
            total -= 1
    return total
