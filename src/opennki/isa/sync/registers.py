"""Rows of the sequencers' scalar registers: move, load, store, and the arithmetic behind `NkiScalar`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opennki.ir.dtypes import DTypeInfo
from opennki.ir.types import Engine
from opennki.isa.attributes import Op
from opennki.isa.checks import Numbers, dtype_among, rule
from opennki.isa.cost import Cost, cycles
from opennki.isa.define import (
    HBM,
    SBUF,
    Call,
    Check,
    Load,
    instruction,
    reads,
    reads_register,
    writes,
    writes_register,
)
from opennki.isa.layout import RegisterLayout, Tile
from opennki.isa.operators import OPERATORS, Operator
from opennki.isa.samples import Sampler

Samples = Iterator[dict[str, Any]]
Rejects = Iterator[tuple[str, dict[str, Any]]]

_MEMORY = HBM | SBUF
_WORDS = ("int32", "int64")


def _one_element(rule_id: str, role: str) -> Check:
    def test(call: Call) -> Numbers:
        layout = call.tile(role)
        return None if layout.elements == 1 else {"got": list(layout.shape), "role": role}

    return rule(
        "ONKI205",
        rule_id,
        "`{instruction}` needs one element for `{role}`, got {got}",
        test,
        help="slice one element: `{role}[0:1, 0:1]`",
    )


def _narrow(rule_id: str, role: str) -> Check:
    def test(call: Call) -> Numbers:
        layout = call.tile(role)
        is_wide = layout.info.bytes > 4 or layout.info.kind == "packed"
        return {"dtype": layout.dtype, "role": role} if is_wide else None

    return rule(
        "ONKI202",
        rule_id,
        "`{instruction}` moves up to 32 bits, `{role}` is {dtype}",
        test,
        help="use an int32 tensor, or `nisa.scalar_load` and `nisa.scalar_store` for int64",
    )


def _word(rule_id: str, role: str) -> Check:
    help = "use an int32 or int64 tensor; look at an unsigned one through `.view(nl.int32)`"
    return dtype_among(rule_id, role, _WORDS, help=help)


def _no_register_value(call: Call) -> Numbers:
    value = call.operands["src"]
    if isinstance(value, float) or (isinstance(value, int) and not -(1 << 31) <= value < 1 << 31):
        return {"expected": "an int of 32 bits or a register", "got": value, "role": "src"}
    return None


def _frozen(call: Call) -> Numbers:
    register = call.operands["dst"]
    if not isinstance(register, RegisterLayout) or register.kind != "frozen":
        return None
    return {
        "expected": "a register that is no loop's induction register",
        "spelled": "the induction register of a dynamic loop",
        "got": register,
        "role": "dst",
    }


_WRITABLE = rule(
    "ONKI101",
    "REGISTER_MOVE-01",
    "`{instruction}` cannot write {spelled}",
    _frozen,
    help="use `nl.while_loop` to end a loop by a value",
)


@instruction(
    engines=(Engine.sync,),
    dst=writes_register(),
    src=reads_register(number=True, keyed=True),
    checks=(
        rule(
            "ONKI101",
            "REGISTER_MOVE-01",
            "`{instruction}` needs an int of 32 bits or a register for `src`, got {got}",
            _no_register_value,
        ),
        _WRITABLE,
    ),
    source="nki/api/nki/isa/__init__.py:3091",
)
def register_move(dst: Tile, src: Tile | int) -> None:
    """Put an int known while tracing, or another register's value, into a register.

    Errors: ONKI101. Source: nki/api/nki/isa/__init__.py:3091.
    """


@register_move.semantics
def _move(src: Any, *, out: DTypeInfo) -> int:
    return wrapped(int(src), out)


def wrapped(value: int, out: DTypeInfo) -> int:
    """Keep a value's low bits, read as two's complement of the register's width."""
    bits = 8 * out.bytes
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


@register_move.cost
def _move_cost(call: Call) -> Cost:
    return cycles(1, "assumed")


@register_move.samples
def _move_samples(t: Sampler) -> Samples:
    yield {"dst": t.register("int32"), "src": 7}
    yield {"dst": t.register("int32"), "src": t.register("int32")}


@register_move.rejects
def _move_rejects(t: Sampler) -> Rejects:
    yield "REGISTER_MOVE-01", {"dst": t.register("int32"), "src": 1.5}


@instruction(
    engines=(Engine.sync,),
    dst=writes_register(),
    src=reads(_MEMORY, load=Load.RAW, shaped=True),
    any_partition=True,
    checks=(_WRITABLE, _one_element("REGISTER_LOAD-01", "src"), _narrow("REGISTER_LOAD-01", "src")),
    source="nki/api/nki/isa/__init__.py:3119",
)
def register_load(dst: Tile, src: Tile) -> None:
    """Load one element of at most 32 bits, in HBM or SBUF, into a register.

    Integers keep their value; other types give their bits (chosen). Errors: ONKI202, ONKI205.
    Source: nki/api/nki/isa/__init__.py:3119.
    """


