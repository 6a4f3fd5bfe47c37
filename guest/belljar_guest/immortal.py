"""Lists the objects that are there to stay, so that the host can make them immortal in the image.

Counting references writes to an object whenever it is merely used. In memory that is shared until it is written,
every function, constant and type that a cell touches would cost a page of its own. Immortal objects aren't counted.

Only what modules lead to is listed: a temporary object that was freed before the host looks must not be among it.
"""

import builtins
import gc
import sys
from array import array
from gc import get_referents
from types import CodeType

from .private import OWN as __builtins__

_CODE_PARTS = ("co_consts", "co_names", "co_filename", "co_name", "co_qualname", "co_linetable", "co_exceptiontable")


def write(path):
    """Writes the count that immortal objects have, then the addresses of objects, as unsigned 32-bit numbers.

    What starts from this memory begins without `_`, and its collector needn't look at what is there already.
    """
    vars(builtins).pop("_", None)
    gc.collect()
    gc.freeze()
    addresses = array("I", [sys.getrefcount(None)])
    seen = {id(addresses)}
    found = [sys.modules]
    seen.add(id(found))
    seen.add(id(seen))
    while found:
        item = found.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if not _is_immortal(item):
            addresses.append(id(item))
        if isinstance(item, CodeType):
            for part in _CODE_PARTS:
                found.append(getattr(item, part))
        elif isinstance(item, type):
            # The types that C defines aren't known to the garbage collector, but what they hold is on the heap.
            found.extend(type.mro(item))
            found.extend(get_referents(type.__dict__["__dict__"].__get__(item)))
        found.extend(get_referents(item))
    with open(path, "wb") as file:
        file.write(addresses.tobytes())


_is_immortal = getattr(sys, "_is_immortal", lambda item: False)
