"""Coverage: which cores write which elements of the outputs, and what follows for a user.

Elements that no core writes are an error of `check`; elements that only a core outside of the graph would
write are what NCC_ENKI003 says would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opennki.analyse.regions import Bits, Grid, describe, part_of, percent, spread
from opennki.analyse.stores import MOST_CELLS, Subject, Writer, lay_out, map_stores, stores_of, subjects
from opennki.diag import Diagnostic, Label, Location, diagnostic
from opennki.ir.program import buffers_by_key, instructions
from opennki.ir.types import KernelArtifact, Program
from opennki.isa.table import BY_NAME
from opennki.targets import TARGETS

__all__ = ["Coverage", "TensorCoverage", "coverage", "findings", "lost", "repeats"]

_SHOWN_WRITERS = 3
_DECIDES = "an index or a predicate decides"


class TensorCoverage(Struct, frozen=True):
    """Which cores write which elements of one output.

    `name` and `shape` are the output's; `is_in_place`: it is an input that the kernel writes. `allocated` is
    where the kernel allocates it, the calls that led there behind it. `certain` and `possible` hold a map for
    each core: what it certainly writes, and what it writes or may write. They are in cells, of which each is
    one or more elements (`grid`); where a store is narrower than an element, the last axis is the `parts` of
    an element. The methods return masks of elements. `is_known` is False for a tensor in too many pieces to
    map: then each core may write all of it.
    """

    name: str
    shape: tuple[int, ...]
    is_in_place: bool
    allocated: tuple[Location, ...]
    certain: tuple[Bits, ...]
    possible: tuple[Bits, ...]
    grid: Grid
    parts: int
    writers: tuple[Writer, ...]
    is_known: bool = True

    def written(self, core: int) -> Bits:
        """Return the elements that `core` certainly writes."""
        mask = self.certain[core]
        mask = np.logical_and.reduce(mask, axis=-1) if self.parts > 1 else mask
        return spread(mask, self.shape)

    def may(self, core: int) -> Bits:
        """Return the elements that `core` writes only if an index, a predicate or a loop's bound says so."""
        return self._elements(self.possible[core] & ~self.certain[core])

    def only_by(self, core: int) -> Bits:
        """Return the elements that `core` writes, or may write, and no other core can."""
        others = _union(mask for other, mask in enumerate(self.possible) if other != core)
        return self._elements(self.possible[core] & ~others)

    @property
    def unwritten(self) -> Bits:
        """The elements that no instruction on any core can write."""
        return self._elements(~_union(self.possible))

    @property
    def twice(self) -> Bits:
        """The elements that more than one core certainly writes."""
        return self._elements(_twice(self.certain))

    def cells(self, mask: Bits) -> Bits:
        """Return a map without parts of elements: an element of which a part is set is set."""
        return np.logical_or.reduce(mask, axis=-1) if self.parts > 1 else mask

    def words(self, mask: Bits) -> str:
        """Return which elements a map of cells holds, and how much of the tensor that is."""
        cells = self.cells(mask)
        where = describe(cells, self.name, self.shape)
        if cells.all():
            return where
        return f"{where}, {self.share(cells)} of it"

    def share(self, cells: Bits) -> str:
        """Return how much of the tensor a map of cells is, in percent."""
        return percent(int(np.count_nonzero(cells)), cells.size)

    def _elements(self, mask: Bits) -> Bits:
        return spread(self.cells(mask), self.shape)


class Coverage(Struct, frozen=True):
    """Which cores write which elements of an artifact's outputs, in-place inputs behind the fresh ones."""

    tensors: tuple[TensorCoverage, ...]

    def __getitem__(self, name: str) -> TensorCoverage:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)


def coverage(artifact: KernelArtifact) -> Coverage:
    """Return which cores write which elements of every output, and of every input that is written.

    The time that it takes grows with the instructions and with the pieces in which outputs are stored.
    """
    found = list(subjects(artifact))
    keys = frozenset(subject.key for subject in found)
    stores = [stores_of(program, keys) for program in artifact.programs]
    tensors = []
    for subject in found:
        grid, parts, writers = lay_out(artifact, subject, stores)
        tensors.append(_covered(artifact.programs[0], subject, grid, parts, writers, len(stores)))
    return Coverage(tuple(tensors))


def _covered(
    program: Program, subject: Subject, grid: Grid, parts: int, writers: tuple[Writer, ...], cores: int
) -> TensorCoverage:
    is_known = grid.total <= MOST_CELLS
    if is_known:
        certain, possible = map_stores(grid, writers, cores)
    else:
        one = (1,) * len(grid.shape)
        certain, possible = (np.zeros(one, np.bool_),) * cores, (np.ones(one, np.bool_),) * cores
    buffer = buffers_by_key(program)[subject.key]
    return TensorCoverage(
        name=subject.name,
        shape=tuple(count for _, count in subject.pattern),
        is_in_place=subject.is_in_place,
        allocated=_chain(program, buffer.location),
        certain=certain,
        possible=possible,
        grid=grid,
        parts=parts,
        writers=writers,
        is_known=is_known,
    )


