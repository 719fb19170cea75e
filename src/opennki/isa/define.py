"""The row machinery: one block of Python defines an instruction.

A row is a function with the documented signature and docstring, decorated with facts, followed by
`.semantics` (NumPy: the definition), `.cost`, `.lower` (optional), `.samples` and `.rejects`. From it come
the function that kernels call (`emit.py`), the executors, the checks, the cost model, the reference and the
tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping
from enum import Enum
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from msgspec import Struct

from opennki.diag import InternalError
from opennki.ir.types import AttrValue, Engine, Space
from opennki.isa.attributes import KINDS
from opennki.isa.layout import TileLayout
from opennki.isa.recorder import NkiInstruction
from opennki.targets import Target

__all__ = [
    "HBM",
    "ON_CHIP",
    "PSUM",
    "SBUF",
    "Access",
    "Barrier",
    "Call",
    "Check",
    "Collective",
    "Emitter",
    "Exchange",
    "Load",
    "Role",
    "Row",
    "State",
    "Sync",
    "Where",
    "accumulates",
    "instruction",
    "orders",
    "reads",
    "reads_register",
    "writes",
    "writes_register",
    "writes_where",
]

SBUF = frozenset({Space.sbuf})
PSUM = frozenset({Space.psum})
ON_CHIP = SBUF | PSUM
HBM = frozenset({Space.shared_hbm, Space.private_hbm})

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
Attrs = Mapping[str, Any]


class Access(Enum):
    """What an instruction does to an operand. ACCUMULATE: add where written before, else overwrite."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    WRITE_WHERE = "write_where"
    ACCUMULATE = "accumulate"
    ORDER = "order"

    __hash__ = object.__hash__  # members are singletons, and Enum's own hash is slow


class Load(Enum):
    """How an operand reaches the semantics: as float32, as stored, as unsigned bits, or as exact int64."""

    F32 = "f32"
    RAW = "raw"
    BITS = "bits"
    INTEGER = "integer"

    __hash__ = object.__hash__


class Role(Struct, frozen=True):
    """One operand of a row.

    `access` depends on the attributes. `load` is a `Load` or a function of the call. `number`: a Python
    number may stand here; `keyed`: checks look at that number. `many`: a list of tiles. `shaped`: semantics
    get the view's own shape instead of `[partitions, free]`. `lanes`: only these partitions are touched.
    `register`: a scalar register stands here. `columns`: an `.indirect()` view may stand here.
    """

    name: str
    access: Callable[[Attrs], Access]
    spaces: frozenset[Space]
    load: Load | Callable[[Call], Load] = Load.F32
    number: bool = False
    keyed: bool = False
    optional: bool = False
    many: bool = False
    shaped: bool = False
    lanes: Callable[[Attrs], slice] | None = None
    register: bool = False
    columns: bool = False


def _role(access: Callable[[Attrs], Access], spaces: frozenset[Space], options: dict[str, Any]) -> Role:
    return Role("", access, spaces, **options)


def reads(spaces: frozenset[Space], **options: Any) -> Role:
    """An operand that is read."""
    return _role(lambda attrs: Access.READ, spaces, options)


def writes(spaces: frozenset[Space], **options: Any) -> Role:
    """An operand that is overwritten whole."""
    return _role(lambda attrs: Access.WRITE, spaces, options)


def writes_where(spaces: frozenset[Space], **options: Any) -> Role:
    """An operand of which the semantics say, with `Where`, which elements are written."""
    return _role(lambda attrs: Access.WRITE_WHERE, spaces, options)


def accumulates(spaces: frozenset[Space], *, when: Callable[[Attrs], bool | None], **options: Any) -> Role:
    """An operand added to (True), overwritten (False), or either, by what was written before (None)."""
    kinds = {True: Access.UPDATE, False: Access.WRITE, None: Access.ACCUMULATE}
    return _role(lambda attrs: kinds[when(attrs)], spaces, options)


def reads_register(**options: Any) -> Role:
    """A scalar register, or with `number` a Python int, that is read."""
    return _role(lambda attrs: Access.READ, frozenset(), {"register": True, "load": Load.RAW, **options})


def writes_register(**options: Any) -> Role:
    """A scalar register that is overwritten."""
    return _role(lambda attrs: Access.WRITE, frozenset(), {"register": True, "load": Load.RAW, **options})


def orders(spaces: frozenset[Space], **options: Any) -> Role:
    """An operand whose accesses by several cores the instruction puts in order; it is not touched itself."""
    return _role(lambda attrs: Access.ORDER, spaces, options)


class Where(Struct, frozen=True):
    """A value and the mask of the elements that are written."""

    value: Any
    mask: Any


class State(Struct, frozen=True):
    """Hidden engine state, one float32 column of 128 partitions a core."""

    name: str
    access: Callable[[Attrs], Access]


