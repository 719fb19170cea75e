"""What a kernel returns: outputs, their names, and how they are nested."""

from __future__ import annotations

from typing import Any, NoReturn

from msgspec import Struct

from opennki.diag import Label, Location, fail
from opennki.frontend.recorder import TraceRecorder
from opennki.frontend.tensor import NkiTensor
from opennki.ir.types import Origin, Output, Space, Structure

__all__ = ["Results", "collect_results"]


class Results(Struct, frozen=True):
    """The outputs of one core in order of appearance, how they are nested, and their allocation lines."""

    outputs: tuple[Output, ...]
    returns: Structure
    places: tuple[Location | None, ...]


def collect_results(kernel: str, where: Location, recorder: TraceRecorder, value: Any) -> Results:
    """Return the outputs of a kernel's return value: tensors in shared HBM, nested in tuples, lists, dicts.

    Errors: ONKI105 for anything else.
    """
    collector = _Collector(kernel, where, recorder)
    returns = collector.structure(value)
    return Results(tuple(collector.outputs), returns, tuple(collector.places))


class _Collector:
    """Walks a return value. State: the outputs found so far and the names they have taken."""

    def __init__(self, kernel: str, where: Location, recorder: TraceRecorder) -> None:
        self.kernel = kernel
        self.where = where
        self.recorder = recorder
        self.outputs: list[Output] = []
        self.places: list[Location | None] = []
        self.taken: set[str] = set()
        self.inputs = [b for b in recorder.buffers if b.origin is Origin.input]

    def structure(self, value: Any) -> Structure:
        """Return the nesting of `value`, entering its tensors."""
        if isinstance(value, NkiTensor):
            self.enter(value)
            return Structure("leaf", len(self.outputs) - 1)
        if value is None:
            return Structure("none")
        if isinstance(value, tuple):
            return Structure("tuple", items=tuple(self.structure(item) for item in value))
        if isinstance(value, list):
            return Structure("list", items=tuple(self.structure(item) for item in value))
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return Structure(
                "dict", keys=tuple(value), items=tuple(self.structure(item) for item in value.values())
            )
        self.refuse(
            f"an object of type `{type(value).__name__}`",
            None,
            "return tensors, or tuples, lists and dicts of them",
        )

    def enter(self, tensor: NkiTensor) -> None:
        """Enter one returned tensor."""
        buffer = tensor.handle.buffer
        if tensor.handle.recorder is not self.recorder:
            self.refuse("a tensor of another launch", tensor, "return a tensor that this kernel made")
        if buffer.space is not Space.shared_hbm:
            self.refuse(
                f"`{buffer.name or 'a tensor'}`, a tensor in {buffer.space.name}",
                tensor,
                "allocate the output with `buffer=nl.shared_hbm` and copy into it with `nisa.dma_copy`",
            )
        if tensor.is_indirect():
            self.refuse("a view with a run-time index", tensor, "return the whole tensor")
        alias = next((i for i, b in enumerate(self.inputs) if b.id == buffer.id), -1)
        self.outputs.append(
            Output(
                name=self._name(buffer.name),
                key=buffer.key,
                shape=tensor.shape,
                dtype=tensor.dtype,
                offset=tensor.offset,
                pattern=tensor.layout.record.pattern,
                alias=alias,
            )
        )
        place = self.recorder.place(buffer.location)[0] if buffer.location >= 0 else None
        self.places.append(place)

    def _name(self, wanted: str) -> str:
        base = wanted or f"out{len(self.outputs)}"
        name, count = base, 1
        while name in self.taken:
            name, count = f"{base}_{count}", count + 1
        self.taken.add(name)
        return name

    def refuse(self, got: str, tensor: NkiTensor | None, help: str) -> NoReturn:
        """Fail with ONKI105."""
        allocated = None if tensor is None else self.recorder.allocation(tensor)[1]
        fail(
            "ONKI105",
            at=Label(self.where, "returned by this kernel"),
            others=[allocated] if allocated is not None else (),
            core=self.recorder.core,
            kernel=self.kernel,
            got=got,
            help=[help],
        )