def _chain(program: Program, number: int) -> tuple[Location, ...]:
    """Return a location of a program and the calls that led to it, innermost first."""
    chain: list[Location] = []
    while number >= 0:
        chain.append(program.locations[number])
        number = chain[-1].caller
    return tuple(chain)


def _union(masks: Iterable[Bits]) -> Bits:
    """Return where any of the masks is set; a single False where there is none."""
    union: Bits = np.zeros((), np.bool_)
    for mask in masks:
        union = union | mask
    return union


def _twice(masks: Iterable[Bits]) -> Bits:
    once: Bits = np.zeros((), np.bool_)
    twice: Bits = np.zeros((), np.bool_)
    for mask in masks:
        twice = twice | (once & mask)
        once = once | mask
    return twice


# ------------------------------------------------------------------------------------ what would be lost


def lost(artifact: KernelArtifact, kept: int = 1) -> list[str]:
    """Return, per output, what would be missing if only the programs of the first `kept` cores were baked.

    >>> lost(artifact)
    ['core 1 alone writes rows 64..127 of `out`, 50 % of it']
    """
    if kept >= artifact.lnc:
        return []
    meeting = _first_meeting(artifact.programs[0])
    return [says for tensor in coverage(artifact).tensors for says in _losses(tensor, kept, meeting)]


def _losses(tensor: TensorCoverage, kept: int, meeting: Location | None) -> Iterator[str]:
    cores = len(tensor.certain)
    keepers, droppers = _cores(range(kept)), _cores(range(kept, cores))
    alone = f"{droppers} alone"
    if not tensor.is_known:
        yield f"`{tensor.name}` is stored in too many pieces to say which core writes what"
        return
    sure_kept, may_kept = _union(tensor.certain[:kept]), _union(tensor.possible[:kept])
    sure_dropped, may_dropped = _union(tensor.certain[kept:]), _union(tensor.possible[kept:])
    only = may_dropped & ~may_kept
    said = list(_when(tensor, only & sure_dropped, f"{alone} writes {{}}"))
    said += _when(tensor, only & ~sure_dropped, f"{alone} may write {{}}: {_DECIDES}")
    both = may_dropped & may_kept & ~sure_kept
    decides = f"and so may {keepers}: {_DECIDES} what is lost"
    said += _when(tensor, both & sure_dropped, f"{droppers} writes {{}}, {decides}")
    said += _when(tensor, both & ~sure_dropped, f"{droppers} may write {{}}, {decides}")
    if not said and may_dropped.any():
        what = "all of it" if sure_kept.all() else f"all that {droppers} writes of it"
        after = (
            f", but after meeting {droppers} at {_place(meeting)}, whose data would be missing"
            if meeting
            else ""
        )
        said.append(f"no element of `{tensor.name}`: {keepers} writes {what}{after}")
    if not said:
        said.append(f"nothing of `{tensor.name}`: {droppers} does not write it")
    yield from said
    if not tensor.is_in_place:
        yield from _when(tensor, ~(may_kept | may_dropped), "no core at all writes {}")


def _when(tensor: TensorCoverage, mask: Bits, says: str) -> Iterator[str]:
    """Yield the sentence, filled with the words for `mask`, if that holds anything."""
    if mask.any():
        yield says.format(tensor.words(np.broadcast_to(mask, tensor.certain[0].shape)))


def _cores(numbers: range) -> str:
    names = [str(number) for number in numbers]
    return f"core {names[0]}" if len(names) == 1 else f"cores {', '.join(names[:-1])} and {names[-1]}"


def _first_meeting(program: Program) -> Location | None:
    """Return where a program first meets other cores, None if it never does."""
    meets = [BY_NAME[name].sync is not None if name in BY_NAME else False for name in program.opcodes]
    if any(meets):
        for instruction in instructions(program):
            if meets[instruction.opcode]:
                return program.locations[instruction.location]
    return None


def _place(location: Location) -> str:
    return f"{location.file}:{location.line}"


# ---------------------------------------------------------------------------------------------- findings


def findings(artifact: KernelArtifact) -> list[Diagnostic]:
    """Return an error ONKI401 for each output with elements that no core writes; in-place ones are exempt.

    An output in too many pieces to be looked at is a warning ONKI406.
    """
    found = []
    for tensor in coverage(artifact).tensors:
        if not tensor.is_known:
            found.append(_too_many_pieces(tensor))
        elif not tensor.is_in_place and not _union(tensor.possible).all():
            found.append(_never_written(artifact, tensor))
    return found


