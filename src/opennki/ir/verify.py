"""The invariants of programs and artifacts, one function each.

Callers decide what a violation is: in a file it is damage, in a program of our own tracer it is our bug. What
a user can get wrong is refused earlier, with a code and a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from opennki.diag import InternalError
from opennki.ir.codec import encode_attributes
from opennki.ir.dtypes import DTYPES
from opennki.ir.program import (
    MAX_LOOP_DEPTH,
    MAX_RANK,
    Facts,
    RoleFacts,
    loop_depth,
    size_bytes,
    spread,
)
from opennki.ir.types import (
    Engine,
    Instruction,
    KernelArtifact,
    Loop,
    LoopKind,
    Operand,
    Register,
    Space,
    View,
)
from opennki.ir.verify_cores import CORE_INVARIANTS
from opennki.ir.verify_views import views_inside
from opennki.ir.violation import Invariant, Subject, Violation, subject_of

__all__ = ["Violation", "verify", "verify_program"]

MAX_VIOLATIONS = 20
"""How many violations of one invariant are reported; the first one usually causes the others."""

MAX_BUFFER_BYTES = 1 << 48
PARTITIONS = 128  # every generation (NKI architecture guides)
PSUM_BANK_BYTES = 2048  # bytes of a bank per partition, every generation (NKI architecture guides)
_INTEGER_REGISTERS = ("int32", "int64")


def verify(artifact: KernelArtifact, facts: Facts) -> list[Violation]:
    """Return what breaks the invariants of an artifact; an empty list for a sound one.

    A program whose tables are broken is not looked at further, nor are the cores then compared.
    """
    subjects = [subject_of(program, facts) for program in artifact.programs]
    found = [violation for subject in subjects for violation in _verify(subject, TABLE_INVARIANTS)]
    if found:
        return found
    found = [violation for subject in subjects for violation in _verify(subject, CODE_INVARIANTS)]
    for across in CORE_INVARIANTS:
        found += islice(across(artifact, subjects), MAX_VIOLATIONS)
    return found


def verify_program(subject: Subject) -> list[Violation]:
    """Return what breaks the invariants of one program."""
    return _verify(subject, TABLE_INVARIANTS) or _verify(subject, CODE_INVARIANTS)


def _verify(subject: Subject, invariants: tuple[Invariant, ...]) -> list[Violation]:
    return [found for invariant in invariants for found in islice(invariant(subject), MAX_VIOLATIONS)]


# Tables


def buffers_legal(subject: Subject) -> Iterator[Violation]:
    """Each buffer's id is its place, its key its own; dtype, shape and address are possible."""
    keys: set[str] = set()
    for i, buffer in enumerate(subject.program.buffers):
        problem = None
        if buffer.id != i:
            problem = f"has the id {buffer.id}"
        elif buffer.key in keys:
            problem = f"shares its key `{buffer.key}` with another"
        elif buffer.dtype not in DTYPES:
            problem = f"has the unknown dtype `{buffer.dtype}`"
        elif not _is_possible(buffer.shape, buffer.dtype):
            problem = f"has the impossible shape {list(buffer.shape)}"
        elif not -1 <= buffer.location < len(subject.program.locations):
            problem = f"is at location {buffer.location}, which does not exist"
        elif buffer.address is not None and min(buffer.address) < 0:
            problem = f"has the impossible address {buffer.address}"
        if problem:
            yield subject.violation("buffers_legal", i, f"buffer {i} (`{buffer.name}`) {problem}")
        keys.add(buffer.key)


def _is_possible(shape: tuple[int, ...], dtype: str) -> bool:
    return (
        len(shape) <= MAX_RANK and all(n > 0 for n in shape) and size_bytes(shape, dtype) <= MAX_BUFFER_BYTES
    )


def layouts_legal(subject: Subject) -> Iterator[Violation]:
    """Each layout's dtype exists and its counts are positive."""
    for i, layout in enumerate(subject.program.layouts):
        if layout.dtype not in DTYPES:
            yield subject.violation("layouts_legal", i, f"layout {i} has the unknown dtype `{layout.dtype}`")
        elif len(layout.pattern) > MAX_RANK or not all(count > 0 for _, count in layout.pattern):
            yield subject.violation("layouts_legal", i, f"layout {i} has the counts {list(layout.shape)}")


