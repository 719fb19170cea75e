"""The examples in docstrings run and give what they say.

Each finds `np`, `opennki`, `nki`, `nl`, `nisa`, the kernel `fold` below, `x` (an input for it) and `artifact`
(`fold` traced for two cores of trn2) without imports.
"""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import numpy as np
import pytest

import opennki
from opennki import nki
from tests.house.sources import ROOT, package_sources

nisa: Any = importlib.import_module("opennki.nki.isa")
nl: Any = importlib.import_module("opennki.nki.language")

MODULES = [
    source.module
    for source in package_sources()
    if ">>>" in source.path.read_text(encoding="utf-8") and ".frameworks" not in source.module
]


@nki.jit
def fold(a: Any) -> Any:
    """Return `2 * a`; each core does its share of the rows."""
    rows = a.shape[0] // nl.num_programs(0)
    first = nl.program_id(0) * rows
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray((rows, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[first : first + rows, :])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[first : first + rows, :], src=tile)
    return out


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name: str) -> None:
    names = {"np": np, "opennki": opennki, "nki": nki, "nl": nl, "nisa": nisa, "fold": fold}
    names["x"] = np.arange(128 * 4, dtype=np.float32).reshape(128, 4)
    names["artifact"] = opennki.trace(fold, names["x"], lnc=2, target="trn2")
    opennki.install()
    module = importlib.import_module(name)
    failed, attempted = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert failed == 0, "the report is on standard output"
    assert attempted > 0


def test_no_example_is_skipped() -> None:
    skipped = [
        f"{source.path.relative_to(ROOT)}:{number}"
        for source in package_sources()
        for number, line in enumerate(source.path.read_text(encoding="utf-8").splitlines(), 1)
        if "doctest: +SKIP" in line
    ]
    assert skipped == []
