import sys

from belljar_install import pip

sys.exit(pip.main(sys.argv[1:]))