class Barrier(Struct, frozen=True):
    """All cores of the group arrive before any goes on."""


class Exchange(Struct, frozen=True):
    """Two cores swap tiles."""


class Collective(Struct, frozen=True):
    """All ranks of a group take part."""


class Sync(Struct, frozen=True):
    """How an instruction meets the other cores: its kind, who takes part, and what must match.

    `peers` of an exchange: to whom this core sends and from whom it receives.
    """

    kind: Barrier | Exchange | Collective
    group: Callable[[Attrs], tuple[int, ...]]
    channel: Callable[[Attrs], Hashable]
    peers: Callable[[Attrs], tuple[int, int]] | None = None


class Call:
    """What checks, engine choice, loads and costs see of one call: layouts, attributes, engine, target.

    Values and offsets are not here: a check that needs them is an analysis (design: verdicts are remembered
    by layouts and attributes).
    """

    __slots__ = ("attrs", "degree", "engine", "operands", "row", "target")

    def __init__(
        self,
        row: Row,
        operands: Mapping[str, Any],
        attrs: Attrs,
        engine: Engine,
        target: Target,
        degree: int = 1,
    ) -> None:
        self.row = row
        self.operands = operands
        self.attrs = attrs
        self.engine = engine
        self.target = target
        self.degree = degree

    @property
    def generation(self) -> int:
        """Generation of the target: 2, 3 or 4."""
        return self.target.generation

    def layout(self, role: str) -> TileLayout | None:
        """The layout of an operand, None where it is absent or a number."""
        found = self.operands.get(role)
        return found if isinstance(found, TileLayout) else None

    def tile(self, role: str) -> TileLayout:
        """The layout of an operand that must be a tile."""
        found = self.operands[role]
        if not isinstance(found, TileLayout):
            raise InternalError(f"{self.row.name}: operand {role} is no tile")
        return found

    def layouts(self) -> Iterator[tuple[str, TileLayout]]:
        """Names and layouts of all operands that are tiles, lists of tiles spread out."""
        for name, value in self.operands.items():
            if isinstance(value, TileLayout):
                yield name, value
            elif isinstance(value, tuple):
                for i, item in enumerate(value):
                    yield f"{name}[{i}]", item

    def free(self, role: str) -> int:
        """Elements per partition of an operand."""
        return self.tile(role).free_elements

    def any_in_psum(self, *roles: str) -> bool:
        """True if one of the operands (all, when none is named) is in PSUM."""
        return any(
            layout.space is Space.psum for name, layout in self.layouts() if not roles or name in roles
        )


class Check(Struct, frozen=True):
    """One rule of the hardware: a code by kind of rule, the rule's id, one sentence, and the test.

    The test returns None when the rule holds, else the numbers that fill the sentence. A `warning` is said,
    not raised.
    """

    code: str
    rule: str
    says: str
    test: Callable[[Call], Mapping[str, object] | None]
    help: str = ""
    warning: bool = False


class Attribute(Struct, frozen=True):
    """One attribute of a row: its name and the kind that its annotation gives."""

    name: str
    annotation: str


