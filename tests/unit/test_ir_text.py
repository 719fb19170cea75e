"""The text form: what it looks like, that it reads back the same, and where it says that it is malformed."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from opennki.diag import InternalError, OpenNkiError
from opennki.ir.codec import encode_artifact, encode_program
from opennki.ir.text import parse_artifact, parse_program, print_artifact, print_program
from opennki.ir.tokens import float_text, name_text, string_text
from opennki.ir.types import (
    AttrValue,
    Buffer,
    Index,
    IndexKind,
    Instruction,
    Layout,
    Loop,
    LoopKind,
    Operand,
    Origin,
    Program,
    Register,
    Space,
    Structure,
    View,
)
from tests.unit.ir_records import DIGEST, FACTS, LOCATIONS, LOOP_REGISTER, artifact, program

CODE = """\
  code {
    move dst=%tile[0:128, 0:64] src=%a[128:256, 0:64] mode=copy on=dma  ; pkg/k.py:2 @0
    for #1 $0 = 0 to 4 step 1  ; pkg/k.py:7 @2 {
      combine dst=%sum[0:128, 0:64] data=%tile[0:128, 0:64] scale=$0 op=add reverse=false on=vector after=(0) name=first  ; pkg/k.py:7 @2
      combine dst=%sum[0:128, 0:64] data=%tile[0:128, 0:64] scale=-0.0 op="power of two" reverse=true on=vector  ; pkg/k.py:7 @2
    }
    gather dst=%tile[0:128, 0:64] srcs=[%a[0:128, 0:64] + vector(%picks[0:128, 0:1], step=64, extent=256), %a[1:129, 0:64]] count=2 on=gpsimd  ; pkg/k.py:3 @1
    move dst=%out[128:256, 0:64] src=%tile[0:128, 0:64] mode=copy on=dma  ; pkg/k.py:2 @0
    meet data=%out[0:256, 0:64] cores=(0, 1) on=gpsimd  ; pkg/k.py:2 @0
  }
