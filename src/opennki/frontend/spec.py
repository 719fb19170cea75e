"""`Spec`: a dtype and a shape in the place of an array."""

from __future__ import annotations

import re

from msgspec import Struct

from opennki.diag import fail
from opennki.ir.dtypes import canonical

__all__ = ["Spec", "is_spec_text", "parse_spec"]

_FORM = re.compile(r"\s*[A-Za-z_]\w*\s*\[[\d\s,]*\]\s*")
_START = re.compile(r"\s*([A-Za-z_]\w*)\s*\[")
_TEXT = re.compile(r"\s*([A-Za-z_]\w*)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*,?\s*\]\s*")


class Spec(Struct, frozen=True):
    """A tensor argument without data: `Spec("bfloat16", (128, 512))`, in text `bfloat16[128,512]`.

    Errors: ONKI003 for an unknown dtype or a shape that is no tuple of positive ints.

    >>> Spec("float32", (128, 64))
    Spec('float32', (128, 64))
    """

    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        name = canonical(self.dtype)
        shape = self.shape
        good = isinstance(shape, (tuple, list)) and len(shape) > 0
        good = good and all(hasattr(n, "__index__") and not isinstance(n, bool) and n > 0 for n in shape)
        if name is None or not good:
            fail("ONKI003", text=f"Spec({self.dtype!r}, {shape!r})")
        import msgspec

        msgspec.structs.force_setattr(self, "dtype", name)
        msgspec.structs.force_setattr(self, "shape", tuple(int(n) for n in shape))

    def __repr__(self) -> str:
        return f"Spec({self.dtype!r}, {self.shape!r})"

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}".replace(" ", "")


def is_spec_text(text: str) -> bool:
    """Return True for text that has a spec's form, or begins like one with a dtype of NKI."""
    found = _START.match(text)
    if found is None:
        return False
    return canonical(found.group(1)) is not None or _FORM.fullmatch(text) is not None


def parse_spec(text: str) -> Spec:
    """Return the spec that `text` such as `float32[512,64]` spells. Errors: ONKI003.

    >>> parse_spec("bfloat16[128, 512]")
    Spec('bfloat16', (128, 512))
    """
    found = _TEXT.fullmatch(text)
    if (
        found is None
        or canonical(found.group(1)) is None
        or "0" in found.group(2).replace(" ", "").split(",")
    ):
        fail("ONKI003", text=text)
    return Spec(found.group(1), tuple(int(part) for part in found.group(2).split(",")))
