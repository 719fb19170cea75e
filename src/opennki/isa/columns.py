"""Views made by `.indirect()`: columns of a tile picked at run time, and the rules on them.

The offsets lie in the index tile in a snake, anew in each group of partitions: in the group that starts at
row `start`, column i of the view is the one at offset `index[start + i % G, i // G]`. G is 32 on the Tensor
engine and 16 on the others. Source: nki/api/nki/language/__init__.py:546, facts/constraints.csv GEN-19 to
GEN-23.
"""

from __future__ import annotations

from collections.abc import Iterator

from opennki.ir.types import Engine, IndexKind, Space
from opennki.isa.checks import Numbers, rule
from opennki.isa.define import Access, Call, Check, Role
from opennki.isa.layout import Columns, TileLayout

__all__ = ["COLUMN_CHECKS", "SMALL_GROUP", "TENSOR_GROUP", "group_of", "offsets_held"]

SMALL_GROUP = 16  # partitions of a group on the Vector, Scalar and GpSimd engines, language:557
TENSOR_GROUP = 32  # on the Tensor engine, same source
QUADRANT = 32  # partitions; an index starts on a multiple of it, isa:413


def group_of(engine: Engine) -> int:
    """Return how many partitions read their offsets from one part of the index."""
    return TENSOR_GROUP if engine is Engine.tensor else SMALL_GROUP


def offsets_held(partitions: int, width: int, group: int) -> int:
    """Return how many offsets an index tile `[partitions, width]` holds for every group of partitions.

    A last group that is not full lacks rows from its first column on, so it holds as many as it has rows.

    >>> offsets_held(128, 4, 16), offsets_held(64, 4, 32), offsets_held(20, 4, 16), offsets_held(1, 1, 16)
    (64, 128, 4, 1)
    """
    rest = partitions % group
    return rest or group * width


def _operands(call: Call) -> Iterator[tuple[Role, str, TileLayout]]:
    """Every operand that is such a view, with its role and name."""
    by_name = {role.name: role for role in call.row.roles}
    for name, layout in call.layouts():
        if layout.record.index is IndexKind.columns:
            yield by_name[name.partition("[")[0]], name, layout


def _indexed(call: Call) -> Iterator[tuple[Role, str, TileLayout, Columns]]:
    for role, name, layout in _operands(call):
        if layout.columns is not None:
            yield role, name, layout, layout.columns


def _is_written(role: Role, call: Call) -> bool:
    return role.access(call.attrs) not in (Access.READ, Access.ORDER)


def _too_old(call: Call) -> Numbers:
    for _, name, _ in _operands(call):
        if not call.target.has_tensor_indirection:
            return {"role": name}
    return None


def _not_taken(call: Call) -> Numbers:
    for role, name, _ in _operands(call):
        if not role.columns:
            fix = (
                f"write a tile, then scatter it with `nisa.tensor_copy(dst={name}, src=…)`"
                if _is_written(role, call)
                else f"gather it into a tile with `nisa.tensor_copy(dst=…, src={name})` first"
            )
            return {"role": name, "fix": fix, "rule": call.row.columns_rule}
    return None


def _too_few_offsets(call: Call) -> Numbers:
    group = group_of(call.engine)
    for _, name, layout, columns in _indexed(call):
        held = offsets_held(columns.partitions, columns.width, group)
        if layout.free_elements > held:
            return {
                "role": name,
                "count": layout.free_elements,
                "held": held,
                "group": group,
                "engine": call.engine.name,
                "shape": [columns.partitions, columns.width],
                "wider": -(-layout.free_elements // group),
            }
    return None


def _off_quadrant(call: Call) -> Numbers:
    for _, name, _, columns in _indexed(call):
        if columns.start % QUADRANT:
            return {"role": name, "start": columns.start, "quadrant": QUADRANT}
    return None


def _source_elsewhere(call: Call) -> Numbers:
    for role, name, layout, columns in _indexed(call):
        if columns.is_placed and not _is_written(role, call) and columns.start != layout.start_partition:
            return {"role": name, "start": columns.start, "wanted": layout.start_partition}
    return None


def _start_of_source(call: Call) -> tuple[str, int] | None:
    """The first operand that is read and may be such a view, and the partition that counts for `dst`."""
    for role in call.row.roles:
        layout = call.layout(role.name)
        if role.columns and not _is_written(role, call) and layout is not None:
            if layout.space is Space.sbuf:
                return role.name, layout.start_partition
            return None if layout.columns is None else (role.name, layout.columns.start)
    return None


def _destination_elsewhere(call: Call) -> Numbers:
    source = _start_of_source(call)
    for role, name, _, columns in _indexed(call):
        if (
            source is not None
            and columns.is_placed
            and _is_written(role, call)
            and columns.start != source[1]
        ):
            return {"role": name, "start": columns.start, "source": source[0], "wanted": source[1]}
    return None


def _scattered_into_psum(call: Call) -> Numbers:
    for role, name, layout in _operands(call):
        if call.engine is Engine.scalar and layout.space is Space.psum and _is_written(role, call):
            return {"role": name}
    return None


COLUMN_CHECKS: tuple[Check, ...] = (
    rule(
        "ONKI207",
        "GEN-19",
        "an `.indirect()` view needs NeuronCore-v4, {target} is older: `{role}` of `{instruction}`",
        _too_old,
        help="trace for trn3",
    ),
    rule(
        "ONKI210",
        "GEN-COLUMNS",
        "`{instruction}` takes no `.indirect()` view as `{role}`",
        _not_taken,
        help="{fix}",
    ),
    rule(
        "ONKI210",
        "GEN-OFFSETS",
        "`{role}` of `{instruction}` picks {count} columns, its index {shape} holds {held} offsets for every "
        "{group} partitions of the {engine} engine",
        _too_few_offsets,
        help="write `num_elem={held}`, or give an index {wider} wide, its partitions a multiple of {group}",
    ),
    rule(
        "ONKI203",
        "GEN-20",
        "the index of an `.indirect()` view must start on a multiple of {quadrant} partitions, "
        "that of `{role}` of `{instruction}` starts on {start}",
        _off_quadrant,
        help="keep the offsets in a tile of their own",
    ),
    rule(
        "ONKI203",
        "GEN-21",
        "`{role}` of `{instruction}` starts on partition {wanted}, its index on {start}: they must be equal",
        _source_elsewhere,
        help="place the index on partition {wanted}",
    ),
    rule(
        "ONKI203",
        "GEN-22",
        "the index of `{role}` of `{instruction}` starts on partition {start}, "
        "it must start where `{source}` does, on {wanted}",
        _destination_elsewhere,
        help="place the index on partition {wanted}",
    ),
    rule(
        "ONKI201",
        "GEN-23",
        "`{instruction}` on the scalar engine cannot scatter `{role}` into psum",
        _scattered_into_psum,
        help="scatter into SBUF, or use an instruction of the vector engine",
    ),
)
"""The rules on `.indirect()` views, in the order in which a call is judged."""
