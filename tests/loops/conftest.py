"""What every test of this folder gets."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel here is traced once, so a key for it would be work for nothing."""
    monkeypatch.setenv("OPENNKI_CACHE_LIMIT", "0")
