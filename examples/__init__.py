"""Programs that show OpenNKI at work; each runs with `python -m examples.<name>`."""
