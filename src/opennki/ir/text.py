"""The text form of programs and artifacts: for people to read, and exact, so that it parses back to the same.

Printing and parsing take the rows' facts, which name operands and attributes; an instruction that they do not
know is written by position. Tables stand in the text only where their order is not that of first use, but for
the source locations. Programs must be sound (`ir/verify.py`): no dangling numbers, no entry twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from msgspec import Struct

from opennki.diag import InternalError, Location
from opennki.ir.notation import Slice, default_layout, slices_of
from opennki.ir.parse import TEXT_VERSION, parse_artifact, parse_program
from opennki.ir.parse_code import OWN_FIELDS
from opennki.ir.program import Facts, RowFacts, first_use, spread
from opennki.ir.tokens import float_text, name_text, string_text
from opennki.ir.types import (
    AttrValue,
    Buffer,
    Engine,
    Index,
    IndexKind,
    Instruction,
    KernelArtifact,
    Layout,
    Loop,
    Operand,
    Program,
    Register,
    Signature,
    Structure,
    View,
)

__all__ = ["TEXT_VERSION", "parse_artifact", "parse_program", "print_artifact", "print_program"]

_ENGINES = {engine.value: engine.name for engine in Engine}
_BASE64_COLUMNS = 76


class _Subject(Struct, frozen=True):
    """What printing a line of a program needs: the program, its rows, and a label for each buffer."""

    program: Program
    rows: tuple[RowFacts | None, ...]
    labels: tuple[str, ...]


def print_artifact(artifact: KernelArtifact, facts: Facts, *, data: bool = True) -> str:
    """Return the text of an artifact. Without `data` the bytes of constants are left out: it does not parse.

    Findings are not part of the text.
    """
    lines = [
        f"opennki-ir {TEXT_VERSION}",
        f"kernel {name_text(artifact.kernel)}",
        f"target {name_text(artifact.target)}",
        f"lnc {artifact.lnc}",
        f"location {_location(artifact.location)}",
        *_signature(artifact.signature),
    ]
    for program in artifact.programs:
        lines += _program(program, facts)
    if artifact.constants and data:
        lines += _block(
            "data", chain.from_iterable(map(_constant, range(len(artifact.constants)), artifact.constants))
        )
    return "\n".join(lines) + "\n"


def print_program(program: Program, facts: Facts) -> str:
    """Return the text of the program of one core."""
    return "\n".join(_program(program, facts)) + "\n"


def _block(head: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"{head} {{"
    for line in lines:
        yield f"  {line}"
    yield "}"


# The signature


def _signature(signature: Signature) -> Iterator[str]:
    for tensor in signature.inputs:
        written = " written" if tensor.is_written else ""
        yield f"input {_tensor(tensor.name, tensor.dtype, tensor.shape, tensor.key)}{written}"
    for constant in signature.constants:
        described = _tensor(constant.name, constant.dtype, constant.shape, constant.key)
        yield f"constant {described} sha256={string_text(constant.digest)}"
    for output in signature.outputs:
        alias = "" if output.alias == -1 else f" alias={output.alias}"
        described = _tensor(output.name, output.dtype, output.shape, output.key)
        yield f"output {described} @{output.offset}{_pattern(output.pattern)}{alias}"
    yield f"returns {_structure(signature.returns)}"


def _tensor(name: str, dtype: str, shape: tuple[int, ...], key: str) -> str:
    return f"{name_text(name)} : {name_text(dtype)}{list(shape)} = {name_text(key)}"


def _structure(structure: Structure) -> str:
    if structure.kind == "none":
        return "none"
    if structure.kind == "leaf":
        return f"#{structure.index}"
    items = [_structure(item) for item in structure.items]
    if structure.kind == "list":
        return f"[{', '.join(items)}]"
    if structure.kind == "tuple":
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    pairs = [f"{string_text(key)}: {item}" for key, item in zip(structure.keys, items, strict=True)]
    return f"{{{', '.join(pairs)}}}"


def _constant(number: int, data: bytes) -> Iterator[str]:
    from base64 import b64encode

    text = b64encode(data).decode("ascii")
    return _block(
        str(number), (f'"{text[i : i + _BASE64_COLUMNS]}"' for i in range(0, len(text), _BASE64_COLUMNS))
    )


# A program


def _program(program: Program, facts: Facts) -> Iterator[str]:
    subject = _Subject(program, tuple(facts.get(name) for name in program.opcodes), _labels(program.buffers))
    lines: list[str] = []
    try:
        lines += [_buffer(subject, i) for i in range(len(program.buffers))]
        lines += _block("code", _body(subject, program.body))
        lines += _block("locations", (f"@{i} = {_location(at)}" for i, at in enumerate(program.locations)))
        opcodes, layouts, attrs = first_use(program)
        if opcodes != list(range(len(program.opcodes))):
            lines.append(f"opcodes ({', '.join(map(name_text, program.opcodes))})")
        if layouts != list(range(len(program.layouts))):
            lines += _block("layouts", map(_layout, program.layouts))
        if attrs != list(range(len(program.attrs))):
            lines += _block("attributes", map(_attribute, program.attrs))
    except IndexError:
        raise InternalError(f"the program of core {program.core} refers to what it does not hold") from None
    return _block(f"core {program.core}", lines)


def _labels(buffers: tuple[Buffer, ...]) -> tuple[str, ...]:
    names = [buffer.name for buffer in buffers]
    repeated = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    return tuple(
        f"%{name_text(b.name)}#{b.id}" if b.name in repeated or b.id != i else f"%{name_text(b.name)}"
        for i, b in enumerate(buffers)
    )


def _location(location: Location) -> str:
    lines = f"{location.line}:{location.column}..{location.end_line}:{location.end_column}"
    caller = "" if location.caller == -1 else f" from @{location.caller}"
    file, function = name_text(location.file), name_text(location.function)
    return f"{file} {lines} in {function} {string_text(location.text)}{caller}"


def _at(subject: _Subject, number: int) -> str:
    if number == -1:
        return ""
    location = subject.program.locations[number]
    return f"  ; {name_text(location.file)}:{location.line} @{number}"


def _layout(layout: Layout) -> str:
    index = "" if layout.index is IndexKind.none else f" index={layout.index.value}"
    start = f"start={layout.start_partition} bank={layout.bank_offset_bytes}"
    return f"{layout.space.value} {name_text(layout.dtype)}{_pattern(layout.pattern)} {start}{index}"


def _pattern(pattern: tuple[tuple[int, int], ...]) -> str:
    return f"[{', '.join(f'({step}, {count})' for step, count in pattern)}]"


def _attribute(value: AttrValue) -> str:
    if isinstance(value, tuple):
        items = [_attribute(item) for item in value]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    if isinstance(value, float):
        return float_text(value)
    return str(value) if isinstance(value, int) else name_text(value)


def _buffer(subject: _Subject, number: int) -> str:
    buffer = subject.program.buffers[number]
    parts = [
        f"{subject.labels[number]} : {buffer.space.value} {name_text(buffer.dtype)}{list(buffer.shape)}",
        f"= {buffer.origin.value}",
    ]
    if buffer.key != buffer.name:
        parts.append(f"key={name_text(buffer.key)}")
    if buffer.address is not None:
        parts.append(f"address={buffer.address}")
    if buffer.loop != -1:
        parts.append(f"loop={buffer.loop}")
    return " ".join(parts) + _at(subject, buffer.location)


def _body(subject: _Subject, body: tuple[Instruction | Loop, ...]) -> Iterator[str]:
    for item in body:
        if isinstance(item, Loop):
            yield from _block(_loop_head(subject, item), _body(subject, item.body))
        else:
            yield _instruction(subject, item)


def _loop_head(subject: _Subject, loop: Loop) -> str:
    head = f"{loop.kind.value} #{loop.id} {_register(loop.induction)}"
    if (loop.lower, loop.upper, loop.step) != (None, None, 1):
        lower, upper = _operand(subject, loop.lower), _operand(subject, loop.upper)
        head += f" = {lower} to {upper} step {loop.step}"
    return head + _at(subject, loop.location)


def _instruction(subject: _Subject, i: Instruction) -> str:
    values = subject.program.attrs[i.attrs]
    parts = [name_text(subject.program.opcodes[i.opcode])]
    row = subject.rows[i.opcode]
    if row is not None and _can_be_named(row, len(i.operands), len(values)):
        parts += _named(row, [_operand(subject, operand) for operand in i.operands])
        parts += [
            f"{name}={_attribute(value)}"
            for name, value in zip(row.attributes, values, strict=True)
            if value is not None
        ]
    else:
        parts.append(f"({', '.join(_operand(subject, operand) for operand in i.operands)})")
        parts.append(f"({', '.join(map(_attribute, values))})")
    parts.append(f"on={_ENGINES.get(i.engine, i.engine)}")
    if i.after:
        parts.append(f"after=({', '.join(map(str, i.after))})")
    if i.name is not None:
        parts.append(f"name={name_text(i.name)}")
    return " ".join(parts) + _at(subject, i.location)


def _can_be_named(row: RowFacts, operands: int, values: int) -> bool:
    """True if the counts are the row's, and its names cannot be taken for others."""
    if spread(row, operands) is None or values != len(row.attributes):
        return False
    names = [*(role.name for role in row.roles), *row.attributes, *OWN_FIELDS]
    return len(set(names)) == len(names)


