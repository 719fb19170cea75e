"""Adapters to frameworks, each imported when the first tensor or graph of its framework arrives."""
