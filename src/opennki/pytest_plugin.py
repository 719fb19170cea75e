"""The pytest plugin: `import nki` in tests is OpenNKI's, unless a real nki wheel is installed."""

from __future__ import annotations

__all__ = ["pytest_configure"]


def pytest_configure(config: object) -> None:
    """Install `nki` before test modules are imported."""
    from opennki.build.aliasing import install

    install()
