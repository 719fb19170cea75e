"""Turns a sample of a row, a dictionary of arguments, into the source text of a kernel and into the kernel.

The kernel allocates every tile, fills it with its data (PSUM by way of SBUF), makes the call on one line
of its own, and returns every operand that the call writes, whole.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np
from msgspec import Struct

from opennki import nki
from opennki.frontend.kernel import Kernel
from opennki.ir.types import Engine, Layout, Space
from opennki.isa.define import Access, Call, Exchange, Role, Row
from opennki.isa.enums import DgeMode, DmaEngine, MatmulPerfMode, OobMode, ReduceCmd
from opennki.isa.layout import REGISTER, SCALARS, TileLayout
from opennki.isa.operators import Operator
from opennki.isa.samples import RegisterSpec, TileSpec
from opennki.targets import Target
from tests.rows.conversions import PACKED
from tests.rows.edge_values import fill

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")
table: Any = import_module("opennki.isa.table")

Array = np.ndarray[Any, Any]
Arguments = Mapping[str, Any]

PSUM_COLUMNS = 4096  # elements of PSUM per partition that one access touches, GEN-13

_ENUMS = {
    Engine: "engine",
    ReduceCmd: "reduce_cmd",
    DgeMode: "dge_mode",
    OobMode: "oob_mode",
    DmaEngine: "dma_engine",
    MatmulPerfMode: "matmul_perf_mode",
}


class BuiltCall(Struct, frozen=True):
    """A kernel made of one call: its text, the call's line in it, and what the kernel takes."""

    kernel: Kernel
    source: str
    file: str
    line: int
    inputs: tuple[Array, ...]


def build(
    row: Row, arguments: Arguments, *, name: str = "", filled: bool = True, fresh: bool = False
) -> BuiltCall:
    """Return the kernel of one call of `row`.

    `filled`: tiles get data; a call that is refused needs none. `fresh`: PSUM tiles that the call writes get
    none, so that it finds them unwritten. `name` names the kernel, its file and its first line.
    """
    lines = _Lines(row, arguments, filled, fresh)
    body = list(lines.body())
    kernel = name or row.name
    header = ["@nki.jit", f"def kernel({', '.join(lines.inputs)}):"]
    source = "\n".join([*header, *(f"    {line}" for line in body)]) + "\n"
    file = f"{kernel}.py"
    return BuiltCall(
        kernel=_load(source, file),
        source=source,
        file=file,
        line=len(header) + 1 + body.index(lines.call()),
        inputs=tuple(lines.inputs.values()),
    )


def _load(source: str, file: str) -> Kernel:
    """Run the source text and return its kernel. Messages find the lines as they do in a file."""
    path = f"/kernels/{file}"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    scope: dict[str, Any] = {"nki": nki, "nisa": nisa, "nl": nl, "table": table}
    exec(compile(source, path, "exec"), scope)
    kernel: Kernel = scope["kernel"]
    return kernel


