"""Kernels in the graphs of frameworks; each package is imported when the first tensor of its own arrives."""
