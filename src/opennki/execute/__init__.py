"""Executors: programs run on the CPU."""