"""  # noqa: E501  # the text is what it is

BUFFERS = """\
core 1 {
  %a : shared_hbm float32[256, 64] = input
  %weights : shared_hbm float32[4] = constant
  %out : shared_hbm float32[256, 64] = local  ; pkg/k.py:2 @0
  %tile : sbuf float32[128, 64] = local key="k.py:3#0"  ; pkg/k.py:3 @1
  %sum : psum float32[128, 64] = local key="k.py:4#0" address=(0, 2048) loop=1  ; pkg/k.py:7 @2
  %picks : sbuf int32[128, 1] = local key="k.py:5#0"  ; pkg/k.py:7 @2
"""

PLACES = """\
  locations {
    @0 = pkg/k.py 2:10..2:40 in fold "    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)"
    @1 = pkg/k.py 3:11..3:20 in fold "    tile = nl.ndarray((128, 64), a.dtype)"
    @2 = pkg/k.py 7:8..8:9 in inner "        combine(\\"é\\"," from @1
  }
}
"""

HEAD = """\
opennki-ir 1
kernel fold
target trn2
lnc 2
location pkg/k.py 1:4..1:8 in fold "def fold(a):"
input a : float32[256, 64] = a
constant weights : float32[4] = weights sha256="DIGEST"
output out : float32[256, 64] = out @0[(64, 256), (1, 64)]
returns {"x": (#0, none)}
""".replace("DIGEST", DIGEST)

DATA = """\
data {
  0 {
    "AAAAAAAAAAAAAAAAAAAAAA=="
  }
}
"""


def code_of(one: Program) -> list[str]:
    """Return the lines of a program's code, without places."""
    text = print_program(one, FACTS).split("  code {\n")[1].split("\n  }\n")[0]
    return [line.split("  ;")[0].strip() for line in text.splitlines()]


def same(before: Program, after: Program) -> bool:
    return before.body == after.body and encode_program(before) == encode_program(after)


def test_a_program_looks_like_this_and_reads_back() -> None:
    assert print_program(program(1), FACTS) == BUFFERS + CODE + PLACES
    assert same(parse_program(BUFFERS + CODE + PLACES, FACTS), program(1))


def test_an_artifact_looks_like_this_and_reads_back() -> None:
    text = print_artifact(artifact(), FACTS)
    programs = "".join(print_program(p, FACTS) for p in artifact().programs)
    assert text == HEAD + programs + DATA
    assert encode_artifact(parse_artifact(text, FACTS)) == encode_artifact(artifact())
    assert print_artifact(artifact(), FACTS, data=False) == HEAD + programs


def test_blank_lines_and_indentation_do_not_matter() -> None:
    lines = print_artifact(artifact(), FACTS).splitlines()
    text = "\n\n".join(f"\t{line.strip()}  \r" for line in lines)
    assert parse_artifact(text, FACTS) == artifact()


# Views

PSUM_ADDRESSED = Buffer(0, "t", "t", Space.psum, (64, 512), "float32", Origin.local, (32, 2048), -1, -1)
HBM = Buffer(0, "t", "t", Space.private_hbm, (4, 6, 8), "bfloat16", Origin.local, None, -1, -1)
SBUF = Buffer(0, "t", "t", Space.sbuf, (128, 512), "float32", Origin.local, None, -1, -1)
SCALAR = Buffer(0, "t", "t", Space.private_hbm, (), "float32", Origin.local, None, -1, -1)


@pytest.mark.parametrize(
    ("buffer", "offset", "layout", "text"),
    [
        (HBM, 0, Layout(Space.private_hbm, "bfloat16", ((48, 4), (8, 6), (1, 8))), "%t[0:4, 0:6, 0:8]"),
        (HBM, 100, Layout(Space.private_hbm, "bfloat16", ((8, 4), (1, 4))), "%t[2, 0:4, 4:8]"),
        (HBM, 50, Layout(Space.private_hbm, "bfloat16", ((48, 3), (3, 2))), "%t[1:4, 0, 2:6:3]"),
        (HBM, 191, Layout(Space.private_hbm, "bfloat16", ()), "%t[3, 5, 7]"),
        (HBM, 8, Layout(Space.private_hbm, "bfloat16", ((8, 1), (1, 8))), "%t[0, 1:2, 0:8]"),
        (HBM, 0, Layout(Space.private_hbm, "bfloat16", ((96, 2), (16, 3), (1, 8))), "%t[0:3:2, 0:5:2, 0:8]"),
        (HBM, 7, Layout(Space.private_hbm, "bfloat16", ((-1, 8),)), "%t@7[(-1, 8)]"),
        (HBM, 0, Layout(Space.private_hbm, "bfloat16", ((0, 5), (1, 8))), "%t@0[(0, 5), (1, 8)]"),
        (HBM, 0, Layout(Space.private_hbm, "bfloat16", ((1, 192),)), "%t@0[(1, 192)]"),
        (HBM, 0, Layout(Space.private_hbm, "bfloat16", ((1, 8), (8, 6))), "%t@0[(1, 8), (8, 6)]"),
        (HBM, 0, Layout(Space.private_hbm, "float32", ((24, 4), (1, 4))), "%t:float32@0[(24, 4), (1, 4)]"),
        (SCALAR, 0, Layout(Space.private_hbm, "float32", ()), "%t[]"),
        (SBUF, 32 * 512 + 3, Layout(Space.sbuf, "float32", ((512, 32), (1, 9)), 32), "%t[32:64, 3:12]"),
        (SBUF, 0, Layout(Space.sbuf, "float32", ((512, 32), (1, 9)), 5), "%t[0:32, 0:9]{start=5}"),
        (SBUF, 64, Layout(Space.sbuf, "uint8", ((2048, 128), (1, 9))), "%t:uint8@64[(2048, 128), (1, 9)]"),
        (SBUF, 0, Layout(Space.psum, "float32", ((512, 1),)), "%t[0:1, 0]{space=psum}"),
        (PSUM_ADDRESSED, 8, Layout(Space.psum, "float32", ((512, 64), (1, 8)), 32, 32), "%t[0:64, 8:16]"),
        (
            PSUM_ADDRESSED,
            8,
            Layout(Space.psum, "float32", ((512, 64), (1, 8))),
            "%t[0:64, 8:16]{start=0, bank=0}",
        ),
        (
            HBM,
            0,
            Layout(Space.private_hbm, "bfloat16", ((1, 8),), 0, 0, IndexKind.columns),
            "%t[0, 0, 0:8]{index=columns}",
        ),
    ],
)
def test_views_are_written_as_slices_where_that_is_exact(
    buffer: Buffer, offset: int, layout: Layout, text: str
) -> None:
    instruction = Instruction(0, (View(0, offset, 0),), 0, 5, 0)
    one = Program(0, ("op",), (buffer,), (layout,), ((),), LOCATIONS, (instruction,))
    assert code_of(one) == [f"op ({text}) () on=vector"]
    assert same(parse_program(print_program(one, FACTS), FACTS), one)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (
            Index(IndexKind.scalar, Register(3, "int64"), 8, 6),
            "%t[0, 0, 0:8] + scalar($3:int64, step=8, extent=6)",
        ),
        (
            Index(IndexKind.scalar, View(0, 0, 0), 8, 6, 1),
            "%t[0, 0, 0:8] + scalar(%t[0, 0, 0:4], step=8, extent=6, axis=1)",
        ),
    ],
)
def test_indices_stand_behind_their_view(index: Index, text: str) -> None:
    layouts = (
        Layout(Space.private_hbm, "bfloat16", ((1, 4),)),
        Layout(Space.private_hbm, "bfloat16", ((1, 8),), 0, 0, index.kind),
    )
    body = (Instruction(0, (View(0, 0, 1, index),), 0, 5, 0),)
    one = Program(0, ("op",), (HBM,), layouts, ((),), LOCATIONS, body)
    assert code_of(one) == [f"op ({text}) () on=vector"]
    assert same(parse_program(print_program(one, FACTS), FACTS), one)


