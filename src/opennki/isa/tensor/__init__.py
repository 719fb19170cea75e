"""Rows of the Tensor engine."""