@register_load.semantics
def _load(src: Any, *, out: DTypeInfo) -> int:
    return wrapped(_integer(src), out)


def _integer(src: Any) -> int:
    """One stored element as an int: its value, or the bits of what is no integer."""
    element = np.asarray(src).reshape(-1)[:1]
    if element.dtype.kind not in "iub":
        element = element.view(np.dtype(f"u{element.dtype.itemsize}"))
    return int(element[0])


@register_load.cost
def _load_cost(call: Call) -> Cost:
    return cycles(64, "assumed")


@register_load.samples
def _load_samples(t: Sampler) -> Samples:
    yield {"dst": t.register("int32"), "src": t.sbuf(1, 1, dtype="int32")}
    yield {"dst": t.register("int32"), "src": t.hbm(1, dtype="uint32")}
    yield {"dst": t.register("int32"), "src": t.sbuf(1, 1, dtype="uint8")}


@register_load.rejects
def _load_rejects(t: Sampler) -> Rejects:
    yield "REGISTER_LOAD-01", {"dst": t.register("int32"), "src": t.sbuf(1, 2, dtype="int32")}
    yield "REGISTER_LOAD-01", {"dst": t.register("int32"), "src": t.sbuf(1, 1, dtype="int64")}


@instruction(
    engines=(Engine.sync,),
    dst=writes(_MEMORY, load=Load.RAW),
    src=reads_register(),
    any_partition=True,
    checks=(_one_element("REGISTER_STORE-01", "dst"), _narrow("REGISTER_STORE-01", "dst")),
    source="nki/api/nki/isa/__init__.py:3144",
)
def register_store(dst: Tile, src: Tile) -> None:
    """Store a register's value into one element of at most 32 bits, in HBM or SBUF.

    Integers keep the low bits; other types receive the bits (chosen). Errors: ONKI202, ONKI205.
    Source: nki/api/nki/isa/__init__.py:3144.
    """


@register_store.semantics
def _store(src: Any, *, out: DTypeInfo) -> Any:
    return stored(int(src), out)


def stored(value: int, out: DTypeInfo) -> Any:
    """An int as one stored element: its low bits."""
    bits = np.array(value & ((1 << (8 * out.bytes)) - 1), dtype=np.dtype(f"u{out.bytes}"))
    return bits.view(out.storage)


@register_store.cost
def _store_cost(call: Call) -> Cost:
    return cycles(64, "assumed")


@register_store.samples
def _store_samples(t: Sampler) -> Samples:
    yield {"dst": t.sbuf(1, 1, dtype="int32"), "src": t.register("int32")}
    yield {"dst": t.hbm(1, dtype="uint16"), "src": t.register("int32")}


@register_store.rejects
def _store_rejects(t: Sampler) -> Rejects:
    yield "REGISTER_STORE-01", {"dst": t.sbuf(2, 1, dtype="int32"), "src": t.register("int32")}


def _other_width(call: Call) -> Numbers:
    register, layout = call.operands["value"], call.tile("dst")
    if isinstance(register, RegisterLayout) and register.dtype != layout.dtype:
        return {"scalar": register.dtype, "dtype": layout.dtype, "role": "dst"}
    return None


@instruction(
    engines=(Engine.sync,),
    public=False,
    shown="scalar_load",
    dst=writes_register(),
    src=reads(_MEMORY, load=Load.RAW, shaped=True),
    any_partition=True,
    checks=(_one_element("SCALAR_LOAD-01", "src"), _word("SCALAR_LOAD-02", "src")),
    source="nki.isa.scalar_load, SDK 2.33",
)
def scalar_read(dst: Tile, src: Tile) -> None:
    """Load one int32 or int64 element, in HBM or SBUF, into the register behind an `NkiScalar`.

    What `nisa.scalar_load(src)` records. Errors: ONKI202, ONKI205. Source: nki.isa.scalar_load, SDK 2.33.
    """


@scalar_read.semantics
def _scalar_read(src: Any) -> int:
    return _integer(src)


@scalar_read.cost
def _scalar_read_cost(call: Call) -> Cost:
    return cycles(64, "assumed")


@scalar_read.samples
def _scalar_read_samples(t: Sampler) -> Samples:
    yield {"dst": t.register("int32"), "src": t.sbuf(1, 1, dtype="int32")}
    yield {"dst": t.register("int64"), "src": t.hbm(1, dtype="int64")}


