"""The compilation pipeline: settings, degree rules, coverage, baking, and the executable that comes out."""
