"""The front end: what a kernel sees while it is traced or simulated."""
