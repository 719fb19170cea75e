"""A kernel that splits a picture over two cores: one refusal, two ways out. Run it with `make demo`."""
