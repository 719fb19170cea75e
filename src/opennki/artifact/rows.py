"""The rows' own checks, run again over a program that comes from a file.

A file's digests can match while a rule of the hardware is broken, and what runs programs relies on the rules.
Each combination of layouts and attributes is judged once, as while tracing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opennki.ir.codec import encode_attributes
from opennki.ir.program import instructions, spread
from opennki.ir.types import AttrValue, Engine, IndexKind, Instruction, KernelArtifact, Operand, Program, View
from opennki.ir.violation import Violation
from opennki.isa.attributes import KINDS, AttributeKind
from opennki.isa.define import Call, Check, Row
from opennki.isa.emit import check_call
from opennki.isa.layout import Columns, TileLayout
from opennki.isa.table import BY_NAME, ROW_FACTS
from opennki.targets import TARGETS, Target

__all__ = ["broken_rules"]


def broken_rules(artifact: KernelArtifact) -> Iterator[Violation]:
    """Yield what breaks the rows' checks in an artifact whose invariants hold, by the rules' ids."""
    target = TARGETS[artifact.target]
    for program in artifact.programs:
        rows = [BY_NAME[name] for name in program.opcodes]
        keyed = [any(role.keyed for role in row.roles) for row in rows]
        layouts = [TileLayout(i, record, 1) for i, record in enumerate(program.layouts)]
        judged: set[object] = set()
        for position, i in enumerate(instructions(program)):
            kinds = tuple([_kind(operand, keyed[i.opcode]) for operand in i.operands])
            form = (i.opcode, i.attrs, i.engine, kinds)
            if form in judged:
                continue
            judged.add(form)
            for rule, says in _judge(program, i, rows[i.opcode], layouts, target, artifact.lnc):
                yield Violation(rule, program.core, position, f"instruction {position}: {says}")


def _kind(operand: Operand, is_keyed: bool) -> object:
    if type(operand) is View:
        columns = operand.index is not None and operand.index.kind is IndexKind.columns
        return (operand.layout, operand.index) if columns else operand.layout
    return (type(operand), repr(operand)) if is_keyed else type(operand)


def _judge(
    program: Program, i: Instruction, row: Row, layouts: list[TileLayout], target: Target, degree: int
) -> Iterator[tuple[str, str]]:
    """Yield rule and sentence of each check that an instruction breaks."""
    values = program.attrs[i.attrs]
    for attribute, value in zip(row.attributes, values, strict=False):
        kind = KINDS[attribute.annotation]
        if not _is_canonical(kind, value):
            yield (
                "attributes_legal",
                f"`{row.name}` needs {kind.expected} for `{attribute.name}`, got {value!r}",
            )
            return
    asked = Engine(i.engine) if row.selects_engine else Engine.unknown
    operands, shown = _operands(program, i, row, layouts)
    call = Call(row, operands, row.decode(values), asked, target, degree)
    found: list[tuple[str, str]] = []

    def violated(check: Check, numbers: Mapping[str, object]) -> None:
        if not check.warning:
            fields = {"instruction": row.name, "target": target.name, **shown, **numbers}
            found.append((str(numbers.get("rule") or check.rule), check.says.format(**fields)))

    try:
        check_call(call, violated)
    except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
        found.append(("row_checks", f"`{row.name}` has operands that its checks cannot take: {problem}"))
    if not found and call.engine.value != i.engine:
        runs, chosen = Engine(i.engine).name, call.engine.name
        found.append(("engine_chosen", f"`{row.name}` is for the {runs} engine, its row chooses {chosen}"))
    yield from found


def _is_canonical(kind: AttributeKind, value: AttrValue) -> bool:
    """True if a stored attribute is what its kind stores: type and sign of numbers count."""
    try:
        return encode_attributes((kind.canonical(kind.decode(value)),)) == encode_attributes((value,))
    except (LookupError, TypeError, ValueError):
        return False


def _operands(
    program: Program, i: Instruction, row: Row, layouts: list[TileLayout]
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the operands by role as checks take them, and as messages show them."""
    operands: dict[str, object] = {}
    shown: dict[str, str] = {}
    for role, operand in zip(spread(ROW_FACTS[row.name], len(i.operands)) or (), i.operands, strict=True):
        fact: object = operand
        if isinstance(operand, View):
            layout = layouts[operand.layout]
            name = program.buffers[operand.buffer].name
            shown.setdefault(role.name, f"`{name}` {layout.dtype}{list(layout.shape)}")
            fact = _with_columns(program, operand, layout, layouts)
        if role.many:
            before = operands.get(role.name, ())
            fact = (*before, fact) if isinstance(before, tuple) else (fact,)
        operands[role.name] = fact
    return operands, shown


def _with_columns(program: Program, view: View, layout: TileLayout, layouts: list[TileLayout]) -> TileLayout:
    """Return the layout of a view; of an `.indirect()` one with the facts of the tile of its offsets."""
    index = view.index
    if index is None or index.kind is not IndexKind.columns or not isinstance(index.source, View):
        return layout
    tile = layouts[index.source.layout]
    placed = program.buffers[index.source.buffer].address is not None
    columns = Columns(tile.partitions, tile.free_elements, tile.start_partition, placed)
    return TileLayout(layout.id, layout.record, layout.pitch, columns)