class Row:
    """One instruction. State: the decorator makes it, the four rules fill it, `freeze` closes it."""

    def __init__(
        self,
        function: Callable[..., None],
        *,
        engines: tuple[Engine, ...],
        roles: dict[str, Role],
        checks: tuple[Check, ...],
        since: int,
        since_rule: str,
        space_rule: str,
        engine_rule: str,
        columns_rule: str,
        state: State | None,
        sync: Sync | None,
        public: bool,
        source: str,
        choose: Callable[[Call], Engine] | None,
        any_partition: bool,
        shown: str | None = None,
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.shown = shown or function.__name__
        self.doc = inspect.getdoc(function) or ""
        self.signature = inspect.signature(function)
        self.engines = engines
        self.checks = checks
        self.since = since
        self.since_rule = since_rule
        self.space_rule = space_rule
        self.engine_rule = engine_rule
        self.columns_rule = columns_rule
        self.state = state
        self.sync = sync
        self.public = public
        self.source = source
        self.choose = choose
        self.any_partition = any_partition
        self.opcode = -1
        self.rules: dict[str, Callable[..., Any]] = {}
        names = list(self.signature.parameters)
        missing = [name for name in roles if name not in names]
        if missing:
            raise InternalError(f"row {self.name}: roles {missing} are no parameters")
        self.roles: tuple[Role, ...] = tuple(
            Role(name, *[getattr(roles[name], f) for f in Role.__struct_fields__[1:]])
            for name in names
            if name in roles
        )
        self.selects_engine = "engine" in names and engines != (Engine.dma,)
        skipped = {"name", *roles, *(("engine",) if self.selects_engine else ())}
        self.attributes: tuple[Attribute, ...] = tuple(
            Attribute(name, str(function.__annotations__[name])) for name in names if name not in skipped
        )
        unknown = [a for a in self.attributes if a.annotation not in KINDS]
        if unknown:
            raise InternalError(f"row {self.name}: no attribute kind for {unknown}")
        self.has_many = any(role.many for role in self.roles)
        self.key: Callable[..., tuple[Any, ...]] = tuple
        self._decoded: dict[tuple[AttrValue, ...], dict[str, Any]] = {}

    def decode(self, values: tuple[AttrValue, ...]) -> dict[str, Any]:
        """Return the attributes as semantics take them. A `many` role's length comes last, as `count`."""
        found = self._decoded.get(values)
        if found is None:
            found = {
                attribute.name: KINDS[attribute.annotation].decode(value)
                for attribute, value in zip(self.attributes, values, strict=False)
            }
            if len(values) > len(self.attributes):
                found["count"] = values[-1]
            if values == values:  # a NaN inside would never be found again
                self._decoded[values] = found
        return found

    def missing(self) -> list[str]:
        """Return what the block lacks."""
        needed = ["cost", "samples", "rejects"] + ([] if self.sync else ["semantics"])
        return [name for name in needed if name not in self.rules] + ([] if self.source else ["source"])

    def __repr__(self) -> str:
        return f"<Row {self.name}>"


class Emitter(Protocol, Generic[P]):
    """The function that kernels call, and the places where the row's rules are hung."""

    row: Row
    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> NkiInstruction:
        """Check the call, record the instruction and return a handle of it."""

    def semantics(self, function: F, /) -> F:
        """Hang the arithmetic on the row: a pure function on arrays."""

    def cost(self, function: F, /) -> F:
        """Hang the cost on the row: a function of the call."""

    def lower(self, function: F, /) -> F:
        """Hang the lowering to micro-operations on the row."""

    def samples(self, function: F, /) -> F:
        """Hang the legal calls on the row."""

    def rejects(self, function: F, /) -> F:
        """Hang the illegal calls, each with the rule that it breaks, on the row."""


ROWS: list[Row] = []
_frozen: list[bool] = []


def instruction(
    *,
    engines: tuple[Engine, ...],
    source: str,
    checks: tuple[Check, ...] = (),
    since: int = 2,
    since_rule: str = "",
    space_rule: str = "GEN-SPACE",
    engine_rule: str = "GEN-ENGINE",
    columns_rule: str = "GEN-COLUMNS",
    state: State | None = None,
    sync: Sync | None = None,
    public: bool = True,
    choose: Callable[[Call], Engine] | None = None,
    any_partition: bool = False,
    shown: str | None = None,
    **roles: Role,
) -> Callable[[Callable[P, None]], Emitter[P]]:
    """Make a row of the decorated function.

    `since_rule`, `space_rule`, `engine_rule`, `columns_rule`: the ids of the rules on generation, memory
    spaces, engines and `.indirect()` views.
    `engines` in order of preference; `choose` picks another one where the call leaves it open.
    `shown`: what messages call it, where that is not its name.
    `any_partition`: the start-partition rules of the compute engines do not hold (DMA).
    """
    from opennki.isa.emit import make_emitter

    def decorate(function: Callable[P, None]) -> Emitter[P]:
        if _frozen:
            raise InternalError(f"the table is frozen, {function.__name__} comes too late")
        row = Row(
            function,
            engines=engines,
            roles=roles,
            checks=checks,
            since=since,
            since_rule=since_rule,
            space_rule=space_rule,
            engine_rule=engine_rule,
            columns_rule=columns_rule,
            state=state,
            sync=sync,
            public=public,
            source=source,
            choose=choose,
            any_partition=any_partition,
            shown=shown,
        )
        row.opcode = len(ROWS)
        ROWS.append(row)
        emitter = make_emitter(row)
        for rule in ("semantics", "cost", "lower", "samples", "rejects"):
            setattr(emitter, rule, _hang(row, rule))
        return cast(Emitter[P], emitter)

    return decorate


def _hang(row: Row, rule: str) -> Callable[[F], F]:
    def hang(function: F) -> F:
        if rule in row.rules:
            raise InternalError(f"row {row.name} has two rules {rule}")
        row.rules[rule] = function
        return function

    return hang


def freeze() -> tuple[Row, ...]:
    """Close the table and return it. An incomplete row or a name used twice is an error of ours."""
    problems = [f"{row.name} lacks {', '.join(row.missing())}" for row in ROWS if row.missing()]
    names = [row.name for row in ROWS]
    problems += [f"{name} is defined twice" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise InternalError("incomplete instruction table: " + "; ".join(problems))
    _frozen[:] = [True]
    return tuple(ROWS)
