"""Recursive calls: frames, small integers, comparison."""


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def main():
    return fib(26)
