"""Which modules a command loads, seen from a process of its own."""

import ast
import subprocess
import sys
from collections.abc import Sequence

SCRIPT = """
import sys
from whowrote.cli import app
names, *arguments = sys.argv[1:]
try:
    app(arguments)
except SystemExit as left:
    assert not left.code, left
print([name for name in names.split() if name in sys.modules])
"""


def loaded(names: Sequence[str], *arguments: object, before: str = "") -> list[str]:
    """Those of the modules that ``whowrote ARGUMENTS`` has loaded when it ends."""
    command = [sys.executable, "-c", before + SCRIPT, " ".join(names), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[str] = ast.literal_eval(done.stdout.splitlines()[-1])
    return found
