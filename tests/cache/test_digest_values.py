"""Digests of values: equal for equal ones, different for all others, refused for what hides its state."""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import itertools
import math
import operator
import os
import pathlib
import random
import re
import sys
import threading
import time
import types
import typing
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opennki import nki
from opennki.cache.closure import digest_function, digest_values
from opennki.cache.digest import Digest, Undigestible

nisa: Any = import_module("opennki.nki.isa")
nl: Any = import_module("opennki.nki.language")


def digest_of(value: object) -> str:
    """Return the digest of one value."""
    found = digest_values(digest_of, (value,), {})
    assert isinstance(found, Digest), found.reason
    assert found.cells.hold()
    assert found.cells.changed() is None
    return found.value


def reason_of(value: object) -> str:
    """Return why a value has no digest."""
    found = digest_values(reason_of, (value,), {})
    assert isinstance(found, Undigestible)
    return found.reason


class Colour(enum.Enum):
    red = 1
    blue = 2


class Bits(enum.Flag):
    x = 1
    y = 2


class Word(str, enum.Enum):  # noqa: UP042  # an older way to write it, as users do
    one = "q"


@dataclasses.dataclass
class Open:
    a: int = 1
    b: typing.Optional[list[int]] = None  # noqa: UP045  # an older way to write it, as users do
    c: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    a: int = 1


class Callback:
    def __init__(self, x: object) -> None:
        self.x = x

    def __call__(self, y: int) -> object:
        return self.x, y

    @functools.cached_property
    def kept(self) -> int:
        return 5


class ByHand:
    __slots__ = ("__hidden", "a", "missing")

    def __init__(self) -> None:
        self.a = 1
        self.__hidden = 2


class Sequence(list[int]):
    pass


class Integer(int):
    pass


Pair = collections.namedtuple("Pair", "x y")  # an older way to write it


class Point(typing.NamedTuple):
    x: int
    y: int = 3


class Config(nl.NKIObject):  # type: ignore[misc]  # of an untyped module
    pass


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self) -> None:
        self.content = 1


@functools.lru_cache
def remembered(x: int) -> int:
    return x


