"""The guest kernel as a WebAssembly component: what componentize-py runs once, snapshots, and starts from."""

import os
import sys

import wit_world

from belljar_guest import Kernel, foreign, immortal, imports, platform, preload, warm  # noqa: F401  the host calls `immortal`

foreign.install()
preload.preload()
platform.install(wit_world.exchange)
kernel = Kernel(wit_world.exchange)
kernel.install()
os.environ.clear()  # a session's environment comes with BOOT
# The environment's packages, then the working directory, as for `python -c`; the kernel's own directory last.
sys.path[:] = [imports.PACKAGES, "", *[entry for entry in sys.path if entry not in ("", "/0", "/1", "/2")], "/0"]
warm.warm(kernel)


class WitWorld(wit_world.WitWorld):
    def handle(self, frame):
        return kernel.handle(frame)
