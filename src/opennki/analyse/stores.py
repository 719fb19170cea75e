"""What the programs of an artifact store into its outputs: the tensors, the stores, the bit maps of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from opennki.analyse.effects import WRITES, program_effects
from opennki.analyse.regions import Bits, Boxes, Grid, Pairs, normal
from opennki.diag import Location
from opennki.ir.dtypes import DTYPES
from opennki.ir.program import buffers_by_key, size_bytes, steps_of
from opennki.ir.types import KernelArtifact, Layout, Program

__all__ = [
    "MOST_CELLS",
    "Store",
    "Stores",
    "Subject",
    "Writer",
    "lay_out",
    "map_stores",
    "stores_of",
    "subjects",
]

MOST_CELLS = 1 << 28
"""The longest map that is made: a byte a cell and core. A cell is a row or a tile in all but odd kernels."""


class Subject(NamedTuple):
    """A tensor to look at: who its buffer is, and where it lies in it, in elements of its dtype."""

    name: str
    key: str
    dtype: str
    offset: int
    pattern: Pairs
    is_in_place: bool


class Store(NamedTuple):
    """The stores of one region into one buffer by one line of one core.

    `offsets` are in elements of the region's dtype; a dictionary, for each is kept once and in order.
    """

    region: Layout
    location: Location
    is_exact: bool
    offsets: dict[int, None]


class Writer(Struct, frozen=True):
    """A line that stores into a tensor, on one core. `is_exact`: all of its boxes are certainly written."""

    core: int
    location: Location
    is_exact: bool
    boxes: Boxes


Stores = dict[str, list[Store]]


def subjects(artifact: KernelArtifact) -> Iterator[Subject]:
    """Yield the outputs of an artifact that have a buffer of their own, then the inputs that it writes.

    A returned constant holds its bytes from the start.
    """
    signature = artifact.signature
    constants = {constant.key for constant in signature.constants}
    seen = set()
    for output in signature.outputs:
        place = (output.key, output.dtype, output.offset, output.pattern)
        if output.alias < 0 and output.key not in constants and place not in seen:
            seen.add(place)
            yield Subject(output.name, output.key, output.dtype, output.offset, output.pattern, False)
    for tensor in signature.inputs:
        if tensor.is_written:
            pattern = tuple(zip(steps_of(tensor.shape), tensor.shape, strict=True))
            yield Subject(tensor.name, tensor.key, tensor.dtype, 0, pattern, True)


def stores_of(program: Program, keys: frozenset[str]) -> Stores:
    """Return what a program stores into the buffers of these keys."""
    wanted = {buffer.id: key for key, buffer in buffers_by_key(program).items() if key in keys}
    found: Stores = {key: [] for key in keys}
    places: dict[tuple[int, int, int, bool], dict[int, None]] = {}
    for _, effect in program_effects(program, frozenset(wanted)):
        region = effect.region
        if region is None or effect.access not in WRITES or effect.buffer not in wanted:
            continue
        place = (effect.buffer, id(region), effect.location, effect.exact)  # regions live as long as `found`
        offsets = places.get(place)
        if offsets is None:
            offsets = places[place] = {}
            location = program.locations[effect.location]
            found[wanted[effect.buffer]].append(Store(region, location, effect.exact, offsets))
        offsets[effect.offset] = None
    return found


def lay_out(
    artifact: KernelArtifact, subject: Subject, stores: list[Stores]
) -> tuple[Grid, int, tuple[Writer, ...]]:
    """Return the grid of a tensor, how many parts of an element it tells apart, and the tensor's writers.

    Places are counted in units: the narrowest element that is stored, or the tensor's own.
    """
    used = [store.region.dtype for by_key in stores for store in by_key[subject.key]]
    unit_bytes = min(DTYPES[dtype].bytes for dtype in (subject.dtype, *used))
    parts = DTYPES[subject.dtype].bytes // unit_bytes
    writers = tuple(
        _writer(core, store, unit_bytes)
        for core, by_key in enumerate(stores)
        for store in by_key[subject.key]
    )
    buffer = buffers_by_key(artifact.programs[0])[subject.key]
    total = size_bytes(buffer.shape, buffer.dtype) // unit_bytes
    pattern = _in_units(subject.pattern, parts)
    grid = Grid.of(pattern, subject.offset * parts, total, [writer.boxes for writer in writers])
    return grid, parts, writers


def _writer(core: int, store: Store, unit_bytes: int) -> Writer:
    units = DTYPES[store.region.dtype].bytes // unit_bytes
    shift, pairs = normal(_in_units(store.region.pattern, units))
    places = [offset * units + shift for offset in store.offsets]
    return Writer(core, store.location, store.is_exact, Boxes(pairs, places))


def _in_units(pattern: Pairs, units: int) -> Pairs:
    """Return a pattern in units, of which an element has several; then the units are its last axis."""
    if units == 1:
        return pattern
    return (*((step * units, count) for step, count in pattern), (1, units))


def map_stores(
    grid: Grid, writers: Iterable[Writer], cores: int
) -> tuple[tuple[Bits, ...], tuple[Bits, ...]]:
    """Return for each core a map of what it certainly writes, and a map of what it writes or may write."""
    certain = [np.zeros(grid.total, np.bool_) for _ in range(cores)]
    possible = list(certain)
    writers = tuple(writers)
    for writer in writers:
        if writer.is_exact:
            writer.boxes.mark(certain[writer.core], grid.grain)
    for core in {writer.core for writer in writers if not writer.is_exact}:
        possible[core] = certain[core].copy()
    for writer in writers:
        if not writer.is_exact:
            writer.boxes.mark(possible[writer.core], grid.grain)
    return tuple(grid.window(bits) for bits in certain), tuple(grid.window(bits) for bits in possible)