def wrapper(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapped(*args: Any) -> Any:
        return f(*args)

    return wrapped


def cyclic() -> list[Any]:
    inner: list[Any] = [1]
    inner.append(inner)
    return inner


VALUES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "true": lambda: True,
    "one": lambda: 1,
    "one as a float": lambda: 1.0,
    "zero": lambda: 0.0,
    "minus zero": lambda: -0.0,
    "nan": lambda: math.nan,
    "large": lambda: 1 << 200,
    "complex": lambda: 1j,
    "text": lambda: "1",
    "lone surrogate": lambda: "\udc80",
    "bytes": lambda: b"1",
    "bytearray": lambda: bytearray(b"1"),
    "tuple": lambda: (1, 2),
    "nested": lambda: ((1,), 2),
    "list": lambda: [1, 2],
    "cycle": cyclic,
    "dict": lambda: {"a": 1, "b": 2},
    "ordered dict": lambda: collections.OrderedDict(a=1, b=2),
    "default dict": lambda: collections.defaultdict(list, a=[1]),
    "counter": lambda: collections.Counter("aab"),
    "deque": lambda: collections.deque([1, 2], 3),
    "deque without end": lambda: collections.deque([1, 2]),
    "set": lambda: {1, 2, "x"},
    "frozenset": lambda: frozenset({1, 2, "x"}),
    "range": lambda: range(3),
    "slice": lambda: slice(1, 2),
    "ellipsis": lambda: ...,
    "enum": lambda: Colour.red,
    "other member": lambda: Colour.blue,
    "flags": lambda: Bits.x | Bits.y,
    "text enum": lambda: Word.one,
    "enum class": lambda: Colour,
    "dataclass": lambda: Open(),
    "dataclass with another list": lambda: Open(c=[1]),
    "slotted dataclass": lambda: Slotted(),
    "object": lambda: Callback(1),
    "object with another attribute": lambda: Callback(1.0),
    "slots": lambda: ByHand(),
    "list subclass": lambda: Sequence([1, 2]),
    "int subclass": lambda: Integer(1),
    "named tuple": lambda: Pair(1, 2),
    "typed named tuple": lambda: Point(1),
    "namespace": lambda: types.SimpleNamespace(a=1),
    "mapping proxy": lambda: types.MappingProxyType({"a": [1]}),
    "configuration": lambda: Config(a=1, b=[2]),
    "generic": lambda: Box(),
    "lambda": lambda: lambda x: x + 1,
    "function": lambda: cyclic,
    "wrapped function": lambda: wrapper(cyclic),
    "remembered function": lambda: remembered,
    "partial": lambda: functools.partial(operator.add, 1),
    "partial with a keyword": lambda: functools.partial(remembered, x=1),
    "bound method": lambda: Callback(1).__call__,
    "class": lambda: Callback,
    "builtin": lambda: math.sqrt,
    "method of a list": lambda: [1].index,
    "kernel": lambda: nki.jit(cyclic),
    "kernel with a degree": lambda: nki.jit(cyclic)[2],
    "float32": lambda: np.float32(1),
    "float64": lambda: np.float64(1),
    "bfloat16": lambda: ml_dtypes.bfloat16(1),
    "array": lambda: np.arange(4),
    "array of another shape": lambda: np.arange(4).reshape(2, 2),
    "array of another dtype": lambda: np.arange(4).astype(np.int32),
    "bfloat16 array": lambda: np.zeros(2, ml_dtypes.bfloat16),
    "float16 array": lambda: np.zeros(2, np.float16),
    "structured array": lambda: np.zeros(2, [("a", "i4")]),
    "array without axes": lambda: np.array(1.0),
    "dtype": lambda: np.dtype("float32"),
    "dtype class": lambda: np.float32,
    "ufunc": lambda: np.add,
    "operator of nl": lambda: nl.add,
    "other operator of nl": lambda: nl.multiply,
    "engine": lambda: nisa.engine.vector,
    "instruction": lambda: nisa.dma_copy,
    "tile size": lambda: nl.tile_size,
    "module": lambda: math,
    "pattern": lambda: re.compile("a+"),
    "pattern with flags": lambda: re.compile("a+", re.IGNORECASE),
    "item getter": lambda: operator.itemgetter(1),
    "attribute getter": lambda: operator.attrgetter("a.b"),
    "decimal": lambda: decimal.Decimal("1.5"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "date": lambda: datetime.date(2020, 1, 1),
    "generic alias": lambda: list[int],
    "union": lambda: int | None,
    "version": lambda: sys.version_info,
    "pure path": lambda: pathlib.PurePosixPath("a/b"),
}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES.keys())
def test_equal_values_have_equal_digests(make: Callable[[], Any]) -> None:
    assert digest_of(make()) == digest_of(make())


def test_different_values_have_different_digests() -> None:
    named: dict[str, list[str]] = {}
    for name, make in VALUES.items():
        named.setdefault(digest_of(make()), []).append(name)
    assert [names for names in named.values() if len(names) > 1] == []


def generator() -> Iterator[int]:
    yield 1