def partitions_legal(subject: Subject) -> Iterator[Violation]:
    """On chip an access has a partition axis, within the 128; elsewhere it starts at partition 0."""
    for i, layout in enumerate(subject.program.layouts):
        first, bank = layout.start_partition, layout.bank_offset_bytes
        limit = PSUM_BANK_BYTES if layout.space is Space.psum else 1
        count = layout.pattern[0][1] if layout.pattern else PARTITIONS + 1
        is_legal = 0 <= bank < limit
        if layout.space.is_on_chip:
            is_legal = is_legal and 0 <= first <= PARTITIONS - count
        else:
            is_legal = is_legal and first == 0
        if not is_legal:
            says = f"layout {i} takes {layout.shape[:1]} partitions from {first}, byte {bank} of the bank"
            yield subject.violation("partitions_legal", i, says)
    for i, buffer in enumerate(subject.program.buffers):
        partition = buffer.address[0] if buffer.address else 0
        if buffer.space.is_on_chip and (not buffer.shape or partition + buffer.shape[0] > PARTITIONS):
            says = (
                f"buffer {i} (`{buffer.name}`) of shape {list(buffer.shape)} starts at partition {partition}"
            )
            yield subject.violation("partitions_legal", i, says)


def rows_known(subject: Subject) -> Iterator[Violation]:
    """Every row that the program names, used or not, is one of the instruction table."""
    for i, row in enumerate(subject.rows):
        if row is None:
            says = f"opcode {i} (`{subject.program.opcodes[i]}`) is no known instruction"
            yield subject.violation("rows_known", i, says)


def tables_interned(subject: Subject) -> Iterator[Violation]:
    """No table holds an entry twice: equal programs have equal bytes, and the text form needs no numbers."""
    program = subject.program
    tables = {
        "opcode": program.opcodes,
        "layout": program.layouts,
        "attribute tuple": tuple(encode_attributes(values) for values in program.attrs),
    }
    for name, table in tables.items():
        seen: set[object] = set()
        for i, entry in enumerate(table):
            if entry in seen:
                yield subject.violation("tables_interned", i, f"{name} {i} repeats an earlier one")
            seen.add(entry)


def locations_legal(subject: Subject) -> Iterator[Violation]:
    """Every place has been called from a place of the table, and no chain of calls is a ring."""
    table = subject.program.locations
    ends = {-1}
    for i, location in enumerate(table):
        chain: list[int] = []
        at = i
        while at not in ends and 0 <= at < len(table) and len(chain) <= len(table):
            chain.append(at)
            at = table[at].caller
        if at not in ends:
            says = f"location {i} (`{location.file}`) was called from {location.caller}, which leads nowhere"
            yield subject.violation("locations_legal", i, says)
        ends.update(chain)


def loops_legal(subject: Subject) -> Iterator[Violation]:
    """Loops nest within the limit, have ids of their own and count; each buffer's loop exists."""
    program = subject.program
    if subject.loops and loop_depth(program) > MAX_LOOP_DEPTH:
        yield subject.violation("loops_legal", -1, f"loops nest deeper than {MAX_LOOP_DEPTH}")
    ids = {-1}
    for loop in subject.loops:
        problem = _loop_problem(loop, len(program.locations), ids)
        if problem:
            yield subject.violation("loops_legal", loop.id, f"loop {loop.id} {problem}")
        ids.add(loop.id)
    for i, buffer in enumerate(program.buffers):
        if buffer.loop not in ids:
            says = f"buffer {i} (`{buffer.name}`) is allocated in loop {buffer.loop}, which does not exist"
            yield subject.violation("loops_legal", i, says)


def _loop_problem(loop: Loop, locations: int, ids: set[int]) -> str | None:
    if loop.id in ids:
        return "shares its id with another"
    if not 0 <= loop.location < locations:
        return f"is at location {loop.location}, which does not exist"
    registers = [loop.induction, *(r for r in (loop.lower, loop.upper) if isinstance(r, Register))]
    if any(register.dtype not in _INTEGER_REGISTERS for register in registers):
        return "counts in a register that is no integer"
    if loop.kind is LoopKind.counted:
        if not all(isinstance(bound, int | Register) for bound in (loop.lower, loop.upper)):
            return "has a bound that is neither an integer nor a register"
        if loop.step == 0:
            return "counts by 0"
        numbers = [n for n in (loop.lower, loop.upper, loop.step) if type(n) is int]
        if not all(-(1 << 31) <= n < 1 << 31 for n in numbers):
            return "counts by or to what no 32-bit register holds"
    return None


def references_resolve(subject: Subject) -> Iterator[Violation]:
    """What an instruction refers to exists: row, attributes, location, buffers, layouts, earlier ones."""
    program = subject.program
    tables = (len(program.opcodes), len(program.attrs), len(program.locations))
    sizes = (len(program.buffers), len(program.layouts))
    opcodes, attrs, locations = tables
    buffers, layouts = sizes
    for position, i in enumerate(subject.code):
        resolves = 0 <= i.opcode < opcodes and 0 <= i.attrs < attrs and 0 <= i.location < locations
        if i.after and not all(0 <= earlier < position for earlier in i.after):
            resolves = False
        for operand in i.operands:
            if type(operand) is View and not (
                0 <= operand.buffer < buffers
                and 0 <= operand.layout < layouts
                and (operand.index is None or _source_resolves(operand.index.source, sizes))
            ):
                resolves = False
        if not resolves:
            yield subject.violation("references_resolve", position, _unresolved(i, position, tables, sizes))


