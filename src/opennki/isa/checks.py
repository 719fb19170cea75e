"""Makers of the checks that several rows share. A check's code is by kind of rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from opennki.ir.types import Engine, IndexKind, Space
from opennki.isa.define import Call, Check
from opennki.isa.layout import TileLayout

__all__ = [
    "any_columns",
    "dtype_among",
    "equal_dtypes",
    "equal_elements",
    "equal_free",
    "equal_partitions",
    "integers_for_bitvec",
    "not_both_in_psum",
    "one_of_engines",
    "operators_available",
    "per_partition_column",
    "rule",
]

Numbers = Mapping[str, object] | None


def rule(
    code: str,
    rule_id: str,
    says: str,
    test: Callable[[Call], Numbers],
    *,
    help: str = "",
    warning: bool = False,
) -> Check:
    """A check as one object: code, id of the rule, sentence, test."""
    return Check(code, rule_id, says, test, help, warning)


def _tiles(call: Call, roles: Iterable[str]) -> list[tuple[str, TileLayout]]:
    return [(role, layout) for role in roles if (layout := call.layout(role)) is not None]


def _differing(call: Call, roles: tuple[str, ...], measure: Callable[[TileLayout], object]) -> Numbers:
    found = _tiles(call, roles)
    for role, layout in found[1:]:
        if measure(layout) != measure(found[0][1]):
            return {
                "a": found[0][0],
                "b": role,
                "first": measure(found[0][1]),
                "second": measure(layout),
                "shape_a": list(found[0][1].shape),
                "shape_b": list(layout.shape),
                "role": role,
            }
    return None


def any_columns(call: Call, *roles: str) -> bool:
    """True if one of the operands (all, when none is named) is an `.indirect()` view."""
    return any(
        layout.record.index is IndexKind.columns
        for name, layout in call.layouts()
        if not roles or name in roles
    )


def equal_partitions(rule_id: str, *roles: str) -> Check:
    """All operands span the same number of partitions."""
    return rule(
        "ONKI205",
        rule_id,
        "`{instruction}` needs equal partition counts: `{a}` {shape_a} has {first}, "
        "`{b}` {shape_b} has {second}",
        lambda call: _differing(call, roles, lambda layout: layout.partitions),
        help="slice `{b}` to {first} partitions, or `{a}` to {second}",
    )


def equal_free(rule_id: str, *roles: str) -> Check:
    """All operands have the same number of elements per partition."""
    return rule(
        "ONKI205",
        rule_id,
        "`{instruction}` needs equal elements per partition: `{a}` {shape_a} has {first}, "
        "`{b}` {shape_b} has {second}",
        lambda call: _differing(call, roles, lambda layout: layout.free_elements),
        help="slice `{b}` to {first} elements per partition, or `{a}` to {second}",
    )


def equal_elements(rule_id: str, *roles: str) -> Check:
    """All operands have the same number of elements in all."""
    return rule(
        "ONKI205",
        rule_id,
        "`{instruction}` needs equal element counts: `{a}` {shape_a} has {first}, "
        "`{b}` {shape_b} has {second}",
        lambda call: _differing(call, roles, lambda layout: layout.elements),
        help="give both the same shape: slice `{b}`, or allocate `{a}` as {shape_b}",
    )


def equal_dtypes(rule_id: str, *roles: str, unless: Callable[[Call], bool] | None = None) -> Check:
    """All operands have the same dtype."""
    return rule(
        "ONKI202",
        rule_id,
        "`{instruction}` needs equal dtypes: `{a}` is {first}, `{b}` is {second}",
        lambda call: (
            None
            if unless is not None and unless(call)
            else _differing(call, roles, lambda layout: layout.dtype)
        ),
        help="allocate `{b}` as {first}",
    )


def dtype_among(
    rule_id: str,
    role: str,
    allowed: Callable[[Call], tuple[str, ...]] | tuple[str, ...],
    *,
    only_if: Callable[[Call], bool] | None = None,
    help: str = "allocate `{role}` as {allowed}",
) -> Check:
    """An operand's dtype is one of a list."""

    def test(call: Call) -> Numbers:
        layout = call.layout(role)
        names = allowed(call) if callable(allowed) else allowed
        if layout is None or layout.dtype in names or (only_if is not None and not only_if(call)):
            return None
        return {"role": role, "dtype": layout.dtype, "allowed": " or ".join(names)}

    return rule(
        "ONKI202",
        rule_id,
        "`{instruction}` needs `{role}` in {allowed} on {target}, got {dtype}",
        test,
        help=help,
    )