class _Lines:
    """Writes the lines of one kernel. State: the inputs found so far, by parameter name, with their data."""

    def __init__(self, row: Row, arguments: Arguments, filled: bool, fresh: bool) -> None:
        self.row = row
        self.arguments = arguments
        self.filled = filled
        self.fresh = fresh
        self.inputs: dict[str, Array] = {}
        self.attrs = _decoded(row, arguments)

    def body(self) -> Iterator[str]:
        for role, name, spec in self._operands():
            yield from (
                self._register(role, name, spec)
                if isinstance(spec, RegisterSpec)
                else self._made(role, name, spec)
            )
        yield self.call()
        outputs = []
        for role, name, spec in self._operands():
            if role.access(self.attrs) is not Access.READ:
                is_own = isinstance(spec, TileSpec) and not spec.space.is_on_chip
                outputs.append(name if is_own else f"{name}_out")
                yield from _brought_back(self.row, name, spec)
        yield f"return {', '.join(outputs)}"

    def call(self) -> str:
        """The line of the call itself."""
        given = [f"{name}={self._spelled(name, value)}" for name, value in self.arguments.items()]
        return f"{'nisa' if self.row.public else 'table'}.{self.row.name}({', '.join(given)})"

    def _operands(self) -> Iterator[tuple[Role, str, TileSpec | RegisterSpec]]:
        """Every tile and register with its role and its variable; the tiles of a list are numbered."""
        for role in self.row.roles:
            value = self.arguments.get(role.name)
            for name, spec in _variables(role.name, value):
                yield role, name, spec

    def _spelled(self, name: str, value: Any) -> str:
        """Spell an argument as a kernel author writes it."""
        if isinstance(value, list) and value and isinstance(value[0], TileSpec):
            return f"[{', '.join(_windowed(variable, spec) for variable, spec in _variables(name, value))}]"
        if isinstance(value, TileSpec):
            return _windowed(name, value)
        if name.endswith("_rank") and value in (0, 1) and is_exchange(self.row):
            return "1 - nl.program_id(0)"  # one text for both cores
        return _plain(name, value)

    def _register(self, role: Role, name: str, spec: RegisterSpec) -> Iterator[str]:
        """A line that makes a register or a scalar; what is read, and every scalar, comes from an input."""
        if _is_scalar(self.row, spec):
            self._input(f"{name}_in", TileSpec(Space.shared_hbm, (1,), spec.dtype))
            yield f"{name} = nisa.scalar_load({name}_in)"
        elif role.access(self.attrs) is Access.READ:
            self._input(f"{name}_in", TileSpec(Space.shared_hbm, (1,), "int32"))
            yield f"{name} = nisa.register_alloc({name}_in)"
        else:
            yield f"{name} = nisa.register_alloc()"

    def _made(self, role: Role, name: str, spec: TileSpec) -> Iterator[str]:
        """Lines that allocate a tile and give it its data."""
        access = role.access(self.attrs)
        if not spec.space.is_on_chip and access is Access.READ:
            self._input(name, spec)
            if _needs_view(spec):
                yield f"{name} = {name}.view({_dtype(spec)})"
            return
        yield _allocation(name, spec, spec.space)
        is_fresh = self.fresh and spec.space is Space.psum and access is not Access.READ
        if not self.filled or is_fresh:
            return
        self._input(f"{name}_in", spec)
        view = f"{name}_in.view({_dtype(spec)})" if _needs_view(spec) else f"{name}_in"
        if spec.space is Space.psum:
            yield _allocation(f"{name}_row", spec, Space.sbuf)
            yield f"nisa.dma_copy(dst={name}_row, src={view})"
            yield from _copied(spec, name, f"{name}_row")
        else:
            yield f"nisa.dma_copy(dst={name}, src={view})"

    def _input(self, name: str, spec: TileSpec) -> None:
        self.inputs[name] = _contents(spec, len(self.inputs))


def is_exchange(row: Row) -> bool:
    """True for a row in which two cores swap tiles: it needs degree 2."""
    return row.sync is not None and isinstance(row.sync.kind, Exchange)


def _variables(name: str, value: Any) -> list[tuple[str, TileSpec | RegisterSpec]]:
    if isinstance(value, list):
        return [(f"{name}_{i}", item) for i, item in enumerate(value) if isinstance(item, TileSpec)]
    return [(name, value)] if isinstance(value, TileSpec | RegisterSpec) else []


def _is_scalar(row: Row, spec: RegisterSpec) -> bool:
    """True where an `NkiScalar` stands, not a register: by the row's name, or its width."""
    return row.name.startswith("scalar_") or spec.dtype == "int64"


def _brought_back(row: Row, name: str, spec: TileSpec | RegisterSpec) -> Iterator[str]:
    """Lines that copy a written operand into an output of its own."""
    if isinstance(spec, RegisterSpec):
        store, role = ("scalar_store", "value") if _is_scalar(row, spec) else ("register_store", "src")
        yield f"{name}_out = nl.ndarray((1,), dtype=nl.{spec.dtype}, buffer=nl.shared_hbm)"
        yield f"nisa.{store}(dst={name}_out, {role}={name})"
        return
    if not spec.space.is_on_chip:
        return
    source = name
    yield _allocation(f"{name}_out", spec, Space.shared_hbm)
    if spec.space is Space.psum:
        source = f"{name}_copy"
        yield _allocation(source, spec, Space.sbuf)
        yield from _copied(spec, source, name)
    yield f"nisa.dma_copy(dst={name}_out, src={source})"


def _copied(spec: TileSpec, dst: str, src: str) -> Iterator[str]:
    """Lines that copy a tile from or to PSUM, in pieces that one access can have."""
    columns = spec.shape[-1]
    if columns <= PSUM_COLUMNS:
        yield f"nisa.tensor_copy(dst={dst}, src={src})"
        return
    for start in range(0, columns, PSUM_COLUMNS):
        piece = f"[..., {start}:{min(start + PSUM_COLUMNS, columns)}]"
        yield f"nisa.tensor_copy(dst={dst}{piece}, src={src}{piece})"


