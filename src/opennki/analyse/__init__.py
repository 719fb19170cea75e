"""Analyses of traced programs: what each instruction touches, and what follows from that."""
