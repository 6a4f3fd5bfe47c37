"""The interpreter's own `venv`, but for pip: that is the session's, and needs no network."""

import os
import sysconfig

__path__ = [os.path.join(sysconfig.get_path("stdlib"), "venv")]
__file__ = os.path.join(__path__[0], "__init__.py")
with open(__file__, encoding="utf-8") as _source:
    exec(compile(_source.read(), __file__, "exec"))


def _setup_pip(self, context):
    from belljar_install import environment

    environment.add_pip(context.env_dir)


EnvBuilder._setup_pip = _setup_pip
