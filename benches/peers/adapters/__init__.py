"""One adapter per peer: the few verbs that the measurements are made of.

`prepare(live)` starts what must run before, for so many live sessions. `fresh()` runs `print(1)` in a sandbox of its
own, drop included, and returns what was printed; `reused()` returns a function that does so with one sandbox object
made before. `Session(…)` keeps state: `run(code)`, `value(expression)`, `dump()`, `load(state)`, `close()`. What a peer
lacks, its adapter lacks, and `LACKS` says why.
"""
