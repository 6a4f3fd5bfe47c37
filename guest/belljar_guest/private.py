"""The kernel's own builtins: a cell that says `builtins.len = None` breaks only itself.

A module that starts with `from .private import OWN as __builtins__` makes all its functions use this copy.
"""

import builtins

OWN = dict(vars(builtins))
