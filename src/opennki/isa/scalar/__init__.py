"""Rows of the scalar group."""