@scalar_read.rejects
def _scalar_read_rejects(t: Sampler) -> Rejects:
    yield "SCALAR_LOAD-01", {"dst": t.register("int32"), "src": t.sbuf(2, 1, dtype="int32")}
    yield "SCALAR_LOAD-02", {"dst": t.register("int32"), "src": t.sbuf(1, 1, dtype="uint32")}


@instruction(
    engines=(Engine.sync,),
    dst=writes(_MEMORY, load=Load.RAW),
    value=reads_register(),
    any_partition=True,
    checks=(
        _one_element("SCALAR_STORE-01", "dst"),
        _word("SCALAR_STORE-02", "dst"),
        rule(
            "ONKI202",
            "SCALAR_STORE-03",
            "`{instruction}` needs equal widths: the scalar is {scalar}, `dst` is {dtype}",
            _other_width,
            help="allocate `dst` as {scalar}",
        ),
    ),
    source="nki.isa.scalar_store, SDK 2.33",
)
def scalar_store(dst: Tile, value: Tile) -> None:
    """Store an `NkiScalar` into one element of its own dtype, int32 or int64, in HBM or SBUF.

    A Python int is refused: use `memset`. Errors: ONKI101, ONKI202, ONKI205.
    Source: nki.isa.scalar_store, SDK 2.33.
    """


@scalar_store.semantics
def _scalar_store(value: Any, *, out: DTypeInfo) -> Any:
    return stored(int(value), out)


@scalar_store.cost
def _scalar_store_cost(call: Call) -> Cost:
    return cycles(64, "assumed")


@scalar_store.samples
def _scalar_store_samples(t: Sampler) -> Samples:
    yield {"dst": t.sbuf(1, 1, dtype="int32"), "value": t.register("int32")}
    yield {"dst": t.hbm(1, dtype="int64"), "value": t.register("int64")}


@scalar_store.rejects
def _scalar_store_rejects(t: Sampler) -> Rejects:
    yield "SCALAR_STORE-01", {"dst": t.sbuf(1, 2, dtype="int32"), "value": t.register("int32")}
    yield "SCALAR_STORE-02", {"dst": t.sbuf(1, 1, dtype="uint8"), "value": t.register("int32")}
    yield "SCALAR_STORE-03", {"dst": t.sbuf(1, 1, dtype="int64"), "value": t.register("int32")}


_ARITHMETIC = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}
_COMPARE = {
    "less": int.__lt__,
    "less_equal": int.__le__,
    "greater": int.__gt__,
    "greater_equal": int.__ge__,
    "equal": int.__eq__,
    "not_equal": int.__ne__,
}


def _no_scalar_operator(call: Call) -> Numbers:
    name = call.attrs["op"].name
    return None if name in _ARITHMETIC or name in _COMPARE else {"op": name, "role": "op"}


@instruction(
    engines=(Engine.sync,),
    public=False,
    dst=writes_register(),
    a=reads_register(number=True),
    b=reads_register(number=True),
    checks=(
        rule(
            "ONKI206",
            "SCALAR-01",
            "scalars have no operator `nl.{op}`",
            _no_scalar_operator,
            help="scalars add, subtract, multiply and compare",
        ),
    ),
    source="nki.isa.NkiScalar, SDK 2.33",
)
def scalar_arithmetic(dst: Tile, a: Tile | int, b: Tile | int, op: Op) -> None:
    """Write `a op b` to a register, wrapping at its width (two's complement); comparisons give 1 or 0.

    What the operators of `NkiScalar` record. Source: nki.isa.NkiScalar, SDK 2.33.
    """


@scalar_arithmetic.semantics
def _scalar_arithmetic(a: Any, b: Any, *, op: Operator, out: DTypeInfo) -> int:
    function = _ARITHMETIC.get(op.name) or _COMPARE[op.name]
    return wrapped(int(function(int(a), int(b))), out)


@scalar_arithmetic.cost
def _scalar_arithmetic_cost(call: Call) -> Cost:
    return cycles(1, "assumed")


@scalar_arithmetic.samples
def _scalar_arithmetic_samples(t: Sampler) -> Samples:
    for dtype in _WORDS:
        for op in (*_ARITHMETIC, *_COMPARE):
            yield {"dst": t.register(dtype), "a": t.register(dtype), "b": 3, "op": OPERATORS[op]}
    yield {"dst": t.register("int32"), "a": -1, "b": t.register("int32"), "op": OPERATORS["subtract"]}


@scalar_arithmetic.rejects
def _scalar_arithmetic_rejects(t: Sampler) -> Rejects:
    yield (
        "SCALAR-01",
        {
            "dst": t.register("int32"),
            "a": t.register("int32"),
            "b": 1,
            "op": OPERATORS["power"],
        },
    )
