"""The published surface of NKI as facts: names, parameters and defaults, nothing else.

`published_api.json` was taken from the stubs under `nki/api/nki` of the public repository
`aws-neuron/aws-neuron-sdk` (2.32). After a new release:

    python -m tests.house.published PATH/TO/nki/api/nki
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("published_api.json")
MODULES = {"nki": ".", "nki.isa": "isa", "nki.language": "language", "nki.collectives": "collectives"}


class PublishedModule(msgspec.Struct, omit_defaults=True):
    """The public names of one module.

    `functions` and the `methods` of `classes` map a name to its parameters as written in a signature, without
    annotations. `enums` map a name to its members and their values. `names` are the plain constants.
    """

    functions: dict[str, str] = {}
    classes: dict[str, dict[str, str]] = {}
    attributes: dict[str, list[str]] = {}
    enums: dict[str, dict[str, int | str]] = {}
    names: list[str] = []


@cache
def published() -> dict[str, PublishedModule]:
    """Return the published surface by module name."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, PublishedModule])


def parameters(signature: str) -> list[tuple[str, str | None]]:
    """Return (name, default as written or None) for each parameter, `*` and `**` kept in the name.

    >>> parameters("dst, src, priority=None, *rest")
    [('dst', None), ('src', None), ('priority', 'None'), ('*rest', None)]
    """
    function = ast.parse(f"def f({signature}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    pairs = [
        *zip(plain, [*missing, *arguments.defaults], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    found = [(argument.arg, ast.unparse(default) if default else None) for argument, default in pairs]
    at_star = len(plain)
    if arguments.vararg:
        found.insert(at_star, (f"*{arguments.vararg.arg}", None))
    if arguments.kwarg:
        found.append((f"**{arguments.kwarg.arg}", None))
    return found


def _signature(function: ast.FunctionDef) -> str:
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return ast.unparse(function.args)


def _read_class(node: ast.ClassDef, module: PublishedModule) -> None:
    constants = {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in node.body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    if any(ast.unparse(base) == "Enum" for base in node.bases):
        module.enums[node.name] = constants
        return
    module.classes[node.name] = {
        item.name: _signature(item)
        for item in node.body
        if isinstance(item, ast.FunctionDef) and (not item.name.startswith("_") or item.name == "__init__")
    }
    fields = [
        i.target.id for i in node.body if isinstance(i, ast.AnnAssign) and isinstance(i.target, ast.Name)
    ]
    if fields:
        module.attributes[node.name] = fields


def read_stub(text: str) -> PublishedModule:
    """Return the public names of a stub module."""
    module = PublishedModule({}, {}, {}, {}, [])
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            module.functions[node.name] = _signature(node)
        elif isinstance(node, ast.ClassDef):
            _read_class(node, module)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            module.names.append(ast.unparse(target))
    return module


def main(stubs: Path) -> None:
    """Write `published_api.json` anew from the stubs."""
    found = {
        name: read_stub((stubs / folder / "__init__.py").read_text()) for name, folder in MODULES.items()
    }
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
