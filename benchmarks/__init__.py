"""Figures of speed and size, each with its budget: `python -m benchmarks` measures them and writes JSON."""
