"""Calls that break one rule of facts/constraints.csv each, the limit plus one where the rule has a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.rows.cases import Attributes, Call, Illegal, S, TileSpec, case, ordinary, tile

Operands = dict[str, TileSpec]
Numbers = dict[str, float | int]


def _bad(
    rules: str, instruction: str, operands: Operands, *, numbers: Numbers | None = None,
    engine: str | None = None, target: str = "trn2", name: str = "", **attributes: Any,
) -> Illegal:  # fmt: skip
    """Return the illegal call; `rules` are ids joined by a bar, the likeliest first."""
    call = Call(instruction, operands, numbers or {}, attributes, engine)
    made = case(name or rules.split("|")[0].lower(), call, target=target, how=ordinary)
    return Illegal(made, tuple(rules.split("|")))


def cases() -> Iterator[Illegal]:
    """Yield all illegal cases."""
    yield from general()
    yield from dma_copy()
    yield from tensor_copy()
    yield from memset()
    yield from tensor_tensor()
    yield from tensor_scalar()
    yield from tensor_reduce()
    yield from activation()
    yield from nc_matmul()
    yield from nc_matmul_modes()
    yield from nc_transpose()


def pair(dst: TileSpec, data: TileSpec, second: str = "data") -> Operands:
    return {"dst": dst, second: data}


def general() -> Iterator[Illegal]:
    for start, count, rule in ((32, 65, "GEN-06"), (32, 33, "GEN-07"), (16, 16, "GEN-08"), (1, 1, "GEN-08")):
        spec = tile((128, 4), view=(S(start, start + count), S(0, 4)))
        whole = tile((count, 4))
        yield _bad(
            rule, "tensor_copy", pair(whole, spec, "src"), name=f"{rule.lower()}-source-{start}-{count}"
        )
        yield _bad(rule, "tensor_copy", pair(spec, whole, "src"), name=f"{rule.lower()}-dst-{start}-{count}")
    step = tile((128, 4), view=(S(0, 128, 2), S(0, 4)))
    yield _bad("GEN-05", "tensor_copy", pair(tile((64, 4)), step, "src"))
    for name, source, count in (
        ("psum-4097", tile((1, 8192), "bfloat16", "psum", view=(S(0, 1), S(0, 4097))), 4097),
        ("sbuf-65537", tile((1, 65537), "uint8"), 65537),
    ):
        yield _bad(
            "GEN-13|GEN-10", "tensor_copy", pair(tile((1, count), source.dtype), source, "src"), name=name
        )
    far = tile((1, 131072), "uint8", view=(S(0, 1), S(0, 131072, 32768)))
    yield _bad("GEN-10", "tensor_copy", pair(tile((1, 4), "uint8"), far, "src"), name="stride-32768")
    five = (2, 2, 2, 2, 2)
    strided = tile((4, *(4,) * 5), view=(S(0, 4), *(S(0, 4, 2),) * 5))
    yield _bad("GEN-09", "tensor_copy", pair(tile((4, *five)), strided, "src"))


def dma_copy() -> Iterator[Illegal]:
    hbm = tile((4, 6), space="hbm")
    yield _bad("DMA_COPY-01", "dma_copy", pair(tile((4, 5)), hbm, "src"))
    yield _bad("DMA_COPY-02", "dma_copy", pair(tile((4, 6), space="psum"), hbm, "src"), name="psum-dst")
    yield _bad(
        "DMA_COPY-02", "dma_copy", pair(tile((4, 6)), tile((4, 6), space="psum"), "src"), name="psum-src"
    )
    good = pair(tile((4, 6)), hbm, "src")
    yield _bad("DMA_COPY-05", "dma_copy", good, priority=0, name="priority-on-trn2")
    yield _bad("DMA_COPY-05", "dma_copy", good, target="trn3", priority=4, name="priority-4")
    yield _bad("DMA_COPY-06", "dma_copy", good, target="trn1", dge_mode="hwdge")
    yield _bad("DMA_COPY-07", "dma_copy", good, engine="sync", name="engine-without-hwdge")
    yield _bad("DMA_COPY-07", "dma_copy", good, engine="vector", dge_mode="hwdge", name="hwdge-on-vector")
    for dtype in ("float8_e4m3fn_x4", "float4_e2m1fn_x4"):
        packed = pair(tile((4, 6)), tile((4, 6), dtype, "hbm"), "src")
        yield _bad("DMA_COPY-13", "dma_copy", packed, target="trn3", name=f"cast-from-{dtype}")


def tensor_copy() -> Iterator[Illegal]:
    good = pair(tile((4, 6)), tile((4, 6)), "src")
    yield _bad(
        "TENSOR_COPY-01|GEN-12", "tensor_copy", pair(tile((4, 6)), tile((5, 6)), "src"), name="partitions"
    )
    yield _bad("TENSOR_COPY-01", "tensor_copy", pair(tile((4, 6)), tile((4, 7)), "src"), name="elements")
    yield _bad(
        "TENSOR_COPY-02", "tensor_copy", pair(tile((4, 6)), tile((4, 6), space="hbm"), "src"), name="hbm"
    )
    psum = pair(tile((4, 6)), tile((4, 6), space="psum"), "src")
    yield _bad("TENSOR_COPY-02|GEN-15", "tensor_copy", psum, engine="gpsimd", name="gpsimd-psum")
    yield _bad("TENSOR_COPY-03", "tensor_copy", good, engine="tensor")
    yield _bad("TENSOR_COPY-04", "tensor_copy", good, engine="scalar", target="trn1")


def memset() -> Iterator[Illegal]:
    yield _bad("MEMSET-01", "memset", {"dst": tile((4, 6))}, numbers={"value": 1.0}, engine="scalar")
    psum = {"dst": tile((4, 6), space="psum")}
    yield _bad(
        "GEN-15|MEMSET-01", "memset", psum, numbers={"value": 1.0}, engine="gpsimd", name="gpsimd-psum"
    )
    packed = {"dst": tile((4, 6), "float8_e4m3fn_x4")}
    yield _bad("MEMSET-03", "memset", packed, numbers={"value": 1}, target="trn3")
    # migration guide: "`nisa.memset` — strict type matching"
    yield _bad(
        "MEMSET-02|MEMSET-04|MEMSET-90", "memset", {"dst": tile((4, 6), "int32")}, numbers={"value": 2.0}
    )


def _triple(**changes: TileSpec) -> Operands:
    return {"dst": tile((4, 6)), "data1": tile((4, 6)), "data2": tile((4, 6)), **changes}


def tensor_tensor() -> Iterator[Illegal]:
    row = "tensor_tensor"
    rule = "TENSOR_TENSOR-01|GEN-12"
    yield _bad(rule, row, _triple(data2=tile((5, 6))), op="add", name="partitions")
    yield _bad(rule, row, _triple(data2=tile((1, 6))), op="add", name="no-broadcast")
    yield _bad(rule, row, _triple(data2=tile((4, 7))), op="add", name="elements")
    yield _bad(rule, row, _triple(dst=tile((4, 5))), op="add", name="destination")
    both = _triple(data1=tile((4, 6), space="psum"), data2=tile((4, 6), space="psum"))
    yield _bad("TENSOR_TENSOR-02", row, both, op="add")
    yield _bad("TENSOR_TENSOR-03|GEN-24", row, _triple(), op="bitwise_and", name="bits-of-floats")
    whole = tile((4, 6), "int32")
    mixed = _triple(data1=whole, data2=whole)
    yield _bad("TENSOR_TENSOR-03|GEN-24", row, mixed, op="bitwise_or", name="bits-to-float")
    for role in ("dst", "data1", "data2"):
        psum = _triple(**{role: tile((4, 6), space="psum")})
        yield _bad("TENSOR_TENSOR-04|GEN-15", row, psum, op="power", name=f"power-{role}")
    yield _bad("TENSOR_TENSOR-05", row, _triple(), op="add", engine="scalar")
    psum = _triple(dst=tile((4, 6), space="psum"))
    yield _bad("GEN-15|TENSOR_TENSOR-05", row, psum, op="add", engine="gpsimd", name="gpsimd-psum")
    for op in ("abs", "rsqrt", "invert"):
        yield _bad("TENSOR_TENSOR-07", row, _triple(), op=op, name=f"unary-{op}")
    for target in ("trn1", "trn2"):
        yield _bad("GEN-27", row, _triple(), op="abs_max", target=target)
    stray = _triple(data1=tile((4, 6), space="hbm"))
    yield _bad("TENSOR_TENSOR-01|GEN-SPACE", row, stray, op="add", name="hbm")


def tensor_scalar() -> Iterator[Illegal]:
    row = "tensor_scalar"
    good = pair(tile((4, 6)), tile((4, 6)))
    number: Numbers = {"operand0": 1.0}
    for name, column in (
        ("wide", tile((4, 2))),
        ("one-row", tile((1, 1))),
        ("hbm", tile((4, 1), space="hbm")),
    ):
        yield _bad(
            "TENSOR_SCALAR-01|GEN-12", row, {**good, "operand0": column}, op0="add", name=f"column-{name}"
        )
    for dtype in ("bfloat16", "int32"):
        narrow = {**good, "operand0": tile((4, 1), dtype)}
        yield _bad("TENSOR_SCALAR-02", row, narrow, op0="add", name=f"column-{dtype}")
    yield _bad("TENSOR_SCALAR-03", row, good, numbers=number, op0="add", op1="add", name="no-operand1")
    both: Numbers = {"operand0": 1.0, "operand1": 2.0}
    yield _bad("TENSOR_SCALAR-03", row, good, numbers=both, op0="add", name="no-op1")
    whole = pair(tile((4, 6), "int32"), tile((4, 6), "int32"))
    counts: Numbers = {"operand0": 1, "operand1": 2}
    yield _bad("TENSOR_SCALAR-04", row, whole, numbers=counts, op0="bitwise_and", op1="add")
    one_count: Numbers = {"operand0": 1}
    yield _bad(
        "TENSOR_SCALAR-05|GEN-24", row, good, numbers=one_count, op0="bitwise_and", name="bits-of-floats"
    )
    for engine in ("gpsimd", "scalar"):
        rules = "TENSOR_SCALAR-05|TENSOR_SCALAR-06|TENSOR_SCALAR-07"
        yield _bad(
            rules, row, whole, numbers=one_count, op0="bitwise_and", engine=engine, name=f"bits-{engine}"
        )
    for op0, op1 in (("subtract", None), ("add", "multiply"), ("maximum", None)):
        attributes: Attributes = {"op0": op0, **({"op1": op1} if op1 else {})}
        numbers = both if op1 else number
        name = f"{op0}-{op1}"
        yield _bad("TENSOR_SCALAR-06", row, good, numbers=numbers, engine="scalar", name=name, **attributes)
    yield _bad("TENSOR_SCALAR-07", row, good, numbers=number, op0="add", engine="gpsimd")
    yield _bad("TENSOR_SCALAR-08", row, good, numbers=number, op0="abs")
    for op in ("square", "relu"):
        for target in ("trn1", "trn2"):
            yield _bad("TENSOR_SCALAR-09", row, good, op0=op, target=target, name=op)
    yield _bad("GEN-27", row, good, numbers=number, op0="abs_min")
    shapes = pair(tile((4, 6)), tile((4, 5)))
    yield _bad(
        "TENSOR_SCALAR-11|GEN-12|TENSOR_SCALAR-01", row, shapes, numbers=number, op0="add", name="elements"
    )


def tensor_reduce() -> Iterator[Illegal]:
    row = "tensor_reduce"
    cube = pair(tile((4, 2, 3)), tile((4, 2, 3, 5)))
    column = pair(tile((4, 1)), tile((4, 6)))
    for name, axis in (("partition", 0), ("inner", 2), ("gap", (1, 3)), ("beyond", 4), ("all", (0, 1, 2, 3))):
        yield _bad("TENSOR_REDUCE-01", row, cube, op="add", axis=axis, name=f"axis-{name}")
    yield _bad("TENSOR_REDUCE-02|GEN-24", row, column, op="bitwise_and", axis=1)
    whole = pair(tile((4, 1), "int32"), tile((4, 6), "int32"))
    yield _bad("TENSOR_REDUCE-03", row, whole, op="bitwise_and", axis=1, negate=True)
    rows = pair(tile((5, 1)), tile((4, 6)))
    yield _bad("TENSOR_REDUCE-04|GEN-12", row, rows, op="add", axis=1)
    yield _bad("TENSOR_REDUCE-05", row, pair(tile((4, 2)), tile((4, 6))), op="add", axis=1)
    for op in ("power", "equal", "left_shift"):
        yield _bad("GEN-25|TENSOR_REDUCE-02", row, column, op=op, axis=1, name=f"no-reduction-{op}")
    hbm = pair(tile((4, 1), space="hbm"), tile((4, 6)))
    yield _bad("TENSOR_REDUCE-06", row, hbm, op="add", axis=1)


def activation() -> Iterator[Illegal]:
    row = "activation"
    good = pair(tile((4, 6)), tile((4, 6)))
    yield _bad("ACTIVATION-01", row, pair(tile((4, 6)), tile((4, 6), space="hbm")), op="exp")
    for name, scale in (("bf16", tile((4, 1), "bfloat16")), ("wide", tile((4, 2)))):
        yield _bad("ACTIVATION-02|GEN-12", row, {**good, "scale": scale}, op="exp", name=f"scale-{name}")
    yield _bad("ACTIVATION-03", row, {**good, "bias": tile((4, 1), "tfloat32")}, op="exp", name="bias-tf32")
    yield _bad("ACTIVATION-03|GEN-12", row, {**good, "bias": tile((4, 2))}, op="exp", name="bias-wide")
    yield _bad("ACTIVATION-03", row, good, numbers={"bias": 1.0}, op="exp", target="trn1", name="bias-number")
    reduced = {**good, "reduce_res": tile((4, 1))}
    yield _bad("ACTIVATION-04", row, reduced, op="exp", reduce_op="maximum", reduce_cmd="reset_reduce")
    yield _bad("ACTIVATION-05|GEN-12", row, pair(tile((4, 6)), tile((4, 5))), op="exp", name="elements")
    yield _bad("ACTIVATION-05|GEN-12", row, pair(tile((4, 6)), tile((5, 6))), op="exp", name="partitions")
    wide = {**good, "reduce_res": tile((4, 2))}
    yield _bad("ACTIVATION-06", row, wide, op="exp", reduce_op="add", reduce_cmd="reset_reduce")
    yield _bad("ACTIVATION-07", row, reduced, op="exp", reduce_op="add", reduce_cmd="load_reduce")
    biased = {**good, "bias": tile((4, 1))}
    yield _bad("ACTIVATION-08", row, biased, op="reciprocal", target="trn1")
    yield _bad("RECIPROCAL-01|GEN-12", "reciprocal", pair(tile((4, 6)), tile((4, 5))), name="elements")
    yield _bad("RECIPROCAL-01|GEN-12", "reciprocal", pair(tile((5, 6)), tile((4, 6))), name="partitions")


def _product(
    changes: Operands | None = None, *, k: int = 4, m: int = 3, n: int = 5, dtype: str = "bfloat16"
) -> Operands:
    operands = {
        "dst": tile((m, n), space="psum"),
        "stationary": tile((k, m), dtype),
        "moving": tile((k, n), dtype),
    }
    return {**operands, **(changes or {})}


def nc_matmul() -> Iterator[Illegal]:
    row = "nc_matmul"
    sbuf = {"dst": tile((3, 5))}
    yield _bad("NC_MATMUL-01|GEN-14", row, _product(sbuf), name="dst-sbuf")
    for role, shape in (("stationary", (4, 3)), ("moving", (4, 5))):
        psum = _product({role: tile(shape, "bfloat16", "psum")})
        yield _bad("NC_MATMUL-01|GEN-14", row, psum, name=f"{role}-psum")
    for dtype in ("int8", "uint8", "int32"):
        yield _bad("NC_MATMUL-02", row, _product(dtype=dtype), name=f"from-{dtype}")
    yield _bad("NC_MATMUL-02|NC_MATMUL-03", row, _product(dtype="float8_e4m3fn"), name="e4m3fn-on-trn2")
    mixed = _product({"moving": tile((4, 5), "float8_e4m3")}, dtype="float8_e4m3fn")
    yield _bad("NC_MATMUL-03", row, mixed, target="trn3", name="e4m3-mixed")
    for dtype in ("float32", "tfloat32"):
        half = _product({"moving": tile((4, 5), dtype)})
        yield _bad("NC_MATMUL-04", row, half, name=f"bf16-with-{dtype}")
    for target in ("trn1", "trn2"):
        narrow = _product({"dst": tile((3, 5), "bfloat16", "psum")})
        yield _bad("NC_MATMUL-05", row, narrow, target=target)
    yield _bad(
        "NC_MATMUL-05", row, _product({"dst": tile((3, 5), "float16", "psum")}), target="trn3", name="fp16"
    )
    yield _bad("NC_MATMUL-06", row, _product({"moving": tile((5, 5), "bfloat16")}))
    wide = _product({"stationary": tile((4, 129), "bfloat16")}, m=128)
    yield _bad("NC_MATMUL-08|NC_MATMUL-11", row, wide)
    for target in ("trn1", "trn2"):
        long = _product({"moving": tile((4, 513), "bfloat16"), "dst": tile((3, 513), space="psum")})
        yield _bad("NC_MATMUL-09|NC_MATMUL-12|GEN-03", row, long, target=target)
    for dtype, limit in (("float32", 4096), ("bfloat16", 8192)):
        dst = tile((3, limit), dtype, "psum")
        longest = _product({"moving": tile((4, limit + 1), "bfloat16"), "dst": dst})
        yield _bad("NC_MATMUL-10|NC_MATMUL-11", row, longest, target="trn3", name=f"moving-{limit + 1}")
    yield _bad("NC_MATMUL-11", row, _product({"dst": tile((4, 5), space="psum")}), name="dst-partitions")
    yield _bad("NC_MATMUL-11", row, _product({"dst": tile((3, 6), space="psum")}), name="dst-free")
    across = tile((3, 1024), space="psum", view=(S(0, 3), S(508, 513)))
    yield _bad("NC_MATMUL-12", row, _product({"dst": across}), name="two-banks")


def nc_matmul_modes() -> Iterator[Illegal]:
    row = "nc_matmul"
    double: Attributes = {"perf_mode": "double_row"}

    def rows(dtype: str = "float8_e4m3", pairs: int = 2) -> Operands:
        return {
            "dst": tile((3, 5), space="psum"),
            "stationary": tile((4, pairs, 3), dtype),
            "moving": tile((4, pairs, 5), dtype),
        }

    yield _bad("NC_MATMUL-13", row, rows(), target="trn1", **double)
    yield _bad("NC_MATMUL-14", row, rows("bfloat16"), **double)
    yield _bad("NC_MATMUL-15", row, rows(pairs=3), **double)
    column: Attributes = {"tile_position": (0, 64), "tile_size": (128, 64), **double}
    yield _bad("NC_MATMUL-16", row, rows(), **column)
    turned = {**rows(), "dst": tile((3, 5), "bfloat16", "psum")}
    yield _bad("NC_MATMUL-17|NC_MATMUL-05", row, turned, is_transpose=True, **double)
    good = _product()
    yield _bad("NC_MATMUL-18", row, good, tile_position=(0, 0), name="position-alone")
    yield _bad("NC_MATMUL-18", row, good, tile_size=(64, 128), name="size-alone")
    for name, target, position, size in (
        ("row-32", "trn1", (0, 0), (32, 128)),
        ("row-16", "trn2", (0, 0), (16, 128)),
        ("column-48", "trn2", (0, 0), (128, 48)),
    ):
        rules = "NC_MATMUL-19|NC_MATMUL-22"
        yield _bad(rules, row, good, target=target, tile_position=position, tile_size=size, name=name)
    for name, position in (("row", (32, 0)), ("column", (0, 32)), ("beyond", (192, 0))):
        attributes: Attributes = {"tile_position": position, "tile_size": (64, 64)}
        yield _bad("NC_MATMUL-20", row, good, name=f"start-{name}", **attributes)
    small: Attributes = {"tile_position": (0, 0), "tile_size": (32, 32)}
    yield _bad("NC_MATMUL-21|NC_MATMUL-07", row, _product(k=33), name="k-33", **small)
    yield _bad("NC_MATMUL-21|NC_MATMUL-08", row, _product(m=33), name="m-33", **small)


def nc_transpose() -> Iterator[Illegal]:
    row = "nc_transpose"
    spaces = pair(tile((6, 4)), tile((4, 6)))
    yield _bad("NC_TRANSPOSE-01|GEN-14", row, spaces, engine="tensor", name="tensor-to-sbuf")
    psum = pair(tile((6, 4), space="psum"), tile((4, 6), space="psum"))
    yield _bad("NC_TRANSPOSE-01|GEN-14", row, psum, engine="tensor", name="tensor-from-psum")
    yield _bad("NC_TRANSPOSE-02", row, pair(tile((6, 4)), tile((4, 6), "bfloat16")), engine="vector")
    for rows, columns in ((33, 32), (32, 33)):
        large = pair(tile((columns, rows)), tile((rows, columns)))
        yield _bad("NC_TRANSPOSE-03", row, large, engine="vector", name=f"vector-{rows}x{columns}")
    beyond = pair(tile((128, 4), space="psum"), tile((4, 129)))
    yield _bad("NC_TRANSPOSE-03|NC_TRANSPOSE-07", row, beyond, engine="tensor", name="tensor-129")
    for engine in ("scalar", "gpsimd"):
        yield _bad("NC_TRANSPOSE-04", row, spaces, engine=engine, name=engine)
    shape = pair(tile((4, 6)), tile((4, 6)))
    yield _bad("NC_TRANSPOSE-03|NC_TRANSPOSE-07", row, shape, engine="vector", name="not-transposed")
