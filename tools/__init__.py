"""Programs of the house: stubs, damaged files."""
