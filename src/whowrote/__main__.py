"""``python -m whowrote`` is the same as ``whowrote``."""

from whowrote.cli import main

main()