HIDDEN: dict[str, tuple[Callable[[], Any], str]] = {
    "lock": (threading.Lock, "holds a `_thread.lock`, whose state cannot be read"),
    "file": (lambda: io.StringIO("x"), "holds a `_io.StringIO`, whose state cannot be read"),
    "random numbers": (lambda: random.Random(1), "holds a `random.Random`, whose state cannot be read"),
    "NumPy's random numbers": (np.random.default_rng, "holds a `numpy.random._generator.Generator`"),
    "generator": (generator, "holds a `builtins.generator`"),
    "iterator": (lambda: iter([1]), "holds a `builtins.list_iterator`"),
    "count": (itertools.count, "holds a `itertools.count`"),
    "weak reference": (lambda: weakref.ref(Callback), "holds a `weakref.ReferenceType`"),
    "context variable": (lambda: contextvars.ContextVar("a"), "holds a `_contextvars.ContextVar`"),
    "array of objects": (lambda: np.array([object()]), "holds an array of Python objects"),
    "masked array": (lambda: np.ma.array([1]), "holds a `MaskedArray`"),
    "path": (lambda: pathlib.Path("a"), "uses `pathlib."),
    "clock": (lambda: time.time, "uses `time.time`, which no key can answer for"),
    "environment": (lambda: os.environ, "uses `os._Environ`, which no key can answer for"),
    "open": (lambda: open, "which no key can answer for"),
    "hidden deep inside": (lambda: {"a": [Callback((threading.Lock(),))]}, "holds a `_thread.lock`"),
    "user's ufunc": (lambda: np.frompyfunc(len, 1, 1), "holds a `numpy.ufunc`"),
}


@pytest.mark.parametrize(("make", "reason"), HIDDEN.values(), ids=HIDDEN.keys())
def test_hidden_state_is_refused(make: Callable[[], Any], reason: str) -> None:
    found = reason_of(make())
    assert found.startswith("argument `value` ")
    assert reason in found


def test_deep_nesting_is_refused() -> None:
    value: list[Any] = []
    for _ in range(150):
        value = [value]
    assert reason_of(value) == "argument `value` nests deeper than 100"


def test_an_object_without_end_is_refused() -> None:
    assert reason_of([[0, [i]] for i in range(200_000)]) == "argument `value` reaches more than 200000 values"


def test_which_sentinel_it_is_counts() -> None:
    a, b = object(), object()
    assert digest_of([a, b, a]) == digest_of([b, a, b])
    assert digest_of([a, b, a]) != digest_of([a, b, b])


def test_what_a_cached_property_keeps_is_a_value_and_no_change() -> None:
    callback = Callback(1)
    before = digest_values(digest_of, (callback,), {})
    assert isinstance(before, Digest)
    assert callback.kept == 5
    assert before.cells.hold()
    assert digest_of(callback) != before.value


def test_what_lru_cache_remembers_must_follow_from_what_holds() -> None:
    factor = [2.0]

    @functools.lru_cache
    def helper(n: int) -> float:
        return n * factor[0] if n < 2 else helper(n - 1)

    before = digest_function(helper)
    assert isinstance(before, Digest)
    assert helper(3) == 2.0
    again = digest_function(helper)
    assert isinstance(again, Digest)
    assert again.value == before.value
    factor[0] = 5.0
    found = digest_function(helper)
    assert isinstance(found, Undigestible)
    assert found.reason == ("kernel uses what `helper` remembers of earlier calls, by `functools.lru_cache`")
    helper.cache_clear()
    assert isinstance(digest_function(helper), Digest)


def test_what_lru_cache_remembers_from_before_is_refused() -> None:
    @functools.lru_cache
    def helper(n: int) -> int:
        return n

    assert helper(1) == 1
    assert isinstance(digest_function(helper), Undigestible)


def reaches_globals() -> Any:
    return first.__globals__["FACTOR"]


def reaches_subclasses() -> Any:
    return Callback.__subclasses__()


@pytest.mark.parametrize("function", [reaches_globals, reaches_subclasses])
def test_attributes_that_lead_anywhere(function: Callable[..., Any]) -> None:
    found = digest_function(function)
    assert isinstance(found, Undigestible)
    assert found.reason.endswith("by which it may reach anything")


FACTOR = 2.0


def first(n: int) -> float:
    return second(n - 1) if n else FACTOR


def second(n: int) -> float:
    return first(n - 1) if n else FACTOR


def test_functions_that_call_each_other() -> None:
    found = digest_function(first)
    assert isinstance(found, Digest)
    assert {name for name in found.parts if name.startswith("global")} == {
        "global `FACTOR` of test_digest_values.py",
        "global `first` of test_digest_values.py",
        "global `second` of test_digest_values.py",
    }


def assigns_a_global() -> None:
    global FACTOR
    FACTOR = 3.0


