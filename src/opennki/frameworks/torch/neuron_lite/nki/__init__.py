"""The kernels' part of the lite library."""
