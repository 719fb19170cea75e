"""A sound artifact of two cores that uses every kind of record, and the facts of its made-up rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from msgspec.structs import replace

from opennki.diag import Location
from opennki.ir.program import RoleFacts, RowFacts
from opennki.ir.types import (
    AttrValue,
    Buffer,
    Constant,
    Engine,
    Index,
    IndexKind,
    Input,
    Instruction,
    KernelArtifact,
    Layout,
    Loop,
    LoopKind,
    Origin,
    Output,
    Program,
    Register,
    Signature,
    Space,
    Structure,
    View,
)

HBM = frozenset({Space.shared_hbm, Space.private_hbm})
ON_CHIP = frozenset({Space.sbuf, Space.psum})

FACTS = {
    "move": RowFacts((RoleFacts("dst"), RoleFacts("src")), ("mode",)),
    "combine": RowFacts(
        (
            RoleFacts("dst", spaces=ON_CHIP),
            RoleFacts("data", spaces=ON_CHIP),
            RoleFacts("scale", number=True, register=True, optional=True),
        ),
        ("op", "reverse"),
    ),
    "gather": RowFacts(
        (RoleFacts("dst"), RoleFacts("srcs", many=True), RoleFacts("mask", optional=True)), ("count",)
    ),
    "meet": RowFacts((RoleFacts("data", spaces=HBM),), ("cores",), sync="barrier"),
}

ZEROS = bytes(16)
DIGEST = hashlib.sha256(ZEROS).hexdigest()
LOOP_REGISTER = Register(0, "int32")

BUFFERS = (
    Buffer(0, "a", "a", Space.shared_hbm, (256, 64), "float32", Origin.input, None, -1, -1),
    Buffer(1, "weights", "weights", Space.shared_hbm, (4,), "float32", Origin.constant, None, -1, -1),
    Buffer(2, "out", "out", Space.shared_hbm, (256, 64), "float32", Origin.local, None, -1, 0),
    Buffer(3, "tile", "k.py:3#0", Space.sbuf, (128, 64), "float32", Origin.local, None, -1, 1),
    Buffer(4, "sum", "k.py:4#0", Space.psum, (128, 64), "float32", Origin.local, (0, 2048), 1, 2),
    Buffer(5, "picks", "k.py:5#0", Space.sbuf, (128, 1), "int32", Origin.local, None, -1, 2),
)
LAYOUTS = (
    Layout(Space.sbuf, "float32", ((64, 128), (1, 64))),
    Layout(Space.shared_hbm, "float32", ((64, 128), (1, 64))),
    Layout(Space.psum, "float32", ((64, 128), (1, 64))),
    Layout(Space.sbuf, "int32", ((1, 128), (1, 1))),
    Layout(Space.shared_hbm, "float32", ((64, 128), (1, 64)), index=IndexKind.vector),
    Layout(Space.shared_hbm, "float32", ((64, 256), (1, 64))),
)
ATTRS: tuple[tuple[AttrValue, ...], ...] = (
    ("copy",),
    ("add", False),
    ("power of two", True),
    (2,),
    ((0, 1),),
)
LOCATIONS = (
    Location(
        "pkg/k.py", 2, 2, 10, 40, "fold", "    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)"
    ),
    Location("pkg/k.py", 3, 3, 11, 20, "fold", "    tile = nl.ndarray((128, 64), a.dtype)"),
    Location("pkg/k.py", 7, 8, 8, 9, "inner", '        combine("é",', 1),
)


def program(core: int) -> Program:
    """Return the program of one core: rows `core * 128` onward, a loop, a gather, a barrier."""
    tile = View(3, 0, 0)
    picked = View(0, 0, 4, Index(IndexKind.vector, View(5, 0, 3), 64, 256))
    body = (
        Instruction(0, (tile, View(0, core * 128 * 64, 1)), 0, Engine.dma.value, 0),
        Loop(
            1,
            LoopKind.counted,
            LOOP_REGISTER,
            0,
            4,
            1,
            (
                Instruction(
                    1, (View(4, 0, 2), tile, LOOP_REGISTER), 1, Engine.vector.value, 2, (0,), "first"
                ),
                Instruction(1, (View(4, 0, 2), tile, -0.0), 2, Engine.vector.value, 2),
            ),
            2,
        ),
        Instruction(2, (tile, picked, View(0, 64, 1), None), 3, Engine.gpsimd.value, 1),
        Instruction(0, (View(2, core * 128 * 64, 1), tile), 0, Engine.dma.value, 0),
        Instruction(3, (View(2, 0, 5),), 4, Engine.gpsimd.value, 0),
    )
    return Program(core, ("move", "combine", "gather", "meet"), BUFFERS, LAYOUTS, ATTRS, LOCATIONS, body)


def artifact() -> KernelArtifact:
    """Return the artifact of both programs."""
    return KernelArtifact(
        kernel="fold",
        target="trn2",
        location=Location("pkg/k.py", 1, 1, 4, 8, "fold", "def fold(a):"),
        signature=Signature(
            inputs=(Input("a", "a", (256, 64), "float32"),),
            constants=(Constant("weights", "weights", (4,), "float32", DIGEST),),
            outputs=(Output("out", "out", (256, 64), "float32", 0, ((64, 256), (1, 64))),),
            returns=Structure(
                "dict",
                keys=("x",),
                items=(Structure("tuple", items=(Structure("leaf", 0), Structure("none"))),),
            ),
        ),
        programs=(program(0), program(1)),
        constants=(ZEROS,),
    )


# Changing one thing

Change = Callable[[Program], Program]


def with_program(change: Change, core: int = 1) -> KernelArtifact:
    """Return the sound artifact with one program changed."""
    programs = list(artifact().programs)
    programs[core] = change(programs[core])
    return replace(artifact(), programs=tuple(programs))


def table(name: str, number: int, **fields: object) -> Change:
    """Change fields of one entry of a table."""

    def change(one: Program) -> Program:
        entries = list(getattr(one, name))
        entries[number] = replace(entries[number], **fields)
        return replace(one, **{name: tuple(entries)})

    return change


def item(number: int, **fields: object) -> Change:
    """Change fields of one item of the body."""
    return table("body", number, **fields)


def inner(number: int, **fields: object) -> Change:
    """Change fields of one instruction of the loop."""

    def change(one: Program) -> Program:
        loop = one.body[1]
        assert isinstance(loop, Loop)
        body = list(loop.body)
        body[number] = replace(body[number], **fields)
        return replace(one, body=(one.body[0], replace(loop, body=tuple(body)), *one.body[2:]))

    return change
