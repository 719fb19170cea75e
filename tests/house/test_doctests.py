"""The examples in docstrings run and give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

import opennki
from tests.house.sources import package_sources

MODULES = [
    source.module
    for source in package_sources()
    if ">>>" in source.path.read_text(encoding="utf-8") and ".frameworks" not in source.module
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name: str) -> None:
    opennki.install()
    failed, attempted = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0, "the report is on standard output"
    assert attempted > 0
