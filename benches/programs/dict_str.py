"""Dictionaries and strings: generate words, count them, format the counts."""

SYLLABLES = ["ka", "to", "mi", "ra", "ne", "so", "lu", "pe"]


def words(count):
    state = 12345
    out = []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2147483648
        first = SYLLABLES[state % 8]
        second = SYLLABLES[(state // 8) % 8]
        third = SYLLABLES[(state // 64) % 8]
        out.append(first + second + third)
    return out


def main():
    text = " ".join(words(30000))
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    lines = []
    for word in sorted(counts):
        lines.append(f"{word.upper()}:{counts[word]:>5}")
    report = "\n".join(lines)
    return len(report) + len(counts) + report.count("KA") + len(text.replace("to", "--o"))
