"""The published experiments, through the public interface of :mod:`whowrote`."""
