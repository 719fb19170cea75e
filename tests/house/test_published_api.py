"""Our `nki` has the published names, parameters, defaults and enum values; `published.py` says the source."""

from __future__ import annotations

import enum
import importlib
import inspect
from types import ModuleType
from typing import Any

import pytest

import opennki
from opennki.diag import OpenNkiError
from tests.house.published import PublishedModule, parameters, published, read_stub

opennki.install()

NOT_YET: dict[str, int] = {}
"""`module.name` that does not exist yet, and the issue that brings it. A name that exists and raises the
"not yet" code ONKI102 when called is not listed: its signature is already compared."""

DEVIATIONS = {"nki.isa.core_barrier": ["cores"]}
"""`module.function` → the parameters whose default differs on purpose: real kernels leave out `cores`."""

NOT_PUBLIC = {"nki.language.DType"}
"""Names that the stubs need for their own annotations."""


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


def _missing(module: ModuleType, name: str) -> bool:
    """Tell whether `module.name` is missing; an attribute that raises our "not yet" code is announced."""
    try:
        getattr(module, name)
    except AttributeError:
        return True
    except OpenNkiError as refusal:
        return refusal.code != "ONKI102"
    return False


def _names(module: PublishedModule) -> set[str]:
    names = {*module.functions, *module.classes, *module.enums, *module.names}
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("name", list(published()))
def test_every_published_name_exists(name: str) -> None:
    ours = _module(name)
    missing = {f"{name}.{attribute}" for attribute in _names(published()[name]) if _missing(ours, attribute)}
    listed = {entry for entry in NOT_YET if entry.rpartition(".")[0] == name}
    assert missing - listed - NOT_PUBLIC == set()
    assert listed - missing == set(), "these exist now: take them off NOT_YET"


FUNCTIONS = [(module, name) for module, facts in published().items() for name in facts.functions]


def _default(module: str, text: str) -> Any:
    """Return the value of a default as the stubs write it: a literal, or a name of the module or of `nl`."""
    scope = vars(_module("nki.language")) | vars(_module(module))
    return eval(text, {"__builtins__": {}}, scope)


def _signature(function: Any) -> list[tuple[str, Any]]:
    marks: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        (marks.get(parameter.kind, "") + parameter.name, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize(
    ("module", "name"), FUNCTIONS, ids=[f"{module}.{name}" for module, name in FUNCTIONS]
)
def test_parameters_are_the_published_ones(module: str, name: str) -> None:
    if f"{module}.{name}" in NOT_YET:
        assert _missing(_module(module), name)
        return
    expected = [
        (parameter, inspect.Parameter.empty if default is None else _default(module, default))
        for parameter, default in parameters(published()[module].functions[name])
    ]
    actual = _signature(getattr(_module(module), name))
    assert [parameter for parameter, _ in actual] == [parameter for parameter, _ in expected]
    different = [a[0] for a, e in zip(actual, expected, strict=True) if not _same(a[1], e[1])]
    assert different == DEVIATIONS.get(f"{module}.{name}", [])


def _same(ours: object, published_value: object) -> bool:
    """Compare defaults; 1, 1.0 and True are three values. `nl.maximum` is the name of an operator of ours.

    A default that the stub leaves out (`...`) is whatever the documentation's text says.
    """
    if published_value is ...:
        return ours is not inspect.Parameter.empty
    return ours is getattr(published_value, "operator", published_value) or (
        type(ours) is type(published_value) and ours == published_value
    )


ENUMS = [(module, name) for module, facts in published().items() for name in facts.enums]


@pytest.mark.parametrize(("module", "name"), ENUMS, ids=[f"{module}.{name}" for module, name in ENUMS])
def test_enums_have_the_published_members(module: str, name: str) -> None:
    ours = getattr(_module(module), name)
    assert issubclass(ours, enum.Enum)
    assert {member.name: member.value for member in ours} == published()[module].enums[name]


TENSOR_METHODS = published()["nki.language"].classes["NkiTensor"]
TENSOR_NOT_YET: dict[str, int] = {}
"""Methods and attributes of `NkiTensor` that do not exist yet, and the issue that brings them."""

TENSOR_EXTRA = {"reshape": "*more"}
"""What a method takes beyond the published parameters: `reshape(2, 3)` is `reshape((2, 3))`, as in NumPy."""


def test_tensor_has_the_published_methods_and_attributes() -> None:
    tensor = _module("nki.language").NkiTensor
    attributes = set(published()["nki.language"].attributes["NkiTensor"])
    names = {name for name in dir(tensor) if not name.startswith("_")}
    missing = (attributes | set(TENSOR_METHODS)) - names - {"__init__"}
    assert missing == set(TENSOR_NOT_YET)


@pytest.mark.parametrize("name", [name for name in TENSOR_METHODS if not name.startswith("_")])
def test_tensor_methods_have_the_published_parameters(name: str) -> None:
    if name in TENSOR_NOT_YET:
        assert not hasattr(_module("nki.language").NkiTensor, name)
        return
    expected = parameters(TENSOR_METHODS[name])
    actual = _signature(getattr(_module("nki.language").NkiTensor, name))
    if name in TENSOR_EXTRA:
        assert actual.pop()[0] == TENSOR_EXTRA[name]
    assert [parameter for parameter, _ in actual] == [parameter for parameter, _ in expected]
    defaults = [None if value is inspect.Parameter.empty else repr(value) for _, value in actual]
    assert defaults == [default for _, default in expected]


def test_tile_size_has_the_published_limits() -> None:
    limits = _module("nki.language").tile_size
    expected = set(published()["nki.language"].attributes["_TileSize"])
    assert {name for name in expected if hasattr(limits, name)} == expected


def test_reading_a_stub() -> None:
    stub = read_stub(
        "class mode(Enum):\n    'text'\n    a = 1\n"
        "x: int = ...\n"
        "def f(p: T, q: float | T=1.0, *, r=mode.a): ...\n"
    )
    assert stub.functions == {"f": "p, q=1.0, *, r=mode.a"}
    assert stub.enums == {"mode": {"a": 1}}
    assert stub.names == ["x"]
    assert parameters(stub.functions["f"]) == [("p", None), ("q", "1.0"), ("r", "mode.a")]
