"""Artifacts, instructions and the installation, described as plain values and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from opennki.cli.costs import example_cost
from opennki.cli.output import table
from opennki.diag import Location
from opennki.ir.program import instructions, size_bytes
from opennki.ir.types import Constant, Engine, Input, KernelArtifact, Output, Program, Space
from opennki.isa.define import Row
from opennki.targets import TARGETS

__all__ = ["describe", "describe_row", "list_rows", "row_text", "text_of", "versions"]

_CHIPS = ("trn1", "trn2", "trn3")
_PACKAGES = ("numpy", "ml_dtypes", "msgspec", "typer", "rich", "matplotlib", "torch", "jax")


def describe(artifact: KernelArtifact) -> dict[str, Any]:
    """Return what `inspect` shows of an artifact, as plain values."""
    from opennki.ir.codec import semantic_digest

    signature = artifact.signature
    return {
        "kernel": artifact.kernel,
        "location": _place(artifact.location),
        "target": artifact.target,
        "lnc": artifact.lnc,
        "inputs": [{**_tensor(tensor), "written": tensor.is_written} for tensor in signature.inputs],
        "constants": [_tensor(tensor) for tensor in signature.constants],
        "outputs": [
            {**_tensor(tensor), "alias": signature.inputs[tensor.alias].name if tensor.alias >= 0 else None}
            for tensor in signature.outputs
        ],
        "cores": [_core(program, artifact.target) for program in artifact.programs],
        "digest": semantic_digest(artifact),
    }


def _place(location: Location) -> str:
    return f"{location.file}:{location.line}" if location.line > 0 else location.file


def _tensor(tensor: Input | Constant | Output) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}


def _core(program: Program, target: str) -> dict[str, Any]:
    found = instructions(program)
    chip = TARGETS[target]
    return {
        "core": program.core,
        "instructions": len(found),
        "engines": dict(sorted(Counter(Engine(one.engine).name for one in found).items())),
        "rows": dict(sorted(Counter(program.opcodes[one.opcode] for one in found).items())),
        "sbuf_bytes_per_partition": _bytes_per_partition(program, Space.sbuf),
        "sbuf_limit_bytes_per_partition": chip.sbuf_bytes_per_partition,
        "psum_bytes_per_partition": _bytes_per_partition(program, Space.psum),
        "psum_limit_bytes_per_partition": chip.psum_bytes_per_partition,
    }


def _bytes_per_partition(program: Program, space: Space) -> int:
    """Return what all tiles of a space would take if they lived at once."""
    return sum(
        size_bytes(buffer.shape[1:], buffer.dtype) for buffer in program.buffers if buffer.space is space
    )


def text_of(described: Mapping[str, Any]) -> str:
    """Return the text of what `describe` gives."""
    rows: list[tuple[str, ...]] = [("kernel", f"{described['kernel']}, {described['location']}")]
    for kind in ("inputs", "constants", "outputs"):
        rows += [(kind[:-1], _tensor_text(tensor)) for tensor in described[kind]]
    for core in described["cores"]:
        name = f"core {core['core']}"
        rows.append((name, f"{core['instructions']} instructions: {_counts(core['rows'])}"))
        rows.append(("", f"by engine: {_counts(core['engines'])}"))
        rows.append(("", f"all tiles together: {_memory(core, 'sbuf')}, {_memory(core, 'psum')}"))
    rows.append(("digest", described["digest"]))
    return table(rows)


def _tensor_text(tensor: Mapping[str, Any]) -> str:
    text = f"{tensor['name']}: {tensor['dtype']}[{','.join(map(str, tensor['shape']))}]"
    if tensor.get("written"):
        text += ", written in place"
    return f"{text}, the input {tensor['alias']}" if tensor.get("alias") else text


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _memory(core: Mapping[str, Any], space: str) -> str:
    used, limit = core[f"{space}_bytes_per_partition"], core[f"{space}_limit_bytes_per_partition"]
    return f"{space.upper()} {used} of {limit} bytes a partition"


# ------------------------------------------------------------------------------------------ instructions


def list_rows() -> list[dict[str, str]]:
    """Return name, engines, first target and first line of every public instruction."""
    from opennki.isa.table import TABLE

    return [
        {
            "name": row.name,
            "engines": ", ".join(engine.name for engine in row.engines),
            "since": f"gen{row.since}",
            "summary": row.doc.partition("\n")[0],
        }
        for row in TABLE
        if row.public
    ]


def describe_row(row: Row) -> dict[str, Any]:
    """Return what `isa NAME` shows of an instruction, as plain values."""
    return {
        "name": row.name,
        "signature": _signature(row),
        "doc": row.doc,
        "engines": [engine.name for engine in row.engines],
        "since": f"gen{row.since}",
        "operands": [
            {
                "name": role.name,
                "spaces": sorted(space.value for space in role.spaces),
                "optional": role.optional,
                "number": role.number,
                "many": role.many,
            }
            for role in row.roles
        ],
        "rules": [
            {
                "code": check.code,
                "rule": check.rule,
                "says": check.says.replace("{instruction}", row.name),
            }
            for check in row.checks
        ],
        "cost": [cost for chip in _CHIPS if (cost := example_cost(row, TARGETS[chip])) is not None],
        "source": row.source,
    }


def _signature(row: Row) -> str:
    """Return the call as a person writes it: names, and defaults as words."""
    parts = [
        name if parameter.default is parameter.empty else f"{name}={_default(parameter.default)}"
        for name, parameter in row.signature.parameters.items()
    ]
    return f"{row.name}({', '.join(parts)})"


def _default(value: object) -> str:
    return value.name if isinstance(value, Enum) else repr(value)


def row_text(described: Mapping[str, Any]) -> str:
    """Return the text of what `describe_row` gives."""
    operands = [
        (operand["name"], ", ".join(operand["spaces"]) or "any space", _kinds(operand))
        for operand in described["operands"]
    ]
    rules = [(rule["code"], rule["rule"], rule["says"]) for rule in described["rules"]]
    facts = [
        ("engines", _engines(described["engines"])),
        ("since", described["since"]),
        *(("cost" if i == 0 else "", cost) for i, cost in enumerate(described["cost"])),
        ("source", described["source"]),
    ]
    blocks = [
        described["signature"],
        described["doc"],
        table(facts),
        f"operands\n{_indented(table(operands))}",
    ]
    if rules:
        blocks.append(f"rules\n{_indented(table(rules))}")
    return "\n\n".join(blocks)


def _engines(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names)}; left open, the first that fits"


def _kinds(operand: Mapping[str, Any]) -> str:
    names = {"optional": "may be left out", "number": "or a number", "many": "a list"}
    return ", ".join(text for key, text in names.items() if operand[key])


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


# ------------------------------------------------------------------------------------------ installation


def versions() -> dict[str, str]:
    """Return the versions of OpenNKI, Python and the packages in use; nothing is imported for it."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from opennki.artifact.container import toolchain

    found = {
        "opennki": toolchain().partition(" ")[2],
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    found["nki"] = _wheel()
    return found


def _wheel() -> str:
    from opennki.build.aliasing import has_wheel

    return "a wheel is installed and wins over `opennki.install()`" if has_wheel() else "OpenNKI's"
