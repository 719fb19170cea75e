"""`python -m opennki.cli` is the command `opennki`."""

from __future__ import annotations

import sys

from opennki.cli.app import main

sys.exit(main())
