"""What the tests of PyTorch share: the error of a call, unwrapped, and the degree table's cells."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opennki.diag import Diagnostic, OpenNkiError


def refused(call: Callable[[], object]) -> tuple[Diagnostic, ...]:
    """Return what a call is refused with; the exception is ours and shows nothing of PyTorch."""
    with pytest.raises(OpenNkiError) as caught:
        call()
    text = str(caught.value)
    assert text.startswith("error["), text
    assert "torch._dynamo" not in text
    assert type(caught.value).__name__ in ("OpenNkiError", "OpenNkiUsageError", "NkiValidationError")
    assert caught.value.__cause__ is None or isinstance(caught.value.__cause__, OpenNkiError)
    return caught.value.diagnostics
