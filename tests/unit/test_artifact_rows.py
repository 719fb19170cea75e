"""Artifacts of real kernels: they load, and one that breaks a rule of its instructions does not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from msgspec.structs import replace

import opennki
from opennki.artifact import artifact_bytes, artifact_of
from opennki.diag import OpenNkiError
from opennki.ir.text import parse_artifact, print_artifact
from opennki.ir.types import Instruction, KernelArtifact, Layout, Program, View
from opennki.isa.table import ROW_FACTS
from tests.unit.kernels import halve

opennki.install(force=True)

from tests.rows.case_kernel import inputs_of, kernel_of  # noqa: E402
from tests.rows.cases import legal_cases  # noqa: E402

CASES = tuple(islice(legal_cases(), 0, None, 20))


@pytest.mark.filterwarnings("ignore")  # calls that are legal but warned of
def test_what_is_traced_loads_and_reads_back() -> None:
    """Each twentieth legal call of the rows passes the gate again."""
    for case in CASES:
        traced = opennki.trace(kernel_of(case), *inputs_of(case), lnc=1, target=case.target)
        data = artifact_bytes(traced)
        assert artifact_bytes(artifact_of(data, case.id)) == data
        assert artifact_bytes(parse_artifact(print_artifact(traced, ROW_FACTS), ROW_FACTS)) == data, case.id


def halved() -> KernelArtifact:
    return opennki.trace(halve, opennki.Spec("float32", (256, 64)), lnc=2, target="trn2")


def first_of(program: Program, name: str) -> int:
    """Return where the first instruction called `name` stands in a program without loops."""
    number = program.opcodes.index(name)
    return next(
        i for i, item in enumerate(program.body) if isinstance(item, Instruction) and item.opcode == number
    )


def broken(
    name: str, change: Callable[[Program, Instruction], tuple[Program, Instruction]]
) -> tuple[str, Any]:
    """Return message and rule of loading an artifact in which one instruction of core 1 is changed."""
    one = halved()
    program = one.programs[1]
    at = first_of(program, name)
    instruction = program.body[at]
    assert isinstance(instruction, Instruction)
    program, instruction = change(program, instruction)
    body = (*program.body[:at], instruction, *program.body[at + 1 :])
    data = artifact_bytes(replace(one, programs=(one.programs[0], replace(program, body=body))))
    with pytest.raises(OpenNkiError) as caught:
        artifact_of(data, "a.nka")
    found = caught.value.diagnostics[0]
    assert found.code == "ONKI502"
    return found.message.removeprefix(f"`a.nka` is damaged: core 1: instruction {at}: "), found.rule


def attribute(name: str, value: object) -> Callable[[Program, Instruction], tuple[Program, Instruction]]:
    """Give an instruction another value of an attribute."""

    def change(program: Program, i: Instruction) -> tuple[Program, Instruction]:
        names = ROW_FACTS[program.opcodes[i.opcode]].attributes
        values = [value if n == name else old for n, old in zip(names, program.attrs[i.attrs], strict=True)]
        return replace(program, attrs=(*program.attrs, tuple(values))), replace(i, attrs=len(program.attrs))

    return change


def smaller(program: Program, i: Instruction) -> tuple[Program, Instruction]:
    """Let the first operand be one column less."""
    view = i.operands[0]
    assert isinstance(view, View)
    layout = program.layouts[view.layout]
    narrow = Layout(layout.space, layout.dtype, ((64, 128), (1, 63)))
    operands = (replace(view, layout=len(program.layouts)), *i.operands[1:])
    return replace(program, layouts=(*program.layouts, narrow)), replace(i, operands=operands)


@pytest.mark.parametrize(
    ("change", "says", "rule"),
    [
        (
            attribute("op0", "frobnicate"),
            "`tensor_scalar` needs an operator of `nki.language` for `op0`, got 'frobnicate'",
            "attributes_legal",
        ),
        (
            attribute("op0", 3),
            "`tensor_scalar` needs an operator of `nki.language` for `op0`, got 3",
            "attributes_legal",
        ),
        (attribute("reverse0", 0), "`tensor_scalar` needs a bool for `reverse0`, got 0", "attributes_legal"),
        (
            smaller,
            "`tensor_scalar` needs equal elements per partition: "
            "`data` [128, 64] has 64, `dst` [128, 63] has 63",
            "TENSOR_SCALAR-11",
        ),
        (
            lambda p, i: (p, replace(i, engine=1)),
            "`tensor_scalar` does not run on the tensor engine, only on vector, scalar, gpsimd",
            "GEN-ENGINE",
        ),
    ],
    ids=["unknown operator", "number for an operator", "number for a bool", "shape", "engine"],
)
def test_a_broken_rule_is_damage(change: Any, says: str, rule: str) -> None:
    assert broken("tensor_scalar", change) == (says, rule)


def test_an_engine_that_the_row_would_not_choose_is_damage() -> None:
    says = "`dma_copy` is for the vector engine, its row chooses dma"
    assert broken("dma_copy", lambda p, i: (p, replace(i, engine=5))) == (says, "engine_chosen")