def _allocation(name: str, spec: TileSpec, space: Space) -> str:
    return f"{name} = nl.ndarray({spec.shape!r}, dtype={_dtype(spec)}, buffer=nl.{space.value})"


def _dtype(spec: TileSpec) -> str:
    return "nl.bool_" if spec.dtype == "bool" else f"nl.{spec.dtype}"


def _needs_view(spec: TileSpec) -> bool:
    """True for element types that no NumPy array has: they come in as others of their width."""
    return spec.dtype == "tfloat32" or (spec.dtype in PACKED and spec.dtype.endswith("x4"))


def _contents(spec: TileSpec, seed: int) -> Array:
    if spec.dtype in PACKED:
        kind = PACKED[spec.dtype]
        numbers = np.random.default_rng(seed).integers(0, 2 ** (8 * kind.itemsize), spec.shape)
        return np.asarray(numbers).astype(f"u{kind.itemsize}").view(kind)
    return np.asarray(fill(spec.dtype, spec.shape, seed))


def _windowed(name: str, spec: TileSpec | RegisterSpec) -> str:
    if isinstance(spec, RegisterSpec) or spec.window is None:
        return name
    parts = [f"{a}:{b}" + (f":{step}" if step != 1 else "") for a, b, step in spec.window]
    return f"{name}[{', '.join(parts)}]"


def _plain(name: str, value: Any) -> str:
    if isinstance(value, RegisterSpec):
        return name
    if isinstance(value, Operator):
        return f"nl.{value.name}"
    if isinstance(value, Enum):
        return f"nisa.{_ENUMS[type(value)]}.{value.name}"
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


# ------------------------------------------------------------------------------ calls without a kernel


def _decoded(row: Row, arguments: Arguments) -> dict[str, Any]:
    """The attributes of a call as checks and costs see them: decoded, absent ones by their default."""
    from opennki.isa.attributes import KINDS

    found = {}
    for attribute in row.attributes:
        kind = KINDS[attribute.annotation]
        default = row.signature.parameters[attribute.name].default
        found[attribute.name] = kind.decode(kind.canonical(arguments.get(attribute.name, default)))
    return found


def layout_of(spec: TileSpec) -> TileLayout:
    """Return the layout of a tile as a trace would make it."""
    window = spec.window or tuple((0, count, 1) for count in spec.shape)
    strides = [1] * len(spec.shape)
    for i in range(len(spec.shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * spec.shape[i + 1]
    pattern = tuple(
        (stride * step, -(-(end - start) // step))
        for stride, (start, end, step) in zip(strides, window, strict=True)
    )
    partition = window[0][0] if spec.space.is_on_chip else 0
    return TileLayout(0, Layout(spec.space, spec.dtype, pattern, partition), strides[0])


def _fact(row: Row, value: Any) -> Any:
    if isinstance(value, TileSpec):
        return layout_of(value)
    if isinstance(value, RegisterSpec):
        return SCALARS[value.dtype] if _is_scalar(row, value) else REGISTER
    return tuple(layout_of(item) for item in value) if isinstance(value, list) else value


def call_of(row: Row, arguments: Arguments, target: Target, degree: int = 1) -> Call:
    """Return the facts of a call, without a kernel: what checks and costs are functions of."""
    operands: dict[str, Any] = {}
    for role in row.roles:
        value = arguments.get(role.name, row.signature.parameters[role.name].default)
        operands[role.name] = _fact(row, value)
    engine = arguments.get("engine", Engine.unknown) if row.selects_engine else Engine.unknown
    return Call(row, operands, _decoded(row, arguments), engine, target, degree)


# ------------------------------------------------------------------------------------------- comparing


def flat(result: Any) -> list[Array]:
    """Return the arrays of a kernel's result."""
    return list(result) if isinstance(result, tuple) else [result]


def raw(arrays: list[Array]) -> list[tuple[tuple[int, ...], str, bytes]]:
    """Return shape, dtype and bytes of arrays, so that NaNs and signed zeros compare as what they are."""
    return [(array.shape, str(array.dtype), np.ascontiguousarray(array).tobytes()) for array in arrays]
