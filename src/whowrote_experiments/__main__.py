"""``python -m whowrote_experiments`` is the same as ``whowrote experiment``."""

from whowrote_experiments.commands import experiment

experiment()
