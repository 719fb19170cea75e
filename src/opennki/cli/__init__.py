"""The command line, `opennki`. The only place besides `frameworks` that loads typer and rich."""

from __future__ import annotations

from opennki.cli.app import main

__all__ = ["main"]