def test_buffers_of_one_name_are_told_apart_by_number() -> None:
    buffers = (HBM, replace(HBM, id=1, key="k2"), replace(HBM, id=2, name="a b", key="k3"))
    layouts = (Layout(Space.private_hbm, "bfloat16", ()),)
    body = tuple(Instruction(0, (View(i, 0, 0),), 0, 5, 0) for i in range(3))
    one = Program(0, ("op",), buffers, layouts, ((),), LOCATIONS, body)
    assert code_of(one) == [f"op ({label}[0, 0, 0]) () on=vector" for label in ("%t#0", "%t#1", '%"a b"')]
    assert same(parse_program(print_program(one, FACTS), FACTS), one)


# Operands, attributes, instructions, loops


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e-45, "1e-45"),
        (1.5e300, "1.5e+300"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        (struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0], "nan:7ff8000000000123"),
        (struct.unpack(">d", bytes.fromhex("fff8000000000000"))[0], "nan:fff8000000000000"),
        (0, "0"),
        (-(1 << 63), "-9223372036854775808"),
        ((1 << 64) - 1, "18446744073709551615"),
        (None, "none"),
        (Register(7, "int32"), "$7"),
        (Register(7, "int64"), "$7:int64"),
    ],
)
def test_operands(operand: Operand, text: str) -> None:
    one = replace(program(0), opcodes=("op",), layouts=(), attrs=((),))
    one = replace(one, body=(Instruction(0, (operand, operand), 0, 5, 0),))
    assert code_of(one) == [f"op ({text}, {text}) () on=vector"]
    assert encode_program(parse_program(print_program(one, FACTS), FACTS)) == encode_program(one)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        ("add", "add"),
        ("none", '"none"'),
        ("true", '"true"'),
        ("nan", '"nan"'),
        ("inf.x", "inf.x"),
        ("1st", '"1st"'),
        ("", '""'),
        ("a b", '"a b"'),
        ('q"\\\n\t\x00', '"q\\"\\\\\\n\\t\\u0000"'),
        ("größe", "größe"),
        ("é b", '"é b"'),
        ("\u2028\U000e0001", '"\\u2028\\udb40\\udc01"'),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, (2.0, ("x", None))), "(1, (2.0, (x, none)))"),
    ],
)
def test_attributes(value: AttrValue, text: str) -> None:
    one = replace(
        program(0), opcodes=("op",), layouts=(), attrs=((value, 0),), body=(Instruction(0, (), 0, 5, 0),)
    )
    assert code_of(one) == [f"op () ({text}, 0) on=vector"]
    assert encode_program(parse_program(print_program(one, FACTS), FACTS)) == encode_program(one)


