"""Objects, sorting by key and the regex engine."""

import re

LINE = re.compile(r"(?P<name>[a-z]+)-(?P<number>\d+)\s*=\s*(?P<value>[0-9.]+)")


class Entry:
    def __init__(self, name, number, value):
        self.name = name
        self.number = number
        self.value = value

    def score(self):
        return self.value * 10 + self.number % 5


def lines(count):
    state = 2024
    out = []
    for i in range(count):
        state = (state * 1103515245 + 12345) % 2147483648
        out.append("sensor%s-%d = %d.%d" % ("abcdefgh"[state % 8], state % 1000, i % 97, i % 10))
    return out


def main():
    entries = []
    for line in lines(6000):
        match = LINE.search(line.replace("sensor", ""))
        entries.append(Entry(match.group("name"), int(match.group("number")), float(match.group("value"))))
    entries.sort(key=lambda entry: (entry.name, entry.number, entry.value))
    by_score = sorted(entries, key=lambda entry: entry.score())
    total = 0
    for rank, entry in enumerate(by_score):
        total = (total * 31 + entry.number * rank) % 1000000007
    joined = ",".join(entry.name + str(entry.number) for entry in entries)
    return total + len(re.sub(r"[a-d]\d", "_", joined))
