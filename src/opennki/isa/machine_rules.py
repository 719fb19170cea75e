"""The rules that hold for every instruction, in the order in which a call is judged.

Memory spaces first, then the target, the engine (chosen here where the call leaves it open), and the shape
that an engine's access pattern can have. Source: facts/constraints.csv, rules GEN-01 to GEN-15.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from opennki.ir.types import Engine, Space
from opennki.isa.checks import Numbers, one_of_engines, rule
from opennki.isa.columns import COLUMN_CHECKS
from opennki.isa.define import HBM, Access, Call, Check, Role
from opennki.isa.layout import TileLayout

__all__ = ["GENERAL_CHECKS"]

MAX_PARTITIONS = 128
MAX_FREE_DIMS = 4
MAX_COUNT = 65535  # uint16, trainium_inferentia2_arch.rst:718
MAX_STEP = 32767  # int16, same source
MAX_PSUM_FREE = 4096  # elements per partition, trainium_inferentia2_arch.rst:336
MAX_SBUF_FREE = 65536


def _roles(call: Call) -> Iterator[tuple[Role, str, TileLayout]]:
    by_name = {role.name: role for role in call.row.roles}
    for name, layout in call.layouts():
        yield by_name[name.partition("[")[0]], name, layout


def _on_chip(call: Call) -> Iterator[tuple[str, TileLayout]]:
    return ((name, layout) for name, layout in call.layouts() if layout.is_on_chip)


def _spelled(spaces: frozenset[Space]) -> str:
    """Memory spaces as a message lists them; both kinds of HBM are one word."""
    names = {"hbm" if spaces >= HBM and space in HBM else space.value for space in spaces}
    return " or ".join(sorted(names))


def _wrong_space(call: Call) -> Numbers:
    for role, name, layout in _roles(call):
        if layout.space not in role.spaces:
            allowed = _spelled(role.spaces)
            return {
                "role": name,
                "space": layout.space.value,
                "allowed": allowed,
                "rule": call.row.space_rule,
            }
    return None


def _too_old(call: Call) -> Numbers:
    return (
        None
        if call.generation >= call.row.since
        else {"since": call.row.since, "role": "", "rule": call.row.since_rule}
    )


def _default_engine(call: Call) -> Engine:
    """Return the first engine in the row's order that the operands' spaces allow: GpSimd has no PSUM port."""
    for engine in call.row.engines:
        if engine is Engine.gpsimd and any(layout.space is Space.psum for _, layout in call.layouts()):
            continue
        return engine
    return call.row.engines[0]


def _settle_engine(call: Call) -> Numbers:
    """Choose the engine where it is open; then GpSimd and PSUM exclude each other."""
    if call.engine is Engine.unknown:
        call.engine = call.row.choose(call) if call.row.choose is not None else _default_engine(call)
    if call.engine is Engine.gpsimd and call.row.sync is None:
        for name, layout in _on_chip(call):
            if layout.space is Space.psum:
                return {"role": name}
    return None


def _too_many_partitions(call: Call) -> Numbers:
    for name, layout in _on_chip(call):
        if layout.partitions > MAX_PARTITIONS:
            return {"role": name, "partitions": layout.partitions, "limit": MAX_PARTITIONS}
    return None


def _bad_start(call: Call, low: int, high: int, allowed: tuple[int, ...]) -> Numbers:
    if call.row.any_partition:
        return None
    for name, layout in _on_chip(call):
        if low < layout.partitions <= high and layout.start_partition not in allowed:
            return {
                "role": name,
                "start": layout.start_partition,
                "partitions": layout.partitions,
                "allowed": ", ".join(map(str, allowed)),
            }
    return None


def _free_dims(layout: TileLayout) -> list[tuple[int, int]]:
    """The free pattern as hardware sees it: neighbouring dimensions that make one run are one."""
    merged: list[tuple[int, int]] = []
    for step, count in layout.record.pattern[1:]:
        if count == 1:
            continue
        if merged and merged[-1][0] == step * count:
            merged[-1] = (step, merged[-1][1] * count)
        else:
            merged.append((step, count))
    return merged


def _too_many_dims(call: Call) -> Numbers:
    for name, layout in _on_chip(call):
        if not call.row.any_partition and len(_free_dims(layout)) > MAX_FREE_DIMS:
            return {"role": name, "dims": len(_free_dims(layout)), "limit": MAX_FREE_DIMS}
    return None


def _too_wide(call: Call) -> Numbers:
    if call.row.any_partition:
        return None
    for name, layout in _on_chip(call):
        if layout.space is Space.psum and call.engine is Engine.tensor:
            continue  # its instructions have limits of their own
        limit = MAX_PSUM_FREE if layout.space is Space.psum else MAX_SBUF_FREE
        if layout.free_elements > limit:
            return {
                "role": name,
                "free": layout.free_elements,
                "limit": limit,
                "space": layout.space.value,
            }
    return None


def _too_far(call: Call) -> Numbers:
    if call.row.any_partition:
        return None
    for name, layout in _on_chip(call):
        for step, _ in layout.record.pattern[1:]:
            if abs(step) > MAX_STEP and prod(layout.shape[1:]) > 1:
                return {"role": name, "step": step, "limit": MAX_STEP}
    return None


def _repeats(call: Call) -> Numbers:
    for role, name, layout in _roles(call):
        if role.access(call.attrs) in (Access.READ, Access.ORDER):
            continue
        if any(step == 0 and count > 1 for step, count in layout.record.pattern):
            return {"role": name, "pattern": [list(pair) for pair in layout.record.pattern]}
    return None


def _wide_integers(call: Call) -> Numbers:
    """int64 goes by DMA and through scalars only; the engines have 32-bit lanes."""
    if call.row.any_partition:
        return None
    for name, layout in call.layouts():
        if layout.dtype == "int64":
            return {"role": name}
    return None


GENERAL_CHECKS: tuple[Check, ...] = (
    rule(
        "ONKI201",
        "GEN-SPACE",
        "`{instruction}` needs `{role}` in {allowed}, it is in {space}",
        _wrong_space,
        help="move `{role}` to {allowed} first",
    ),
    rule(
        "ONKI207",
        "GEN-00",
        "`{instruction}` needs NeuronCore-v{since} or newer, which {target} is not",
        _too_old,
        help="trace for trn2 or trn3 (NEURON_PLATFORM_TARGET_OVERRIDE=trn2), or leave the instruction out",
    ),
    rule(
        "ONKI214",
        "GEN-WIDE",
        "`{instruction}` cannot compute with int64: `{role}`",
        _wide_integers,
        help="allocate `{role}` as int32: int64 is for DMA, `nisa.scalar_load` and `nisa.scalar_store`",
    ),
    one_of_engines("GEN-ENGINE"),
    rule(
        "ONKI201",
        "GEN-15",
        "`{instruction}` on the gpsimd engine cannot reach `{role}` in psum",
        _settle_engine,
        help="use the vector engine, or copy `{role}` into SBUF with `nisa.tensor_copy` first",
    ),
    rule(
        "ONKI203",
        "GEN-01",
        "`{instruction}` can touch {limit} partitions, `{role}` has {partitions}",
        _too_many_partitions,
        help="split `{role}` along its first axis into tiles of at most {limit}",
    ),
    rule(
        "ONKI203",
        "GEN-06",
        "`{instruction}` must start on partition {allowed} when it touches {partitions}, "
        "`{role}` starts on {start}",
        lambda call: _bad_start(call, 64, 128, (0,)),
        help="slice `{role}` so that it starts on partition {allowed}",
    ),
    rule(
        "ONKI203",
        "GEN-07",
        "`{instruction}` must start on partition {allowed} when it touches {partitions}, "
        "`{role}` starts on {start}",
        lambda call: _bad_start(call, 32, 64, (0, 64)),
        help="slice `{role}` so that it starts on one of the partitions {allowed}",
    ),
    rule(
        "ONKI203",
        "GEN-08",
        "`{instruction}` must start on partition {allowed} when it touches {partitions}, "
        "`{role}` starts on {start}",
        lambda call: _bad_start(call, 0, 32, (0, 32, 64, 96)),
        help="slice `{role}` so that it starts on one of the partitions {allowed}",
    ),
    rule(
        "ONKI204",
        "GEN-09",
        "`{instruction}` can walk {limit} free dimensions, `{role}` needs {dims}",
        _too_many_dims,
        help="copy `{role}` in several instructions, or into a contiguous tile first",
    ),
    rule(
        "ONKI204",
        "GEN-13",
        "`{instruction}` can touch {limit} elements per partition in {space}, `{role}` has {free}",
        _too_wide,
        help="split `{role}` along its free axes",
    ),
    rule(
        "ONKI204",
        "GEN-10",
        "`{instruction}` can step {limit} elements at most, `{role}` steps {step}",
        _too_far,
        help="copy `{role}` into a smaller tile first",
    ),
    *COLUMN_CHECKS,
    rule(
        "ONKI210",
        "GEN-WRITE",
        "`{instruction}` would write the same elements of `{role}` several times: pattern {pattern}",
        _repeats,
        help="write `{role}` once, and broadcast it where it is read",
    ),
)
