"""Rows of the vector group."""
