"""Every reject of every row raises its rule at the call's line, traced and simulated; limits hold exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import pytest

import opennki
from opennki import nki
from opennki.diag import Diagnostic, OpenNkiError
from opennki.isa.define import Row
from opennki.isa.samples import Sampler
from opennki.isa.table import TABLE
from opennki.targets import TARGETS, Target
from tests.golden_file import Golden
from tests.rows.build_calls import BuiltCall, build, is_exchange

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")

ROWS = [pytest.param(row, id=row.name) for row in TABLE]
CHIPS = [pytest.param(target, id=name) for name, target in TARGETS.items()]


def rejects(row: Row, target: Target) -> Iterator[tuple[str, BuiltCall]]:
    """Yield the rule and the kernel of each reject of a row."""
    for number, (rule, arguments) in enumerate(row.rules["rejects"](Sampler(target))):
        yield rule, build(row, arguments, name=f"{row.name}_reject_{number}", filled=False)


def refused(run: Callable[[], object]) -> Diagnostic:
    """Return what `run` raises; one diagnostic, which is an `NkiValidationError`."""
    with pytest.raises(nisa.NkiValidationError) as caught:
        run()
    assert isinstance(caught.value, OpenNkiError)
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("row", ROWS)
def test_rejects_name_their_rule(row: Row, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target.name)
    degree = target.lnc_allowed[-1] if is_exchange(row) else 1
    for rule, call in rejects(row, target):
        traced = refused(partial(opennki.trace, call.kernel[degree], *call.inputs))
        assert traced.rule == rule, (call.source, traced.message)
        assert traced.core == 0
        assert traced.location is not None
        assert (traced.location.file, traced.location.line) == (call.file, call.line)
        assert traced.location.text == call.source.splitlines()[call.line - 1]
        assert f"{row.name}(" in traced.location.text
        assert f"`{row.shown}`" in traced.message or not row.public
        assert traced.data["instruction"] == row.shown
        assert traced.data["target"] == target.name
        for number in numbers(traced):
            assert number in " ".join((traced.message, *traced.help)), traced.message
        assert traced.help, "every refusal says what to do"
        simulated = refused(partial(nki.simulate(call.kernel[degree]), *call.inputs))
        assert simulated == traced


def numbers(found: Diagnostic) -> list[str]:
    """Return the numbers of a violated rule, spelled as a message spells them."""
    skipped = ("shape_a", "shape_b")
    return [str(v) for k, v in found.data.items() if type(v) in (int, float) and k not in skipped]


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_rejects(row: Row, target: Target) -> None:
    assert list(row.rules["rejects"](Sampler(target))) != []


# ----------------------------------------------------------------------------------------------- limits
#
# Each maker returns a kernel without inputs, which works at a limit for one number and beyond it for another.

Maker = Callable[[int], Callable[[], Any]]


def sbuf(*shape: int, dtype: str = "float32") -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def psum(*shape: int, dtype: str = "float32") -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def output() -> Any:
    """The output that every kernel has to have."""
    return nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)


def partitions(count: int) -> Callable[[], Any]:
    def kernel() -> Any:
        nisa.memset(dst=sbuf(count, 4), value=0.0)
        return output()

    return kernel


def start(extent: int) -> Maker:
    """An access of `extent` partitions from partition `first` on."""

    def maker(first: int) -> Callable[[], Any]:
        def kernel() -> Any:
            nisa.memset(dst=sbuf(128, 4)[first : first + extent, :], value=0.0)
            return output()

        return kernel

    return maker


def dimensions(count: int) -> Callable[[], Any]:
    """An access that walks every other element of `count` axes."""

    def kernel() -> Any:
        tile = sbuf(4, *[4] * count)[(slice(None), *[slice(0, 4, 2)] * count)]
        nisa.memset(dst=tile, value=0.0)
        return output()

    return kernel


def mergeable(count: int) -> Callable[[], Any]:
    """Contiguous axes count as one, whatever their number."""

    def kernel() -> Any:
        nisa.memset(dst=sbuf(4, *[2] * count), value=0.0)
        return output()

    return kernel


def step(width: int) -> Callable[[], Any]:
    """Two elements, `width` apart."""

    def kernel() -> Any:
        nisa.memset(dst=sbuf(1, 2, width, dtype="int8")[:, :, 0:1], value=0)
        return output()

    return kernel


def free_sbuf(count: int) -> Callable[[], Any]:
    def kernel() -> Any:
        nisa.memset(dst=sbuf(1, count, dtype="int8"), value=0)
        return output()

    return kernel


def free_psum(count: int) -> Callable[[], Any]:
    """One PSUM element, read `count` times."""

    def kernel() -> Any:
        nisa.tensor_copy(dst=sbuf(1, count), src=psum(1, 1).broadcast(1, count))
        return output()

    return kernel


def product(
    k: int = 16, m: int = 8, n: int = 4, dtype: str = "float32", at: int = 0, **options: Any
) -> Callable[[], Any]:
    def kernel() -> Any:
        columns = at + n if at + n <= 4096 else n
        dst = psum(m, columns, dtype=dtype)[:, columns - n :]
        inputs = "float32" if dtype == "float32" else dtype
        nisa.nc_matmul(
            dst=dst, stationary=sbuf(k, m, dtype=inputs), moving=sbuf(k, n, dtype=inputs), **options
        )
        return output()

    return kernel


def moving_alone(dtype: str) -> Maker:
    """A product whose `moving` has more columns than a PSUM partition has room for."""

    def maker(n: int) -> Callable[[], Any]:
        def kernel() -> Any:
            dst = psum(8, min(n, 16384 // (4 if dtype == "float32" else 2)), dtype=dtype)
            nisa.nc_matmul(dst=dst, stationary=sbuf(16, 8, dtype=dtype), moving=sbuf(16, n, dtype=dtype))
            return output()

        return kernel

    return maker


def turned(rows: int, columns: int, engine: str) -> Callable[[], Any]:
    def kernel() -> Any:
        made = psum if engine == "tensor" else sbuf
        nisa.nc_transpose(dst=made(columns, rows), data=sbuf(rows, columns), engine=nisa.engine[engine])
        return output()

    return kernel


def turned_on_tensor(columns: int) -> Callable[[], Any]:
    """A transpose of more columns than PSUM has partitions: the tile that would take them cannot exist."""

    def kernel() -> Any:
        nisa.nc_transpose(dst=psum(min(columns, 128), 4), data=sbuf(4, columns))
        return output()

    return kernel


def priority(value: int) -> Callable[[], Any]:
    def kernel() -> Any:
        nisa.dma_copy(dst=sbuf(8, 8), src=sbuf(8, 8), priority=value)
        return output()

    return kernel


def filled(dtype: str) -> Maker:
    def maker(value: int) -> Callable[[], Any]:
        def kernel() -> Any:
            nisa.memset(dst=sbuf(2, 2, dtype=dtype), value=value)
            return output()

        return kernel

    return maker


ALL = ("trn1", "inf2", "trn2", "trn3")
BEFORE_4 = ("trn1", "inf2", "trn2")
FROM_3 = ("trn2", "trn3")

# rule or code, where, maker, the last good number, the first bad one
LIMITS: list[tuple[str, tuple[str, ...], Maker, int, int]] = [
    ("ONKI212", ALL, partitions, 128, 129),
    ("GEN-06", ALL, start(65), 0, 32),
    ("GEN-06", ALL, start(65), 0, 1),
    ("GEN-06", ALL, start(127), 0, 1),
    ("GEN-07", ALL, start(64), 64, 32),
    ("GEN-07", ALL, start(33), 64, 32),
    ("GEN-07", ALL, start(33), 0, 1),
    ("GEN-08", ALL, start(32), 96, 95),
    ("GEN-08", ALL, start(32), 64, 65),
    ("GEN-08", ALL, start(32), 32, 31),
    ("GEN-08", ALL, start(1), 96, 97),
    ("GEN-09", ALL, dimensions, 4, 5),
    ("GEN-10", ALL, step, 32767, 32768),
    ("GEN-13", ALL, free_sbuf, 65536, 65537),
    ("GEN-13", ALL, free_psum, 4096, 4097),
    ("NC_MATMUL-07", ALL, lambda k: product(k=k, tile_position=(64, 0), tile_size=(64, 128)), 64, 65),
    ("NC_MATMUL-07", FROM_3, lambda k: product(k=k, tile_position=(96, 0), tile_size=(32, 128)), 32, 33),
    ("NC_MATMUL-08", ALL, lambda m: product(m=m, tile_position=(0, 64), tile_size=(128, 64)), 64, 65),
    ("NC_MATMUL-08", FROM_3, lambda m: product(m=m, tile_position=(0, 96), tile_size=(128, 32)), 32, 33),
    ("NC_MATMUL-09", BEFORE_4, lambda n: product(n=n), 512, 513),
    ("NC_MATMUL-10", ("trn3",), moving_alone("float32"), 4096, 4097),
    ("NC_MATMUL-10", ("trn3",), moving_alone("bfloat16"), 8192, 8193),
    ("NC_MATMUL-12", BEFORE_4, lambda end: product(n=512, at=end // 4 - 512), 4096, 4092),
    ("NC_MATMUL-12", BEFORE_4, lambda end: product(n=512, at=end // 4 - 512), 2048, 2052),
    ("NC_MATMUL-12", BEFORE_4, lambda end: product(n=end // 4 - 256, at=256), 2048, 2052),
    (
        "NC_MATMUL-19",
        ALL,
        lambda size: product(tile_position=(0, 0), tile_size=(size, 128)),
        64,
        63,
    ),
    ("NC_MATMUL-20", ALL, lambda at: product(tile_position=(at, 0), tile_size=(64, 128)), 64, 128),
    ("NC_MATMUL-20", ALL, lambda at: product(tile_position=(at, 0), tile_size=(64, 128)), 64, 63),
    ("NC_TRANSPOSE-03", ALL, lambda n: turned(n, 4, "vector"), 32, 33),
    ("NC_TRANSPOSE-03", ALL, lambda n: turned(4, n, "vector"), 32, 33),
    ("DMA_COPY-05", ("trn3",), priority, 3, 4),
    ("DMA_COPY-05", ("trn3",), priority, 0, -1),
    *(("MEMSET-03", ALL, filled(f"int{b}"), 2 ** (b - 1) - 1, 2 ** (b - 1)) for b in (8, 16, 32)),
    *(("MEMSET-03", ALL, filled(f"int{b}"), -(2 ** (b - 1)), -(2 ** (b - 1)) - 1) for b in (8, 16, 32)),
    *(("MEMSET-03", ALL, filled(f"uint{b}"), 2**b - 1, 2**b) for b in (8, 16, 32)),
    *(("MEMSET-03", ALL, filled(f"uint{b}"), 0, -1) for b in (8, 16, 32)),
    ("NC_MATMUL-08", ALL, lambda m: stationary_alone(m), 128, 129),
    ("NC_TRANSPOSE-07", ALL, turned_on_tensor, 128, 129),
]


def stationary_alone(m: int) -> Callable[[], Any]:
    """A product whose `stationary` has more columns than PSUM has partitions."""

    def kernel() -> Any:
        nisa.nc_matmul(dst=psum(min(m, 128), 4), stationary=sbuf(16, m), moving=sbuf(16, 4))
        return output()

    return kernel


@pytest.mark.parametrize(
    ("rule", "targets", "maker", "good", "bad"), LIMITS, ids=[f"{x[0]}-{x[3]}-{x[4]}" for x in LIMITS]
)
@pytest.mark.filterwarnings("ignore::opennki.diag.OpenNkiWarning")
def test_limit_and_one_beyond(rule: str, targets: tuple[str, ...], maker: Maker, good: int, bad: int) -> None:
    for target in targets:
        artifact = opennki.trace(maker(good), target=target)
        assert len(artifact.programs[0].body) == 1
        found = refused(lambda target=target: opennki.trace(maker(bad), target=target))  # type: ignore[misc]
        assert rule in (found.rule, found.code), found.message
        assert found.location is not None
        assert "test_rejects.py" in found.location.file
        for number in (str(bad), *([str(found.data["limit"])] if "limit" in found.data else [])):
            assert number in found.message, found.message


def test_contiguous_axes_are_one_dimension() -> None:
    for target in ALL:
        assert len(opennki.trace(mergeable(8), target=target).programs[0].body) == 1


@pytest.mark.parametrize("row", ROWS)
def test_messages(row: Row, golden: Golden) -> None:
    """The whole text of every reject: those of trn2, then what another target says differently."""
    seen: dict[str, str] = {}
    for name in ("trn2", "trn1", "trn3"):
        degree = TARGETS[name].lnc_allowed[-1] if is_exchange(row) else 1
        for _, call in rejects(row, TARGETS[name]):
            with pytest.raises(OpenNkiError) as caught:
                opennki.trace(call.kernel[degree], *call.inputs, target=name)
            (found,) = caught.value.diagnostics
            if found.message not in seen:
                seen[found.message] = str(caught.value)
    golden("\n\n".join(seen.values()))
