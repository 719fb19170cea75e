"""Making diagnostics from the catalogue, and raising them as the right exception."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from opennki.diag.catalogue import CATALOGUE
from opennki.diag.records import (
    Diagnostic,
    InternalError,
    Label,
    Location,
    OpenNkiError,
    OpenNkiUsageError,
)

__all__ = ["NkiRegisterError", "NkiValidationError", "diagnostic", "error", "fail"]


class NkiValidationError(OpenNkiError):
    """An instruction, a layout or a view breaks a rule of the hardware. `nki.isa.NkiValidationError`."""


class NkiRegisterError(OpenNkiError, TypeError):
    """A register is used where only a Python value goes."""


class NkiArgumentError(NkiValidationError, TypeError):
    """An instruction got an argument of a wrong kind."""


def diagnostic(
    code: str,
    *,
    at: Location | Label | None = None,
    label: str = "",
    others: Iterable[Label] = (),
    callers: Iterable[Location] = (),
    notes: Iterable[str] = (),
    help: Iterable[str] = (),
    rule: str | None = None,
    related: Iterable[str] = (),
    core: int | None = None,
    data: dict[str, Any] | None = None,
    **fields: Any,
) -> Diagnostic:
    """Return the diagnostic of `code` with its headline filled from `fields`, which also go into `data`.

    `help` defaults to the entry's fix, a line each, filled from the same fields. `at` is the user's place,
    `label` what to say under its caret.
    """
    entry = CATALOGUE.get(code)
    if entry is None:
        raise InternalError(f"the code {code} is not in the catalogue")
    values = {**fields, **(data or {})}
    first = at if isinstance(at, Label) else Label(at, label) if at is not None else None
    return Diagnostic(
        code=code,
        severity=entry.severity,
        message=entry.template.format(**fields),
        labels=((first,) if first is not None else ()) + tuple(others),
        callers=tuple(callers),
        notes=tuple(notes),
        help=tuple(help) or tuple(entry.fix.format_map(_Named(values)).splitlines()),
        related=tuple(related) or entry.related,
        rule=rule,
        core=core,
        data=values,
    )


class _Named(dict[str, Any]):
    """The fields of a fix; one that the caller does not give is printed as `<name>`."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


def error(*diagnostics: Diagnostic) -> OpenNkiError:
    """Return the exception for `diagnostics`; its class follows the first one's catalogue entry."""
    entry = CATALOGUE[diagnostics[0].code]
    if entry.code.startswith("ONKI0"):
        return OpenNkiUsageError(*diagnostics)
    if entry.validation:
        return (NkiArgumentError if entry.type_error else NkiValidationError)(*diagnostics)
    if entry.type_error:
        return NkiRegisterError(*diagnostics)
    return OpenNkiError(*diagnostics)


def fail(code: str, **arguments: Any) -> NoReturn:
    """Raise the diagnostic of `code`; the arguments are those of `diagnostic`."""
    raise error(diagnostic(code, **arguments))