@pytest.mark.parametrize(
    ("instruction", "attrs", "text"),
    [
        (Instruction(0, (1, 2, None), 0, 5, 0), ("add", None), "combine dst=1 data=2 op=add on=vector"),
        (Instruction(0, (None, None, 0.0), 0, 0, 0), (None, None), "combine scale=0.0 on=unknown"),
        (Instruction(0, (1,), 0, 9, 0), ("add", 1), "combine (1) (add, 1) on=9"),
        (Instruction(0, (1, 2, 3), 0, 5, 0), ("add",), "combine (1, 2, 3) (add) on=vector"),
        (
            Instruction(0, (1, 2, 3), 0, 5, 0, (0, 4)),
            (1, 2),
            "combine dst=1 data=2 scale=3 op=1 reverse=2 on=vector after=(0, 4)",
        ),
        (
            Instruction(0, (1, 2, 3), 0, 5, -1, (), "on"),
            (1, 2),
            "combine dst=1 data=2 scale=3 op=1 reverse=2 on=vector name=on",
        ),
    ],
)
def test_instructions(instruction: Instruction, attrs: tuple[AttrValue, ...], text: str) -> None:
    one = replace(program(0), opcodes=("combine",), layouts=(), attrs=(attrs,), body=(instruction,))
    assert code_of(one) == [text]
    assert same(parse_program(print_program(one, FACTS), FACTS), one)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_list_of_operands_has_any_length(count: int) -> None:
    one = replace(program(0), opcodes=("gather",), layouts=(), attrs=((count,),))
    one = replace(one, body=(Instruction(0, (9, *range(count), None), 0, 5, 0),))
    listed = ", ".join(map(str, range(count)))
    assert code_of(one) == [f"gather dst=9 srcs=[{listed}] count={count} on=vector"]
    assert same(parse_program(print_program(one, FACTS), FACTS), one)


@pytest.mark.parametrize(
    ("loop", "text"),
    [
        (Loop(1, LoopKind.counted, LOOP_REGISTER, 0, 4, 2, (), 0), "for #1 $0 = 0 to 4 step 2"),
        (Loop(2, LoopKind.conditional, LOOP_REGISTER, None, None, 1, (), 0), "while #2 $0"),
        (
            Loop(3, LoopKind.conditional, LOOP_REGISTER, None, None, 0, (), 0),
            "while #3 $0 = none to none step 0",
        ),
        (
            Loop(4, LoopKind.counted, Register(9, "int64"), LOOP_REGISTER, Register(1, "int64"), -1, (), 0),
            "for #4 $9:int64 = $0 to $1:int64 step -1",
        ),
    ],
)
def test_loops(loop: Loop, text: str) -> None:
    one = replace(program(0), opcodes=(), layouts=(), attrs=(), body=(loop, replace(loop, body=(loop,))))
    assert code_of(one) == [text, "}", text, text, "}", "}"]
    assert same(parse_program(print_program(one, FACTS), FACTS), one)


def test_tables_stand_in_the_text_where_order_is_not_of_first_use() -> None:
    before = program(0)
    unused = Layout(Space.psum, "bfloat16", ((512, 64),), 32, 8, IndexKind.scalar)
    odd = replace(
        before,
        opcodes=(*before.opcodes, "unused op"),
        layouts=(*before.layouts, unused),
        attrs=(*before.attrs, (1.0, (None,))),
    )
    text = print_program(odd, FACTS)
    assert [
        line.strip() for line in text.split("  locations {\n")[1].splitlines()[4:]
    ] == [  # behind the three places
        'opcodes (move, combine, gather, meet, "unused op")',
        "layouts {",
        "sbuf float32[(64, 128), (1, 64)] start=0 bank=0",
        "shared_hbm float32[(64, 128), (1, 64)] start=0 bank=0",
        "psum float32[(64, 128), (1, 64)] start=0 bank=0",
        "sbuf int32[(1, 128), (1, 1)] start=0 bank=0",
        "shared_hbm float32[(64, 128), (1, 64)] start=0 bank=0 index=vector",
        "shared_hbm float32[(64, 256), (1, 64)] start=0 bank=0",
        "psum bfloat16[(512, 64)] start=32 bank=8 index=scalar",
        "}",
        "attributes {",
        "(copy,)",
        "(add, false)",
        '("power of two", true)',
        "(2,)",
        "((0, 1),)",
        "(1.0, (none,))",
        "}",
        "}",
    ]
    assert same(parse_program(text, FACTS), odd)
    backward = replace(before, layouts=before.layouts[::-1])
    assert same(parse_program(print_program(backward, FACTS), FACTS), backward)


