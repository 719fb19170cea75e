"""`opennki cache ls`, `why` and `clear`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from opennki.build.places import COMMAND_LINE
from opennki.cli.compilation import KernelReference
from opennki.cli.options import Arguments, AsJson, Degree, TargetName
from opennki.cli.output import Outcome, table
from opennki.diag import fail

if TYPE_CHECKING:
    from opennki.cache.store import Entry, Store
    from opennki.cache.why import Difference

__all__ = ["app"]

app = typer.Typer(
    name="cache",
    help="List and clear the cache of traces, and ask why a kernel was traced again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("ls")
def ls(json: AsJson = False) -> Outcome:
    """List what the cache holds, what was used last first."""
    store = _store()
    try:
        entries = store.entries()
    except OSError as problem:
        _unreadable(store, problem)
    described = [_described(store, entry) for entry in entries]
    total = sum(entry.bytes for entry in entries)
    rows = [
        (
            str(one["kernel"]),
            f"LNC={one['lnc']}",
            str(one["target"]),
            _size(entry.bytes),
            _ago(entry.used),
            entry.digest[:12],
        )
        for one, entry in zip(described, entries, strict=True)
    ]
    count = "no traces" if not entries else "1 trace" if len(entries) == 1 else f"{len(entries)} traces"
    summary = f"{store.folder}: {count}, {_size(total)} of {_size(store.limit)}"
    return Outcome(
        text="\n".join([*([table(rows)] if rows else []), summary]),
        fields={"folder": str(store.folder), "limit": store.limit, "bytes": total, "entries": described},
    )


@app.command("why")
def why(
    kernel: KernelReference,
    arg: Arguments = None,
    lnc: Degree = None,
    target: TargetName = None,
    json: AsJson = False,
) -> Outcome:
    """Tell whether `trace` finds a kernel in the cache; if not, what differs from the nearest entry."""
    from opennki.build.kernel_errors import kernel_errors
    from opennki.build.tracing import bound_call
    from opennki.cache.why import explain
    from opennki.cli.kernels import bind_arguments, load_kernel
    from opennki.settings import target_setting

    found = load_kernel(kernel)
    args, kwargs = bind_arguments(found, arg or [])
    chip = target_setting(target, spelled=COMMAND_LINE.target)
    with kernel_errors(found.name):
        bound, _ = bound_call(found, args, kwargs, chip, option=lnc, by=COMMAND_LINE)
    store = _store()
    try:
        answer = explain(bound, store)
    except OSError as problem:
        _unreadable(store, problem)
    lines = [answer.headline, *(f"  {_sentence(one)}" for one in answer.differences)]
    return Outcome(
        text="\n".join(lines),
        fields={
            "kernel": found.name,
            "hit": answer.is_hit,
            "key": answer.key,
            "entry": answer.entry,
            "reason": answer.headline,
            "differences": [
                {"part": one.part, "kept": one.kept, "asked": one.asked} for one in answer.differences
            ],
        },
    )


@app.command("clear")
def clear(json: AsJson = False) -> Outcome:
    """Remove every trace from the cache."""
    store = _store()
    try:
        count, size = store.clear()
    except OSError as problem:
        _unreadable(store, problem)
    traces = "1 trace" if count == 1 else f"{count} traces"
    return Outcome(
        text=f"{store.folder}: removed {traces}, {_size(size)}",
        fields={"folder": str(store.folder), "removed": count, "bytes": size},
    )


def _store() -> Store:
    from opennki.cache.store import Store
    from opennki.settings import cache_folder, cache_limit

    folder = cache_folder()
    if folder is None:
        fail("ONKI005", file="~", reason="this user has no home folder", help=["set OPENNKI_CACHE_DIR"])
    return Store(folder, cache_limit())


def _unreadable(store: Store, problem: OSError) -> None:
    fail("ONKI005", file=str(store.folder), reason=(problem.strerror or str(problem)).lower())


def _described(store: Store, entry: Entry) -> dict[str, object]:
    """Return what an entry's manifest says of it; of a damaged one, what its file's name says."""
    from opennki.cache.store import Damage

    said: dict[str, object] = {"kernel": entry.kernel, "lnc": "?", "target": "?"}
    try:
        _, manifest = store.parts_of(entry)
        said |= {name: manifest.get(name) for name in said}
    except (Damage, OSError):
        said["target"] = "damaged"
    return {**said, "key": entry.digest, "file": str(entry.path), "bytes": entry.bytes, "used": entry.used}


def _sentence(difference: Difference) -> str:
    """Say how a part differs, with both values where they are short."""
    if difference.kept is None:
        return f"{difference.part}: only now"
    if difference.asked is None:
        return f"{difference.part}: no longer"
    if not difference.kept and not difference.asked:
        return f"{difference.part} has changed"
    kept, asked = (text or "something longer" for text in (difference.kept, difference.asked))
    return f"{difference.part}: {kept} in the cache, {asked} now"


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def _ago(used: float) -> str:
    """Return how long ago something was, in the largest unit that fits."""
    seconds = max(time.time() - used, 0.0)
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