def assigns_an_attribute() -> None:
    nl.something = 1


def makes_text_code() -> Any:
    return eval("FACTOR")


def reads_the_clock() -> Any:
    return datetime.datetime.now().year


def reads_the_environment() -> Any:
    return os.environ["HOME"]


def imports_what_fails() -> Any:
    import module_that_fails  # type: ignore[import-not-found]  # made below

    return module_that_fails


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (assigns_a_global, "assigns `FACTOR`, which lies outside of it"),
        (assigns_an_attribute, "assigns `nl.something`, which lies outside of it"),
        (makes_text_code, "uses `builtins.eval`, which no key can answer for"),
        (reads_the_clock, "uses `datetime.datetime.now`, which no key can answer for"),
        (reads_the_environment, "uses `os.environ`, which no key can answer for"),
        (imports_what_fails, "imports `module_that_fails`, which fails (ZeroDivisionError)"),
    ],
)
def test_functions_without_a_digest(
    function: Callable[..., Any], reason: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_that_fails.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    found = digest_function(function)
    assert isinstance(found, Undigestible)
    assert found.reason.endswith(f"{reason}")
    assert f"function `{function.__name__}` of test_digest_values.py" in found.reason


def test_an_import_of_nothing_may_be_caught() -> None:
    def kernel() -> int:
        try:
            import no_such_module_anywhere  # type: ignore[import-not-found]  # that is the point
        except ImportError:
            return 1
        return int(no_such_module_anywhere.number)

    found = digest_function(kernel)
    assert isinstance(found, Digest)
    assert "module `no_such_module_anywhere`" in found.parts


def test_a_package_is_not_loaded_for_its_digest() -> None:
    def kernel() -> object:
        import this

        return this

    for name in [name for name in sys.modules if name == "this"]:
        del sys.modules[name]
    found = digest_function(kernel)
    assert isinstance(found, Digest)
    assert "module `this`" in found.parts
    assert "this" not in sys.modules


def test_nki_is_ours_under_its_other_name() -> None:
    def kernel() -> object:
        import nki.language as language

        return language.float32

    found = digest_function(kernel)
    assert isinstance(found, Digest)
    assert sorted(found.parts) == [
        "function `test_nki_is_ours_under_its_other_name.<locals>.kernel` of test_digest_values.py",
        "kernel",
        "module `nki.language`",
        "module `nki`",
        "place of function `test_nki_is_ours_under_its_other_name.<locals>.kernel` of test_digest_values.py",
    ]


def test_an_outer_variable_that_is_assigned() -> None:
    count = 0

    def kernel() -> None:
        nonlocal count
        count += 1

    found = digest_function(kernel)
    assert isinstance(found, Undigestible)
    assert found.reason.endswith("assigns `count`, which lies outside of it")


def test_a_variable_of_the_kernels_own_may_be_assigned() -> None:
    def kernel() -> int:
        count = 0

        def inner() -> None:
            nonlocal count
            count += 1

        inner()
        return count

    assert isinstance(digest_function(kernel), Digest)


def test_the_version_of_a_package_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel() -> Any:
        return np.float32(1)

    found = digest_function(kernel)
    assert isinstance(found, Digest)
    assert found.parts["package `numpy`"].shown == np.__version__
    monkeypatch.setattr(np, "__version__", "1.0")
    other = digest_function(kernel)
    assert isinstance(other, Digest)
    assert {name for name in found.parts if found.parts[name] != other.parts[name]} == {"package `numpy`"}


def test_a_version_that_is_more_than_a_string_is_kept_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch's is; the parts of a key are written as they are."""

    class Version(str):
        __slots__ = ()

    def kernel() -> Any:
        return np.float32(1)

    monkeypatch.setattr(np, "__version__", Version("1.0+cpu"))
    found = digest_function(kernel)
    assert isinstance(found, Digest)
    shown = found.parts["package `numpy`"].shown
    assert (shown, type(shown)) == ("1.0+cpu", str)
