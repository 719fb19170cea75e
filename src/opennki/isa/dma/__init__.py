"""Rows of the dma group."""
