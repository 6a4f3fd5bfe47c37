"""Belljar's guest kernel: the Python program that runs untrusted cells behind the glass.

The kernel shares its interpreter with hostile code. So it takes what it needs when it is imported
(`private` has its own copy of the builtins), imports nothing later, and treats every call into the
user's objects as something that may fail, never return, or be interrupted.

`Kernel(exchange).handle(frame)` is the whole interface; `PROTOCOL.md` lists the frames.
"""

from .kernel import Kernel
from .tools import ToolError

__all__ = ["Kernel", "ToolError"]