def _source_resolves(source: View | Register, sizes: tuple[int, int]) -> bool:
    if isinstance(source, Register):
        return True
    return source.index is None and 0 <= source.buffer < sizes[0] and 0 <= source.layout < sizes[1]


def _unresolved(i: Instruction, position: int, tables: tuple[int, ...], sizes: tuple[int, int]) -> str:
    names = ("opcode", "attributes", "location")
    numbers = (i.opcode, i.attrs, i.location)
    lost = [f"{n} {k}" for n, k, size in zip(names, numbers, tables, strict=True) if not 0 <= k < size]
    lost += [f"instruction {earlier}" for earlier in i.after if not 0 <= earlier < position]
    for operand in i.operands:
        if isinstance(operand, View):
            if not 0 <= operand.buffer < sizes[0]:
                lost.append(f"buffer {operand.buffer}")
            if not 0 <= operand.layout < sizes[1]:
                lost.append(f"layout {operand.layout}")
            if operand.index is not None and not _source_resolves(operand.index.source, sizes):
                lost.append("the source of an index")
    return f"instruction {position} refers to {', '.join(lost)}, which it cannot"


TABLE_INVARIANTS: tuple[Invariant, ...] = (
    buffers_legal,
    layouts_legal,
    partitions_legal,
    rows_known,
    tables_interned,
    locations_legal,
    loops_legal,
    references_resolve,
)
"""These hold before anything else is looked at."""


# Instructions


def operands_match_row(subject: Subject) -> Iterator[Violation]:
    """Operands and attributes are as many, and of the kinds and spaces, as the row says."""
    matching: set[object] = set()
    for position, i in enumerate(subject.code):
        kinds = tuple([o.layout if type(o) is View else type(o) for o in i.operands])
        form = (i.opcode, i.attrs, kinds)
        if form in matching:
            continue
        problem = _mismatch(subject, i)
        if problem is None:
            matching.add(form)
        else:
            says = f"instruction {position} (`{subject.program.opcodes[i.opcode]}`) {problem}"
            yield subject.violation("operands_match_row", position, says)


def _mismatch(subject: Subject, i: Instruction) -> str | None:
    row = subject.rows[i.opcode]
    if row is None:
        raise InternalError(f"`{subject.program.opcodes[i.opcode]}` has no row, although all rows are known")
    values = subject.program.attrs[i.attrs]
    if len(values) != len(row.attributes):
        return f"has {len(values)} attributes, its row has {len(row.attributes)}"
    roles = spread(row, len(i.operands))
    if roles is None:
        return f"has {len(i.operands)} operands, its row has {len(row.roles)}"
    for role, operand in zip(roles, i.operands, strict=True):
        if not _fits(subject, role, operand):
            return f"cannot have {_kind(subject, operand)} as `{role.name}`"
    return None


def _fits(subject: Subject, role: RoleFacts, operand: Operand) -> bool:
    if operand is None:
        return role.optional
    if isinstance(operand, View):
        return role.view and (not role.spaces or subject.program.layouts[operand.layout].space in role.spaces)
    if isinstance(operand, Register):
        return role.register and operand.dtype in _INTEGER_REGISTERS
    return role.number


def _kind(subject: Subject, operand: Operand) -> str:
    if isinstance(operand, View):
        return f"a view in {subject.program.layouts[operand.layout].space.value}"
    if isinstance(operand, Register):
        return f"a register of {operand.dtype}"
    return "nothing" if operand is None else "a number"


def engine_concrete(subject: Subject) -> Iterator[Violation]:
    """Every instruction names the engine that runs it."""
    concrete = {engine.value for engine in Engine if engine is not Engine.unknown}
    for position, i in enumerate(subject.code):
        if i.engine not in concrete:
            says = f"instruction {position} is for engine {i.engine}, which is none"
            yield subject.violation("engine_concrete", position, says)


def has_user_line(subject: Subject) -> Iterator[Violation]:
    """Every instruction and every loop stands at a line of the user's source."""
    table = subject.program.locations
    known = {i for i, location in enumerate(table) if location.line > 0 and location.file}
    for position, i in enumerate(subject.code):
        if i.location not in known:
            yield subject.violation("has_user_line", position, f"instruction {position} has no source line")
    for loop in subject.loops:
        if loop.location not in known:
            yield subject.violation("has_user_line", loop.id, f"loop {loop.id} has no source line")


CODE_INVARIANTS: tuple[Invariant, ...] = (operands_match_row, views_inside, engine_concrete, has_user_line)
"""These look at every instruction; the tables are sound by then."""
