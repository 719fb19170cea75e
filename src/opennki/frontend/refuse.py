"""What a tensor says when a view of it cannot be: the diagnostics of view operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from opennki.diag import Label, diagnostic, error
from opennki.frontend.views import ViewError

if TYPE_CHECKING:
    from opennki.frontend.tensor import NkiTensor

__all__ = ["refuse", "say_offset"]


def refuse(tensor: NkiTensor, problem: ViewError, frame: Any) -> NoReturn:
    """Raise the diagnostic of a view that cannot be, at the user's line."""
    recorder = tensor.handle.recorder
    location, callers = recorder.place(recorder.locate(frame))
    _, allocated = recorder.allocation(tensor)
    found = diagnostic(
        problem.code,
        at=Label(location, "this view"),
        others=[allocated] if allocated is not None else (),
        callers=callers,
        core=recorder.core,
        notes=(
            f"`{tensor.name or 'the tensor'}` is {tensor.layout.describe()}, strides {list(tensor.strides)}, "
            f"offset {tensor.access.offset}",
        ),
        help=(problem.help,) if problem.help else (),
        rule=problem.rule,
        says=str(problem),
    )
    raise error(found) from None


def say_offset(tensor: NkiTensor, start: int, frame: Any) -> None:
    """Say that the documents contradict each other on an offset given on a view (ONKI403)."""
    recorder = tensor.handle.recorder
    location, callers = recorder.place(recorder.locate(frame))
    recorder.warn(
        diagnostic(
            "ONKI403",
            at=Label(location, "counted from the start of the tensor"),
            callers=callers,
            core=recorder.core,
            rule="AP-90",
            says=f"`ap(offset={start})` on a view of `{tensor.name or 'the tensor'}` that starts at element "
            f"{tensor.access.offset}: the documents contradict each other, "
            "OpenNKI counts from the tensor's start",
            data={"offset": start, "view_offset": tensor.access.offset},
        )
    )
