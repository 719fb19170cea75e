"""What a code object reads from outside of itself, and the bytes that stand for it in a digest."""

from __future__ import annotations

import linecache
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator
from opcode import opmap
from types import CodeType

from msgspec import Struct

from opennki.cache.encoding import atom, record

__all__ = ["CodeFacts", "Read", "facts_of"]

_NAME_SHIFT = 1 if sys.version_info >= (3, 12) else 0
"""From 3.12 on, the lowest bit of LOAD_ATTR's argument says that a method is called."""

_LOAD_GLOBAL = opmap["LOAD_GLOBAL"]


def _numbers(*names: str) -> frozenset[int]:
    """Return the operations of these names, as far as this Python has them."""
    return frozenset(opmap[name] for name in names if name in opmap)


_LOADS_GLOBAL = _numbers("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_LOADS_ATTR = _numbers("LOAD_ATTR", "LOAD_METHOD")  # the second one until 3.11
_STORES_GLOBAL = _numbers("STORE_GLOBAL", "DELETE_GLOBAL")
_STORES_ATTR = _numbers("STORE_ATTR", "DELETE_ATTR")
_STORES = _STORES_GLOBAL | _numbers("STORE_DEREF", "DELETE_DEREF")
_IMPORT = opmap["IMPORT_NAME"]
_EXTENDED_ARG = opmap["EXTENDED_ARG"]
_OF_INTEREST = re.compile(b"[" + re.escape(bytes(sorted(_LOADS_GLOBAL | _STORES))) + b"]")

_REMEMBERED = 4096


class Read(Struct, frozen=True):
    """A global that code reads: its name, and the attributes that are taken of it at once, `a.b.c`."""

    name: str
    attributes: tuple[str, ...]


class CodeFacts(Struct, frozen=True):
    """What a digest needs of a code object and of those inside of it.

    `content` stands for bytecode, constants, relative positions and source text. `names` are all names that
    occur as globals or attributes. `imports` are (level, module). `assigns` names what it stores outside of
    itself, "" for nothing.
    """

    content: bytes
    first_line: int
    reads: tuple[Read, ...]
    names: frozenset[str]
    imports: tuple[tuple[int, str], ...]
    assigns: str


_facts: OrderedDict[int, tuple[CodeType, CodeFacts]] = OrderedDict()


def facts_of(code: CodeType) -> CodeFacts:
    """Return the facts of a code object, remembered: code never changes."""
    found = _facts.get(id(code))
    if found is not None and found[0] is code:
        return found[1]
    facts = _examine(code)
    _facts[id(code)] = (code, facts)
    while len(_facts) > _REMEMBERED:
        _facts.popitem(last=False)
    return facts


def _examine(code: CodeType) -> CodeFacts:
    reads: dict[Read, None] = {}
    assigns: list[str] = []
    imports: dict[tuple[int, str], None] = {}
    names: set[str] = set()
    for part, outer in _with_inner(code, set(code.co_freevars)):
        _scan(part, outer, reads, assigns)
        names.update(part.co_names)
        if _IMPORT in part.co_code[::2]:
            imports.update(dict.fromkeys(_imports(part)))
    content = record(b"code", _content(code, code.co_firstlineno), _source(code))
    return CodeFacts(
        content=content,
        first_line=code.co_firstlineno,
        reads=tuple(reads),
        names=frozenset(names),
        imports=tuple(imports),
        assigns=assigns[0] if assigns else "",
    )


def _with_inner(code: CodeType, outer: set[str]) -> Iterator[tuple[CodeType, set[str]]]:
    """Yield the code and all code inside of it, each with those of its names that lie outside of the root."""
    yield code, outer
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant, outer.intersection(constant.co_freevars))


def _scan(code: CodeType, outer: set[str], reads: dict[Read, None], assigns: list[str]) -> None:
    """Enter the globals that the code reads, and what it assigns that is not its own."""
    operations, arguments = code.co_code[::2], code.co_code[1::2]
    for match in _OF_INTEREST.finditer(operations):
        i = match.start()
        operation, argument = operations[i], _argument(operations, arguments, i)
        if operation in _LOADS_GLOBAL:
            chain = [code.co_names[argument >> (operation == _LOAD_GLOBAL)]]
            i = _next(operations, i)
            while operations[i] in _LOADS_ATTR:
                chain.append(code.co_names[_argument(operations, arguments, i) >> _NAME_SHIFT])
                i = _next(operations, i)
            reads[Read(chain[0], tuple(chain[1:]))] = None
            if operations[i] in _STORES_ATTR:
                assigns.append(".".join((*chain, code.co_names[_argument(operations, arguments, i)])))
        elif operation in _STORES_GLOBAL:
            assigns.append(code.co_names[argument])
        elif _cell_name(code, argument) in outer:
            assigns.append(_cell_name(code, argument))


def _argument(operations: bytes, arguments: bytes, i: int) -> int:
    """Return the argument of operation `i`, whose upper bytes stand before it."""
    argument, shift = arguments[i], 8
    while i > 0 and operations[i - 1] == _EXTENDED_ARG:
        i -= 1
        argument |= arguments[i] << shift
        shift += 8
    return argument


def _next(operations: bytes, i: int) -> int:
    """Return the operation after `i`; a load is never the last one. The caches in between are zero here."""
    i += 1
    while operations[i] in (0, _EXTENDED_ARG):
        i += 1
    return i


def _cell_name(code: CodeType, number: int) -> str:
    """Return the name of a variable by its number among locals, cells and free variables."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return (*code.co_varnames, *cells, *code.co_freevars)[number]


def _imports(code: CodeType) -> Iterator[tuple[int, str]]:
    """Yield (level, module) of the import statements; both constants are pushed before the operation."""
    import dis

    constants: list[object] = [0, None]
    for instruction in dis.get_instructions(code):
        if instruction.opcode == _IMPORT:
            level = constants[-2] if isinstance(constants[-2], int) else 0
            yield level, str(instruction.argval)
        elif instruction.opname.startswith("LOAD_") and instruction.opname != "LOAD_GLOBAL":
            constants = [constants[-1], instruction.argval]


def _content(code: CodeType, first_line: int) -> bytes:
    """Return the code as bytes, without its file and with lines relative to `first_line`."""
    constants = [
        _content(constant, first_line) if isinstance(constant, CodeType) else atom(constant)
        for constant in code.co_consts
    ]
    counts = (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_firstlineno - first_line,
    )
    names = ((code.co_qualname,), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return record(
        b"bytecode",
        code.co_code,
        code.co_linetable,
        code.co_exceptiontable,
        record(b"constants", *constants),
        atom(counts),
        *["\0".join(some).encode("utf-8", "surrogatepass") for some in names],
    )


def _source(code: CodeType) -> bytes:
    """Return the lines of the source that messages and artifacts may show, nothing without a source."""
    last = max(
        [line or 0 for part, _ in _with_inner(code, set()) for _, _, line in part.co_lines()], default=0
    )
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last]
    return "".join(lines).replace("\r\n", "\n").encode("utf-8", "replace")
