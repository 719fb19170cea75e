"""Rows of the sync group."""