@pytest.mark.parametrize(
    ("structure", "text"),
    [
        (Structure("none"), "none"),
        (Structure("leaf", 0), "#0"),
        (Structure("tuple"), "()"),
        (Structure("tuple", items=(Structure("leaf", 0),)), "(#0,)"),
        (Structure("list", items=(Structure("leaf", 0), Structure("none"))), "[#0, none]"),
        (Structure("dict"), "{}"),
        (
            Structure("dict", keys=("a", 'b "c"'), items=(Structure("list"), Structure("leaf", 0))),
            '{"a": [], "b \\"c\\"": #0}',
        ),
    ],
)
def test_return_values(structure: Structure, text: str) -> None:
    one = replace(artifact(), signature=replace(artifact().signature, returns=structure))
    printed = print_artifact(one, FACTS)
    assert [line for line in printed.splitlines() if line.startswith("returns")] == [f"returns {text}"]
    assert parse_artifact(printed, FACTS) == one


def test_signatures_say_what_is_written_and_aliased() -> None:
    signature = artifact().signature
    one = replace(
        artifact(),
        signature=replace(
            signature,
            inputs=(replace(signature.inputs[0], is_written=True, key="a key"),),
            outputs=(replace(signature.outputs[0], alias=0, offset=64, pattern=()),),
        ),
    )
    printed = print_artifact(one, FACTS)
    assert 'input a : float32[256, 64] = "a key" written\n' in printed
    assert "output out : float32[256, 64] = out @64[] alias=0\n" in printed
    assert parse_artifact(printed, FACTS) == one


def test_a_dangling_number_is_our_mistake() -> None:
    with pytest.raises(InternalError, match="refers to what it does not hold"):
        print_program(replace(program(0), layouts=()), FACTS)


# Malformed text