def repeats(artifact: KernelArtifact) -> list[Diagnostic]:
    """Return a warning ONKI405 for each output of which several cores certainly write the same elements.

    Cores that meet at a barrier or in an exchange may write in turns: nothing is said of them.
    """
    if artifact.lnc == 1 or _first_meeting(artifact.programs[0]) is not None:
        return []
    tensors = coverage(artifact).tensors
    return [_repeated(artifact, tensor) for tensor in tensors if _twice(tensor.certain).any()]


def _never_written(artifact: KernelArtifact, tensor: TensorCoverage) -> Diagnostic:
    missing = tensor.cells(~_union(tensor.possible))
    part = part_of(missing, tensor.shape)
    at, *callers = tensor.allocated
    return diagnostic(
        "ONKI401",
        at=Label(at, f"no core writes {part.where} of `{tensor.name}`"),
        others=[
            Label(artifact.location, f"`{artifact.kernel}` is defined here, traced for LNC={artifact.lnc}")
        ],
        callers=callers,
        notes=_writers(tensor),
        help=_fixed_shard(artifact, tensor, ~missing),
        says=f"`{tensor.name}` has {part.count} of {part.total} {part.unit} never written: {part.where}",
        data={"tensor": tensor.name, **_numbers(tensor, missing), "lnc": artifact.lnc},
    )


def _repeated(artifact: KernelArtifact, tensor: TensorCoverage) -> Diagnostic:
    twice = tensor.cells(_twice(tensor.certain))
    cores = _cores(range(artifact.lnc))
    at = next(writer.location for writer in tensor.writers if writer.core == artifact.lnc - 1)
    return diagnostic(
        "ONKI405",
        at=Label(at, "each core stores here"),
        others=[
            Label(artifact.location, f"`{artifact.kernel}` is defined here, traced for LNC={artifact.lnc}")
        ],
        notes=_writers(tensor),
        kernel=artifact.kernel,
        says=f"{cores} both write {tensor.words(twice)}",
        data={"tensor": tensor.name, **_numbers(tensor, twice), "lnc": artifact.lnc},
    )


def _too_many_pieces(tensor: TensorCoverage) -> Diagnostic:
    at, *callers = tensor.allocated
    return diagnostic(
        "ONKI406",
        at=Label(at, f"`{tensor.name}` is {list(tensor.shape)}"),
        callers=callers,
        tensor=tensor.name,
        pieces=tensor.grid.total,
        most=MOST_CELLS,
    )


def _numbers(tensor: TensorCoverage, mask: Bits) -> dict[str, object]:
    """Return a part of a tensor for machines; ranges include both ends."""
    part = part_of(mask, tensor.shape)
    return {
        "shape": list(tensor.shape),
        "count": part.count,
        "total": part.total,
        "unit": part.unit,
        "where": part.where,
    }


def _writers(tensor: TensorCoverage) -> Iterator[str]:
    """Say which lines write the tensor, and what each core writes by them."""
    lines: dict[tuple[int, Location, bool], list[Writer]] = {}
    for writer in tensor.writers:
        lines.setdefault((writer.core, writer.location, writer.is_exact), []).append(writer)
    if not lines:
        yield f"no instruction writes `{tensor.name}`"
    for (core, location, is_exact), writers in list(lines.items())[:_SHOWN_WRITERS]:
        _, (mask,) = map_stores(tensor.grid, [replace(writer, core=0) for writer in writers], 1)
        where = describe(tensor.cells(mask), tensor.name, tensor.shape)
        yield f"core {core} {'writes' if is_exact else 'may write'} {where} at {_place(location)}"
    more = len(lines) - _SHOWN_WRITERS
    if more > 0:
        yield f"{more} more {'line writes' if more == 1 else 'lines write'} into `{tensor.name}`"


def _fixed_shard(artifact: KernelArtifact, tensor: TensorCoverage, written: Bits) -> Iterator[str]:
    """Say what to do where the one core writes just the first of the shares that several cores would have."""
    if artifact.lnc != 1:
        return
    target = TARGETS.get(artifact.target)
    allowed = [degree for degree in (target.lnc_allowed if target is not None else ()) if degree > 1]
    for degree in allowed or [2]:
        if _is_first_share(written, degree):
            launch = f"launch it as `{artifact.kernel}[{degree}]`, or " if allowed else ""
            yield (
                f"the kernel writes 1/{degree} of `{tensor.name}` at LNC=1, as if its shard size were fixed "
                f"for {degree} cores: {launch}compute the shard from `nl.num_programs(0)`, which is 1 here"
            )


def _is_first_share(written: Bits, degree: int) -> bool:
    """True if `written` is exactly the first 1/degree of a map along one axis."""
    for axis, count in enumerate(written.shape):
        share = np.moveaxis(written, axis, 0)
        if count % degree == 0 and share[: count // degree].all() and not share[count // degree :].any():
            return True
    return False