def _named(row: RowFacts, operands: list[str]) -> Iterator[str]:
    at = 0
    for role in row.roles:
        if role.many:
            length = len(operands) - (len(row.roles) - 1)
            yield f"{role.name}=[{', '.join(operands[at : at + length])}]"
            at += length
            continue
        if operands[at] != "none":
            yield f"{role.name}={operands[at]}"
        at += 1


# Operands


def _operand(subject: _Subject, operand: Operand) -> str:
    if isinstance(operand, View):
        return _view(subject, operand)
    if isinstance(operand, Register):
        return _register(operand)
    if operand is None:
        return "none"
    return float_text(operand) if isinstance(operand, float) else str(operand)


def _register(register: Register) -> str:
    return f"${register.id}" if register.dtype == "int32" else f"${register.id}:{name_text(register.dtype)}"


def _view(subject: _Subject, view: View) -> str:
    buffer = subject.program.buffers[view.buffer]
    layout = subject.program.layouts[view.layout]
    text = subject.labels[view.buffer]
    slices = None
    if layout.dtype == buffer.dtype:
        slices = slices_of(buffer.shape, view.offset, layout.pattern)
    else:
        text += f":{name_text(layout.dtype)}"
    text += (
        f"[{', '.join(map(_slice, slices))}]"
        if slices is not None
        else f"@{view.offset}{_pattern(layout.pattern)}"
    )
    index = IndexKind.none
    if view.index is not None:
        index = view.index.kind
        text += _index(subject, view.index)
    usual = default_layout(buffer, layout.dtype, view.offset, layout.pattern, index)
    return text if layout == usual else text + _unusual(layout, usual)


def _slice(one: Slice) -> str:
    if isinstance(one, int):
        return str(one)
    start, stop, step = one
    return f"{start}:{stop}" if step == 1 else f"{start}:{stop}:{step}"


def _index(subject: _Subject, index: Index) -> str:
    axis = f", axis={index.axis}" if index.axis else ""
    source = _operand(subject, index.source)
    return f" + {index.kind.value}({source}, step={index.step}, extent={index.extent}{axis})"


def _unusual(layout: Layout, usual: Layout) -> str:
    """Return what a layout has that does not follow from its view, in braces."""
    fields: dict[str, Callable[[Layout], object]] = {
        "space": lambda one: one.space.value,
        "start": lambda one: one.start_partition,
        "bank": lambda one: one.bank_offset_bytes,
        "index": lambda one: one.index.value,
    }
    return f"{{{', '.join(f'{n}={get(layout)}' for n, get in fields.items() if get(layout) != get(usual))}}}"
