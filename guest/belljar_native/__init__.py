"""The native engine's side of the guest: a zygote that forks locked-down kernels, and what only they can do.

The kernel itself is `belljar_guest`, the same as in the wasm engine. Here are its way to the host (`channel`), its way
into the jail (`zygote`, `lockdown`) and what real processes make possible (`shadow`, `state`, `spill`, `frames`).
"""
