"""Rows of the gpsimd group."""
