"""Which modules a command loads, seen from a process of its own."""

import json
import subprocess
import sys
from collections.abc import Sequence

SCRIPT = """
import json, sys
from whowrote.cli import app
names, commands = json.loads(sys.argv[1])
seen = []
for arguments in commands:
    try:
        app(arguments)
    except SystemExit as left:
        assert not left.code, left
    seen.append([name for name in names if name in sys.modules])
print()
print(json.dumps(seen))
"""


def loaded(names: Sequence[str], *arguments: object, before: str = "") -> list[str]:
    """Those of the modules that ``whowrote ARGUMENTS`` has loaded when it ends."""
    return loaded_after(names, [list(map(str, arguments))], before)[0]


def loaded_after(
    names: Sequence[str], commands: Sequence[Sequence[str]], before: str = ""
) -> list[list[str]]:
    """Those of the modules that are loaded after each of some commands of one process."""
    asked = json.dumps([list(names), [list(arguments) for arguments in commands]])
    command = [sys.executable, "-c", before + SCRIPT, asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found