def not_both_in_psum(rule_id: str, a: str, b: str) -> Check:
    """Two inputs may not both sit in PSUM."""

    def test(call: Call) -> Numbers:
        found = _tiles(call, (a, b))
        if len(found) == 2 and all(layout.space is Space.psum for _, layout in found):
            return {"a": a, "b": b, "role": b}
        return None

    return rule(
        "ONKI201",
        rule_id,
        "`{instruction}` cannot read both `{a}` and `{b}` from psum",
        test,
        help="copy one of the two into SBUF with `nisa.tensor_copy` first",
    )


def integers_for_bitvec(rule_id: str, op: str, *roles: str) -> Check:
    """A bit operator takes and gives integers."""

    def test(call: Call) -> Numbers:
        operator = call.attrs[op]
        if operator is None or not operator.is_bitvec:
            return None
        for role, layout in _tiles(call, roles):
            if not layout.info.is_integer:
                return {"role": role, "dtype": layout.dtype, "op": operator.name}
        return None

    return rule(
        "ONKI202",
        rule_id,
        "`{instruction}` with the bit operator `{op}` needs integers, `{role}` is {dtype}",
        test,
        help="use `.view(nl.uint32)` (same width) on `{role}` to work on its bits",
    )


def operators_available(rule_id: str, *attributes: str, help: str) -> Check:
    """The target has the operators that these attributes name."""

    def test(call: Call) -> Numbers:
        for name in attributes:
            operator = call.attrs[name]
            if operator is not None and operator.since > call.generation:
                return {"op": operator.name, "since": operator.since, "role": name}
        return None

    return rule(
        "ONKI207",
        rule_id,
        "`nl.{op}` in `{instruction}` needs NeuronCore-v{since} or newer, which {target} is not",
        test,
        help=help,
    )


def per_partition_column(
    rule_id: str,
    role: str,
    like: str,
    only_if: Callable[[Call], bool] | None = None,
    *,
    number: bool = True,
) -> Check:
    """An operand that is a tile has one element for each partition of another; `number`: or is a number."""

    def test(call: Call) -> Numbers:
        layout = call.layout(role)
        if layout is None or (only_if is not None and not only_if(call)):
            return None
        partitions = call.tile(like).partitions
        if layout.partitions == partitions and layout.free_elements == 1:
            return None
        return {"role": role, "wanted": [partitions, 1], "got": list(layout.shape), "like": like}

    kinds = "a number or a tile" if number else "a tile"
    return rule(
        "ONKI205",
        rule_id,
        f"`{{instruction}}` needs {kinds} {{wanted}} for `{{role}}`, got {{got}}",
        test,
        help=f"pass {kinds} {{wanted}}: one value for each partition of `{{like}}`",
    )


def one_of_engines(rule_id: str) -> Check:
    """The engine that the kernel asks for is one that has the instruction."""

    def test(call: Call) -> Numbers:
        if call.engine is Engine.unknown or call.engine in call.row.engines:
            return None
        names = ", ".join(engine.name for engine in call.row.engines)
        return {"engine": call.engine.name, "engines": names, "role": "engine", "rule": call.row.engine_rule}

    return rule(
        "ONKI206",
        rule_id,
        "`{instruction}` does not run on the {engine} engine, only on {engines}",
        test,
        help="use one of {engines}, or leave `engine=` out",
    )
