"""C code with many small objects: a nested document, encoded and decoded."""

import json


def document():
    rows = []
    for i in range(400):
        rows.append(
            {
                "id": i,
                "name": "item %d \u00e9\u4e2d" % i,
                "price": i * 1.25,
                "tags": ["red", "green", "blue"],
                "stock": {"here": i % 7, "there": None, "sold": i % 2 == 0},
            }
        )
    return {"version": 1, "rows": rows}


def main():
    value = document()
    size = 0
    for _ in range(10):
        text = json.dumps(value)
        size += len(text)
        value = json.loads(text)
    return size + sum(row["stock"]["here"] for row in value["rows"])
