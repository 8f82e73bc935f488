"""The published experiments, through the public interface."""
