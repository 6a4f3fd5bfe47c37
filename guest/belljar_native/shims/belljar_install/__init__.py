"""What `pip`, `uv` and `npm` are in a session: they ask the supervisor for packages, and do the rest themselves.

| module | its noun |
|---|---|
| `pip`, `uv`, `npm` | the programs |
| `options` | their arguments |
| `requirements` | requirements, and lists of them |
| `distributions` | what is installed |
| `environment` | the virtual environment |
| `supervisor` | the one who fetches |
| `project` | a `pyproject.toml` |
| `node_project` | a `package.json`, with its lock and modules |

Nothing but the standard library, from Python 3.10 on.
"""


class Failure(Exception):
    """Said to whoever runs it; the second argument is the exit code."""

    @property
    def code(self):
        return self.args[1] if len(self.args) > 1 else 1
