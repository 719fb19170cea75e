"""Why a kernel is traced again: the parts of its key that differ from its nearest entry."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from opennki.cache.digest import Part, Undigestible
from opennki.cache.key import Key
from opennki.cache.store import Damage, Store, file_name
from opennki.cache.traced import CACHE, Bound

__all__ = ["Answer", "Difference", "explain"]


class Difference(Struct, frozen=True):
    """A part that differs. Each side is its text, "" if that is long, None if the side lacks the part."""

    part: str
    kept: str | None
    asked: str | None


class Answer(Struct, frozen=True):
    """Whether the cache has a trace. Without, `entry` is the nearest one of the kernel, if there is any."""

    is_hit: bool
    headline: str
    key: str | None = None
    entry: str | None = None
    differences: tuple[Difference, ...] = ()


def explain(bound: Bound, store: Store) -> Answer:
    """Return whether `store` has the trace of a call, else how the key differs. Raises OSError."""
    key, _ = CACHE.key(bound)
    kernel = bound.kernel.name
    if isinstance(key, Undigestible):
        return Answer(False, f"kernel `{kernel}` is traced at each call: {key.reason}")
    if store.path(key).exists():
        return Answer(True, f"the cache has this trace of `{kernel}`", key.digest, store.path(key).name)
    nearest: tuple[int, str, tuple[Difference, ...]] | None = None
    for entry in store.entries():  # of equally near ones, the one that was used last
        if entry.kernel == file_name(kernel):
            try:
                parts, manifest = store.parts_of(entry)
            except Damage:
                continue
            found = differences(parts, key)
            if manifest.get("kernel") == kernel and (nearest is None or len(found) < nearest[0]):
                nearest = (len(found), entry.path.name, found)
    if nearest is None:
        return Answer(False, f"the cache has no trace of `{kernel}`", key.digest)
    count = "1 part of the key differs" if nearest[0] == 1 else f"{nearest[0]} parts of the key differ"
    headline = f"the cache has no such trace of `{kernel}`; {count} from the nearest one:"
    return Answer(False, headline, key.digest, nearest[1], nearest[2])


def differences(kept: Mapping[str, Part], key: Key) -> tuple[Difference, ...]:
    """Return the parts in which an entry's key differs from `key`, in the order of the latter."""
    asked = key.parts
    names = [*asked, *(name for name in kept if name not in asked)]
    return tuple(
        Difference(name, _text(kept.get(name)), _text(asked.get(name)))
        for name in names
        if _digest(kept.get(name)) != _digest(asked.get(name))
    )


def _text(part: Part | None) -> str | None:
    return part.shown if part is not None else None


def _digest(part: Part | None) -> str:
    return part.digest if part is not None else ""