def malformed(text: str) -> tuple[int, int, str]:
    """Return line, column and reason of the error that parsing `text` ends in."""
    with pytest.raises(OpenNkiError) as caught:
        parse_artifact(text, FACTS)
    found = caught.value.diagnostics[0]
    assert found.code == "ONKI505"
    line, column, reason = found.data["line"], found.data["column"], found.data["reason"]
    assert found.message == f"malformed IR text at line {line}, column {column}: {reason}"
    location = found.location
    assert location is not None
    assert (location.line, location.column) == (line, column - 1)
    assert location.text == (text.split("\n")[line - 1] if text else "")
    return line, column, reason


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "reason"),
    [
        ("opennki-ir 1", "opennki-ir 2", 1, 1, "this text is not of version 1"),
        ("opennki-ir 1", "opennki-ir", 1, 11, "expected an integer"),
        ("kernel fold", "kernel fold fold", 2, 13, "unexpected `fold`"),
        ("kernel fold", "kernel ?", 2, 8, "`?` means nothing here"),
        ("kernel fold", 'kernel "fold', 2, 8, '`"` means nothing here'),
        ("kernel fold", 'kernel "\\q"', 2, 8, "this text is not quoted as JSON quotes"),
        ("kernel fold", 'kernel "\\ud800"', 2, 8, "this text is not quoted as JSON quotes"),
        ("target trn2\n", "", 3, 1, "expected `target`"),
        ("lnc 2", "lnc 1", 4, 1, "the text has 2 cores"),
        ("lnc 2", "lnc 2 {\n}", 4, 1, "nothing can be opened here"),
        ("1:4..1:8", "1:4.1:8", 5, 21, "expected an integer"),
        ("= a\n", "= a sealed\n", 6, 32, "unexpected `sealed`"),
        ("(#0, none)", "(#0 none)", 9, 19, "expected `,`"),
        ("core 0 {", "core 0\ncore 0 {", 10, 7, "expected `{`"),
        ("core 0 {", "core {", 10, 7, "expected an integer"),
        (": shared_hbm", ": hbm", 11, 8, "expected one of `sbuf`, `psum`, `private_hbm`, `shared_hbm`"),
        ("%weights :", "%a :", 12, 3, "there are two buffers `%a`"),
        ("loop=1  ;", "loop=1.0  ;", 15, 78, "expected an integer"),
        ("pkg/k.py:2 @0", "pkg/k.py:3 @0", 13, 49, "location @0 is `pkg/k.py:2`"),
        ("pkg/k.py:2 @0", "pkg/k.py:2 @9", 13, 61, "there is no location @9"),
        ("  code", "  core", 17, 3, "`core` cannot stand here"),
        ("  code {", "  code {{", 17, 8, "unexpected `{`"),
        ("src=%a[", "source=%a[", 18, 33, "`source` is no operand or attribute that can stand here"),
        ("src=%a[", "dst=%a[", 18, 33, "`dst` is no operand or attribute that can stand here"),
        ("src=%a[", "src=%b[", 18, 37, "there is no buffer `%b`"),
        ("src=%a[0:128", "src=%a[0:257", 18, 39, "these are no slices of the shape [256, 64]"),
        (
            "    move dst",
            "    shift dst",
            18,
            5,
            "the operands of `shift`, which is no known instruction, need parentheses",
        ),
        (
            "on=dma",
            "on=pool",
            18,
            66,
            "expected one of `unknown`, `tensor`, `scalar`, `gpsimd`, `dma`, `vector`, `sync`",
        ),
        ("for #1", "for #18446744073709551616", 19, 10, "this integer has more than 64 bits"),
        ("for #1", f"for #{'9' * 5000}", 19, 10, "this integer has more than 64 bits"),
        ("AAAA==", "AAAA=", 57, 3, "these bytes are no base64"),
        ("  0 {", "  1 {", 57, 3, "expected `0 {`"),
    ],
)
def test_a_malformed_text_ends_at_its_line_and_column(
    old: str, new: str, line: int, column: int, reason: str
) -> None:
    text = print_artifact(artifact(), FACTS)
    assert old in text
    found = malformed(text.replace(old, new, 1))
    assert found == (line, column, reason)


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("", 1, 1, "expected `opennki-ir`, the text ends"),
        ("}", 1, 1, "nothing is open here"),
        ("opennki-ir 1\ncore 0 {\n", 2, 8, "this brace is never closed"),
        ("opennki-ir 1\nkernel a\ntarget b\n", 3, 9, "expected `lnc`, the text ends"),
        ("a {\n" * 101 + "}\n" * 101, 101, 1, "braces nest deeper than 100"),
    ],
)
def test_a_text_without_its_parts_is_malformed(text: str, line: int, column: int, reason: str) -> None:
    assert malformed(text) == (line, column, reason)


def test_nesting_is_bounded() -> None:
    head = HEAD.replace('{"x": (#0, none)}', "(" * 100_000)
    assert malformed(head)[2] == "the return value nests deeper than 64"
    deep = print_artifact(artifact(), FACTS).replace("mode=copy", "mode=" + "(" * 100_000, 1)
    assert malformed(deep)[2] == "attributes nest deeper than 8"
    opened = "for #1 $0 {\n" * 70 + "}\n" * 70
    loops = print_artifact(artifact(), FACTS).replace("  code {\n", f"  code {{\n{opened}", 1)
    assert malformed(loops)[2] == "loops nest deeper than 64"


def test_every_cut_of_a_text_is_malformed() -> None:
    text = print_artifact(artifact(), FACTS)
    lines = text.splitlines()
    for count in range(len(lines) - 1):
        malformed("\n".join(lines[:count]))


def test_names_stand_bare_only_where_they_read_back() -> None:
    assert [name_text(name) for name in ("a.b/c-d", "_1", "<stdin>", "false")] == [
        "a.b/c-d",
        "_1",
        '"<stdin>"',
        '"false"',
    ]
    assert string_text("\u00e9\x85 \u0430") == '"\u00e9\\u0085 \u0430"'
    assert float_text(0.1) == "0.1"
