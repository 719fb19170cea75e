"""The whole text of messages, as a user reads them: one mistake each, in the kernels of `message_kernels.py`.

The codes' pages have texts of their own (`test_pages.py`); here are the further sentences of the codes that a
trace, a simulation or baking raises: helpers between kernel and mistake, both cores, several calls at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

from opennki import Spec
from opennki.diag import CATALOGUE, Diagnostic, OpenNkiError
from opennki.diag.render import render_text
from tests.diagnostics import message_kernels as k
from tests.golden_file import ROOT, Golden


class Example(NamedTuple):
    """A mistake: the code that it gives first, and what to run."""

    code: str
    run: Callable[[], object]


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape or (128, 64), np.float32)


def within(run: Callable[[], object], **values: str) -> Callable[[], object]:
    """Run in an environment."""

    def inside() -> object:
        with patch.dict(os.environ, values):
            return run()

    return inside


def read_only() -> np.ndarray[Any, Any]:
    array = zeros()
    array.flags.writeable = False
    return array


EXAMPLES: dict[str, Example] = {
    "a number for a tile": Example("ONKI101", k.traced(k.number_for_a_tile)),
    "a string for an operator": Example("ONKI101", k.traced(k.string_for_an_operator)),
    "the truth of a tensor": Example("ONKI111", k.traced(k.truth_of_a_tensor)),
    "a function of the language": Example("ONKI102", k.traced(k.function_of_the_language)),
    "an instruction outside of a kernel": Example("ONKI103", k.outside_of_a_kernel),
    "a spec in a direct call": Example("ONKI104", k.called(k.whole, Spec("float32", (128, 64)))),
    "a tile in a dict returned": Example("ONKI105", k.traced(k.tile_returned)),
    "a number returned": Example("ONKI105", k.traced(k.number_returned)),
    "an output forgotten": Example("ONKI106", k.traced(k.output_forgotten)),
    "an option of earlier releases": Example("ONKI107", k.option_of_earlier_releases),
    "a name in a loop": Example("ONKI108", k.traced(k.name_in_a_loop)),
    "a tensor kept from the launch before": Example("ONKI109", k.launched_twice),
    "an exception of the kernel": Example("ONKI110", k.checked(k.raising)),
    "a matmul from HBM": Example("ONKI201", k.traced(k.matmul_from_hbm)),
    "a matmul into bfloat16": Example("ONKI202", k.traced(k.matmul_into_bfloat16)),
    "a start on an odd partition": Example("ONKI203", k.traced(k.odd_partition)),
    "a matmul that is too wide": Example("ONKI204", k.traced(k.wide_matmul)),
    "a helper with the wrong rows": Example("ONKI205", k.traced(k.helper_with_the_wrong_rows)),
    "no implicit broadcast": Example("ONKI205", k.traced(k.no_implicit_broadcast)),
    "a written broadcast": Example("ONKI210", k.traced(k.written_through_a_broadcast)),
    "a barrier on trn1": Example("ONKI207", k.traced(k.barrier, target="trn1")),
    "a tail tile": Example("ONKI208", k.traced(k.tail_tile, "float32[300,64]")),
    "a window reshaped": Example("ONKI209", k.traced(k.window_reshaped)),
    "partitions permuted": Example("ONKI210", k.traced(k.partitions_permuted)),
    "a wide column broadcast": Example("ONKI210", k.traced(k.column_broadcast)),
    "a window assigned to": Example("ONKI210", k.traced(k.assigned_to_a_window)),
    "beyond the last byte": Example("ONKI211", k.traced(k.beyond_the_last_byte, target="trn1")),
    "beyond the last partition": Example("ONKI211", k.traced(k.beyond_the_last_partition)),
    "an unaligned address": Example("ONKI211", k.traced(k.unaligned)),
    "an address in HBM": Example("ONKI211", k.traced(k.address_in_hbm)),
    "too many partitions": Example("ONKI212", k.traced(k.too_many_partitions, "float32[256,64]")),
    "a tile without rows": Example("ONKI212", k.traced(k.no_rows)),
    "too much PSUM": Example("ONKI212", k.traced(k.too_much_psum)),
    "an array without elements": Example("ONKI212", k.traced(k.whole, zeros(0, 64))),
    "a reshape to other elements": Example("ONKI213", k.traced(k.wrong_reshape)),
    "a tile of float64": Example("ONKI214", k.traced(k.double_precision)),
    "an array of float64": Example("ONKI214", k.simulated(k.whole, np.zeros((128, 64)))),
    "an int64 tile in an engine": Example("ONKI214", k.traced(k.wide_integers)),
    "a bracket and an option": Example("ONKI301", k.traced(k.halves[2], lnc=1)),
    "two brackets": Example("ONKI301", lambda: k.two_brackets(zeros())),
    "an output on one core": Example("ONKI305", k.traced(k.output_on_core_0, lnc=2)),
    "another nesting on one core": Example("ONKI305", k.traced(k.list_on_core_0, lnc=2)),
    "a shape that depends on the core": Example("ONKI305", k.traced(k.rows_by_core, lnc=2)),
    "a barrier against an exchange": Example("ONKI307", k.traced(k.barrier_and_exchange, lnc=2)),
    "a barrier against an exchange, simulated": Example(
        "ONKI307",
        within(k.simulated(k.barrier_and_exchange[2], zeros()), NEURON_PLATFORM_TARGET_OVERRIDE="trn2"),
    ),
    "a grid of two axes": Example("ONKI308", k.two_axes),
    "a nested kernel of another degree": Example("ONKI309", k.traced(k.nested, lnc=1)),
    "an offset on a window": Example("ONKI403", k.checked(k.offset_of_a_window)),
    "a transpose of floats on trn1": Example("ONKI404", k.checked(k.transposed, "trn1")),
    "an output written in part": Example("ONKI401", k.checked(k.first_half_only)),
    "both cores write everything": Example("ONKI405", k.checked(k.whole[2])),
    "a read-only array": Example("ONKI703", k.simulated(k.doubled, read_only())),
    "two programs in a graph of one": Example("NCC_ENKI003", k.baked(k.halves[2], lnc=1)),
    "one program in a graph of two": Example("NCC_EVRF066", k.baked(k.whole, lnc=2)),
    "several calls that disagree": Example("NCC_ENKI003", k.baked(k.halves[2], k.whole, k.halves[2], lnc=1)),
    "a degree that trn1 lacks": Example("NCC_EARG001", k.traced(k.halves[2], target="trn1")),
    "a degree that trn1 lacks, from the environment": Example(
        "NCC_EARG001", within(k.traced(k.halves, target="trn1"), NEURON_LOGICAL_NC_CONFIG="2")
    ),
}

FAMILIES = ("NCC_", "ONKI1", "ONKI2", "ONKI3")


def said(run: Callable[[], object]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics that a run raises or returns."""
    try:
        found = run()
    except OpenNkiError as error:
        return error.diagnostics
    assert isinstance(found, tuple), "no error, and no findings"
    return found


@pytest.mark.parametrize("name", [pytest.param(name, id=name.replace(" ", "-")) for name in EXAMPLES])
@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
def test_message(name: str, golden: Golden) -> None:
    example = EXAMPLES[name]
    found = said(example.run)
    assert found[0].code == example.code
    golden(render_text(found))


def test_every_code_of_these_families_has_a_message() -> None:
    """Here, or on its page."""
    codes = {code for code in CATALOGUE if code.startswith(FAMILIES)}
    shown = {example.code for example in EXAMPLES.values()}
    pages = {path.stem.rpartition("_program_")[2] for path in (ROOT / "diagnostics/test_pages").glob("*.txt")}
    assert shown <= set(CATALOGUE)
    assert sorted(codes - shown - pages) == []
