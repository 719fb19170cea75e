"""The instruction set: the row machinery and the rows."""
