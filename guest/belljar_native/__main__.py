"""Run by path: the guest directory isn't on the interpreter's path yet."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from belljar_native.zygote import main  # noqa: E402

main(sys.argv[1])
