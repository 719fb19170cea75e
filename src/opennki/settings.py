"""Settings and where each comes from: targets, LNC degrees, switches.

The one module that reads the environment, at the time of the call and never before. Of several sources the
first one that is set wins; an empty variable is not set. Resolving raises usage errors only (ONKI001,
ONKI002, ONKI008, and ONKI301 for a kernel with two degrees); whether the target has the degree is
`check_degree`, which a caller runs after it has resolved all its settings.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from operator import index
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, TypeVar

from msgspec import Struct

from opennki.diag import Diagnostic, Location, OpenNkiError, diagnostic, error, fail
from opennki.targets import TARGETS, Target, find_target

if TYPE_CHECKING:  # importing it costs 3 ms
    from pathlib import Path

__all__ = [
    "VARIABLES",
    "Kind",
    "Setting",
    "SettingRow",
    "cache_folder",
    "cache_limit",
    "check_degree",
    "degree_diagnostic",
    "describe_settings",
    "direct_call_degree",
    "eager_degree",
    "explicit_graph_degree",
    "graph_degree",
    "kernel_degree",
    "kernel_lnc_from_graph",
    "launch_variables",
    "parse_degree",
    "precise_fp",
    "runtime_degree",
    "simulator_requested",
    "supported_degrees",
    "target_setting",
    "trace_switches",
]

T = TypeVar("T")

Kind = Literal["bracket", "option", "flag", "environment", "artifact", "kernel", "default", "eager"]
"""Where a value comes from. `flag` is one inside NEURON_CC_FLAGS, `kernel` the kernel's own degree."""

DEGREE = "NEURON_LOGICAL_NC_CONFIG"
VIRTUAL_CORE_SIZE = "NEURON_RT_VIRTUAL_CORE_SIZE"
COMPILER_FLAGS = "NEURON_CC_FLAGS"
TARGET_OVERRIDE = "NEURON_PLATFORM_TARGET_OVERRIDE"
NC_VERSION = "NKI_NC_VERSION"
KERNEL_LNC = "OPENNKI_KERNEL_LNC"
PRECISE_FP = "NKI_PRECISE_FP"
SIMULATOR = "NKI_SIMULATOR"
CACHE_DIR = "OPENNKI_CACHE_DIR"
CACHE_LIMIT = "OPENNKI_CACHE_LIMIT"

VARIABLES: dict[str, str] = {
    TARGET_OVERRIDE: "the target, unless an option names one",
    NC_VERSION: f"the target, where neither an option nor {TARGET_OVERRIDE} names one",
    DEGREE: "the degree of kernels without bracket, of graphs without `--lnc`, and of the runtime",
    COMPILER_FLAGS: f"`--lnc` in it is the degree of graphs without option, before {DEGREE}",
    VIRTUAL_CORE_SIZE: f"the degree of the runtime, where {DEGREE} is not set",
    KERNEL_LNC: "`graph`: a kernel without bracket takes the degree of its graph",
    PRECISE_FP: "`0`: low-precision tensors are kept in fp32 while a kernel runs",
    SIMULATOR: "`1`: kernels run in the simulator at their own degree, without the checks of baking",
    CACHE_DIR: "the folder of the cache, else `opennki` in the platform's cache folder",
    CACHE_LIMIT: "how large the cache may grow, `512MiB` for instance, 1GiB by default; `0` turns it off",
}
"""Every variable that OpenNKI reads, and what it sets."""

_LAUNCH = (
    SIMULATOR,
    TARGET_OVERRIDE,
    NC_VERSION,
    DEGREE,
    COMPILER_FLAGS,
    KERNEL_LNC,
    PRECISE_FP,
    CACHE_LIMIT,
)
"""What a direct call depends on, apart from the runtime's degree, which an executable looks at itself."""

_LAUNCH_KEYS = tuple(map(os.environ.encodekey, _LAUNCH))

_CACHE_LIMIT_BYTES = 1 << 30
_SIZE = re.compile(r"(\d{1,18})\s*(?:([KMGT])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)

_DEGREE_FLAGS = ("--lnc", "-lnc", "--logical-nc-config")
_SHOWN_CHARACTERS = 60


class Setting(Struct, Generic[T], frozen=True):
    """A value and where it comes from.

    `origin` completes "comes from". `change` is what a person types or does to give another value, `{}`
    standing for it; "" where nothing helps.
    """

    value: T
    origin: str
    kind: Kind
    change: str = ""

    def edit(self, value: object) -> str:
        """Return what to type for `value` to come from the same place, "" where that cannot be."""
        return self.change.replace("{}", str(value))


class SettingRow(Struct, frozen=True):
    """One line of `opennki doctor`. `value` is None where a variable is not set or cannot be read."""

    name: str
    value: str | None
    origin: str
    effect: str
    problem: str | None = None


def target_setting(
    option: str | None = None, artifacts: Sequence[str] = (), *, spelled: str = "target="
) -> Setting[Target]:
    """Return the target: option, environment, the artifacts' own, trn3.

    `artifacts` are the targets of the artifacts if the graph is artifacts only; the first one counts, baking
    compares the others with it. `spelled` is how the user writes the option. Errors: ONKI002.
    """
    if option is not None:
        origin = f"the option `{spelled}{_shown(option)}`"
        return Setting(find_target(option, origin), origin, "option", f"give `{spelled}{{}}`")
    for variable in (TARGET_OVERRIDE, NC_VERSION):
        name = _variable(variable)
        if name is not None:
            origin = f"{variable}={_shown(name)}"
            return Setting(find_target(name, origin), origin, "environment", f"`export {variable}={{}}`")
    if artifacts:
        origin = "the artifact, which was traced for it"
        return Setting(find_target(artifacts[0], origin), origin, "artifact", "trace again for {}")
    return Setting(TARGETS["trn3"], "the default", "default", f"`export {TARGET_OVERRIDE}={{}}`")


def kernel_degree(
    bracket: object | None,
    option: object | None,
    target: Setting[Target],
    kernel: str,
    *,
    graph: Setting[int] | None = None,
    spelled: str = "lnc=",
    at: Location | None = None,
) -> Setting[int]:
    """Return a kernel's degree: bracket, option of `trace` or `check`, environment, 1.

    `graph` is the degree of the graph that the kernel is called in, where it is known: under
    OPENNKI_KERNEL_LNC=graph a kernel with neither bracket nor option takes it. `at` is the launch.
    Errors: ONKI001; a bracket and an option that differ are ONKI301, after NCC_EARG001 for either.
    """
    launched = f"launch `{kernel}[{{}}](…)`"
    from_bracket = from_option = None
    if bracket is not None:
        origin = f"the bracket of `{kernel}[{_shown(bracket)}]`"
        from_bracket = Setting(parse_degree(bracket, origin, at=at), origin, "bracket", launched)
    if option is not None:
        from_option = _option_degree(option, spelled, at=at)
    if from_bracket and from_option and from_bracket.value != from_option.value:
        check_degree(from_bracket, target, at=at)
        check_degree(from_option, target, at=at)
        _refuse_two_degrees(kernel, from_bracket, from_option, at)
    chosen = from_bracket or from_option
    if chosen is None and graph is not None and kernel_lnc_from_graph():
        chosen = Setting(graph.value, f"the graph, by {KERNEL_LNC}=graph", graph.kind, launched)
    return chosen or _environment_degree(DEGREE) or Setting(1, "the default of a kernel", "default", launched)


def graph_degree(
    option: object | None,
    target: Setting[Target],
    *,
    flags: Sequence[str] | str | None = None,
    spelled: str = "lnc=",
) -> Setting[int]:
    """Return a graph's degree: option, NEURON_CC_FLAGS, environment, the default of the target.

    `flags` are compiler options as the user gives them, in which the right-most degree wins. Errors: ONKI001,
    ONKI008.
    """
    explicit = explicit_graph_degree(option, flags=flags, spelled=spelled)
    if explicit is not None:
        return explicit
    found = target.value
    return Setting(
        found.lnc_default, f"the default of {found.name}", "default", "compile the graph with `--lnc {}`"
    )


def direct_call_degree(
    kernel: Setting[int],
    option: object | None = None,
    *,
    flags: Sequence[str] | str | None = None,
    spelled: str = "--lnc ",
) -> Setting[int]:
    """Return the degree of a direct call on NumPy arrays, a graph of one call.

    That is `run --lnc`, NEURON_CC_FLAGS, environment, the kernel's own. Errors: ONKI001, ONKI008.
    """
    explicit = explicit_graph_degree(option, flags=flags, spelled=spelled)
    if explicit is not None:
        return explicit
    return Setting(kernel.value, f"the kernel's own degree, from {kernel.origin}", "kernel", kernel.change)


def explicit_graph_degree(
    option: object | None, *, flags: Sequence[str] | str | None = None, spelled: str = "lnc="
) -> Setting[int] | None:
    """Return the graph's degree if an option, NEURON_CC_FLAGS or the environment sets it."""
    if option is not None:
        return _option_degree(option, spelled)
    if flags is not None:
        found = _find_degree_flag(_tokens("flags", flags) if isinstance(flags, str) else flags)
        if found is not None:
            return _flag_degree(found, f"the option `{_shown(found.typed)}`", "option", "give `{}`")
    text = _variable(COMPILER_FLAGS)
    found = _find_degree_flag(_tokens(COMPILER_FLAGS, text)) if text is not None else None
    if found is not None:
        typed = _shown(found.typed)
        change = f"change `{typed}` to `{{}}` in {COMPILER_FLAGS}"
        return _flag_degree(found, f"the flag `{typed}` in {COMPILER_FLAGS}", "flag", change)
    return _environment_degree(DEGREE)


def runtime_degree(compiled: int) -> Setting[int]:
    """Return the runtime's degree: environment, its older name, what the executable was compiled for.

    A device differs: its default on trn2 and trn3 is 2. Errors: ONKI001.
    """
    return (
        _environment_degree(DEGREE)
        or _environment_degree(VIRTUAL_CORE_SIZE)
        or Setting(
            compiled, "the executable, which was compiled for it", "artifact", "compile the graph for LNC={}"
        )
    )


def eager_degree() -> Setting[int]:
    """Return the degree of a kernel call on framework tensors outside a compiled graph: always 1.

    Source: seed/ncc_enki003.
    """
    return Setting(1, "the eager path, which always compiles for LNC=1", "eager")


def parse_degree(value: object, origin: str, *, at: Location | None = None) -> int:
    """Return `value` as a degree: a positive integer of any integral type, or its decimal text.

    Errors: ONKI001 for anything else, truth values and floats included.

    >>> parse_degree(" 2 ", "the option `lnc= 2 `")
    2
    """
    degree = _positive_integer(value)
    if degree is None:
        fail("ONKI001", at=at, value=_shown(value) or '""', origin=origin)
    return degree


def check_degree(
    degree: Setting[int], target: Setting[Target], *, at: Location | None = None, label: str = ""
) -> None:
    """Raise NCC_EARG001 if the target lacks the degree. Run it after all settings are resolved."""
    found = degree_diagnostic(degree, target, at=at, label=label)
    if found is not None:
        raise error(found)


def degree_diagnostic(
    degree: Setting[int], target: Setting[Target], *, at: Location | None = None, label: str = ""
) -> Diagnostic | None:
    """Return NCC_EARG001 if the target lacks the degree, naming the degrees it has and both origins."""
    chip = target.value
    if degree.value in chip.lnc_allowed:
        return None
    best = max(chip.lnc_allowed)
    able = [other.name for other in TARGETS.values() if degree.value in other.lnc_allowed]
    helps = [f"use LNC={supported_degrees(chip)}" + (f": {degree.edit(best)}" if degree.change else "")]
    if able:
        edit = target.edit(able[0])
        helps.append(f"choose a target that has LNC={degree.value} ({', '.join(able)}): {edit}")
    return diagnostic(
        "NCC_EARG001",
        at=at,
        label=label,
        notes=(
            f"LNC={degree.value} comes from {degree.origin}",
            f"the target {chip.name} comes from {target.origin}",
        ),
        help=helps,
        data={
            "allowed": list(chip.lnc_allowed),
            "degree_origin": degree.origin,
            "degree_kind": degree.kind,
            "target_origin": target.origin,
            "target_kind": target.kind,
        },
        lnc=degree.value,
        target=chip.name,
        supported=supported_degrees(chip),
    )


def supported_degrees(target: Target) -> str:
    """Return the degrees of a target as a person reads them: `1`, or `1 or 2`."""
    return " or ".join(str(degree) for degree in target.lnc_allowed)


def kernel_lnc_from_graph() -> bool:
    """Return whether a kernel without bracket takes its graph's degree: OPENNKI_KERNEL_LNC=graph.

    Errors: ONKI008 for any other value.
    """
    return _choice(KERNEL_LNC, {"graph": True}, default=False)


def precise_fp() -> bool:
    """Return whether low-precision tensors keep their dtype: NKI_PRECISE_FP, on unless it is 0.

    Read when a kernel is simulated and when an executable first runs. Errors: ONKI008 for a value other than
    0 and 1. Source: nki_simulator guide, NKI 0.4.
    """
    return _choice(PRECISE_FP, {"0": False, "1": True}, default=True)


def simulator_requested() -> bool:
    """Return whether kernels run in the simulator: NKI_SIMULATOR=1.

    Errors: ONKI008 for a value other than 0 and 1. Source: nki_simulator guide.
    """
    return _choice(SIMULATOR, {"0": False, "1": True}, default=False)


def trace_switches() -> dict[str, str]:
    """Return the switches that instructions read while a kernel is traced, by variable, as they are in force.

    Errors: ONKI008.
    """
    return {PRECISE_FP: "1" if precise_fp() else "0"}


def launch_variables() -> tuple[object, ...]:
    """Return what every variable that a direct call depends on holds: equal tuples, equal settings."""
    held = getattr(os.environ, "_data", None)
    if type(held) is dict:  # CPython's: 1 µs instead of 10, which would be a fifth of a cached call
        return tuple(map(held.get, _LAUNCH_KEYS))
    return tuple(map(os.environ.get, _LAUNCH))


def cache_folder() -> Path | None:
    """Return the folder of the cache: OPENNKI_CACHE_DIR, else `opennki` in the platform's cache folder.

    The platform's is XDG_CACHE_HOME where that is set, `~/Library/Caches` on macOS, LOCALAPPDATA on Windows,
    else `~/.cache`. None where the user has no home.
    """
    from pathlib import Path

    own = os.environ.get(CACHE_DIR, "")
    if own.strip():
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    if not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "").strip()
    if not base:
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, "Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(base, "opennki")


def cache_limit() -> int:
    """Return how many bytes the cache may have: OPENNKI_CACHE_LIMIT, 1 GiB by default; 0 turns it off.

    Errors: ONKI008 for what is no size, such as `500000000`, `512MiB` or `2GiB`.
    """
    text = _variable(CACHE_LIMIT)
    if text is None:
        return _CACHE_LIMIT_BYTES
    found = _SIZE.fullmatch(text)
    if found is None:
        fail(
            "ONKI008",
            variable=CACHE_LIMIT,
            value=_shown(text),
            reason="expected a size such as `512MiB` or `2GiB`, or `0`",
            help=(f"set it to a size in bytes, KiB, MiB or GiB, or `unset {CACHE_LIMIT}`",),
        )
    return int(found[1]) << 10 * " KMGT".index((found[2] or " ").upper())


def describe_settings() -> list[SettingRow]:
    """Return what is in force where no option and no bracket says otherwise, then every variable.

    Nothing is raised: what cannot be read has its headline in `problem`.
    """
    target = _try(target_setting)
    rows = [_resolved("target", target, "the chip that kernels are traced and graphs compiled for")]
    chip = target if isinstance(target, Setting) else Setting(TARGETS["trn3"], "", "default")
    degrees: tuple[tuple[str, Callable[[], Setting[int]], str], ...] = (
        ("kernel's degree", lambda: kernel_degree(None, None, chip, "kernel"), "kernels without bracket"),
        ("graph's degree", lambda: graph_degree(None, chip), "graphs compiled without `--lnc`"),
        ("runtime's degree", lambda: runtime_degree(chip.value.lnc_default), "executables that are run"),
    )
    for name, resolve, effect in degrees:
        found = _try(resolve)
        bad = degree_diagnostic(found, chip) if isinstance(found, Setting) else None
        rows.append(_resolved(name, found, effect, bad.message if bad else None))
    return rows + [_variable_row(name, effect) for name, effect in VARIABLES.items()]


class _Flag(Struct, frozen=True):
    """A degree flag as typed, its value, and how to type another value."""

    typed: str
    value: str
    pattern: str


def _find_degree_flag(tokens: Sequence[str]) -> _Flag | None:
    """Return the right-most degree flag; its value follows `=`, or is the next token."""
    for position in reversed(range(len(tokens))):
        name, equals, value = tokens[position].partition("=")
        if name in _DEGREE_FLAGS:
            if equals:
                return _Flag(tokens[position], value, f"{name}={{}}")
            following = tokens[position + 1 : position + 2]
            return _Flag(" ".join((name, *following)), "".join(following), f"{name} {{}}")
    return None


def _flag_degree(flag: _Flag, origin: str, kind: Kind, change: str) -> Setting[int]:
    return Setting(parse_degree(flag.value, origin), origin, kind, change.replace("{}", flag.pattern))


def _option_degree(option: object, spelled: str, *, at: Location | None = None) -> Setting[int]:
    origin = f"the option `{spelled}{_shown(option)}`"
    return Setting(parse_degree(option, origin, at=at), origin, "option", f"give `{spelled}{{}}`")


def _environment_degree(variable: str) -> Setting[int] | None:
    text = _variable(variable)
    if text is None:
        return None
    origin = f"{variable}={_shown(text)}"
    return Setting(parse_degree(text, origin), origin, "environment", f"`export {variable}={{}}`")


def _refuse_two_degrees(
    kernel: str, bracket: Setting[int], option: Setting[int], at: Location | None
) -> NoReturn:
    fail(
        "ONKI301",
        at=at,
        kernel=kernel,
        bracket=bracket.value,
        other=option.origin,
        option=option.value,
        help=(f"drop the bracket, or {bracket.edit(option.value)}", f"drop {option.origin}"),
        data={"bracket_origin": bracket.origin, "option_origin": option.origin},
    )


def _positive_integer(value: object) -> int | None:
    if not isinstance(value, str):
        degree = _integer(value)
    else:
        text = value.strip().removeprefix("+")
        is_number = text.isascii() and text.isdigit() and len(text) <= _SHOWN_CHARACTERS
        degree = int(text) if is_number else None
    return degree if degree is not None and degree > 0 else None


def _integer(value: object) -> int | None:
    """Return a value of any integral type but bool as an int, None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return index(value)  # type: ignore[arg-type]  # what has no __index__ raises
    except TypeError:
        return None


def _variable(name: str) -> str | None:
    """Return the value of an environment variable, blanks around it cut off; None if nothing is left."""
    return os.environ.get(name, "").strip() or None


def _tokens(name: str, text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError as problem:
        reason = str(problem)
        fail(
            "ONKI008",
            variable=name,
            value=_shown(text),
            reason=f"{reason[:1].lower()}{reason[1:]}",
            help=("close every quotation mark, and write a backslash twice",),
        )


def _choice(variable: str, values: dict[str, bool], *, default: bool) -> bool:
    text = _variable(variable)
    if text is None:
        return default
    if text not in values:
        expected = " or ".join(f"`{value}`" for value in values)
        fail(
            "ONKI008",
            variable=variable,
            value=_shown(text),
            reason=f"expected {expected}",
            help=(f"set it to {expected}, or `unset {variable}`",),
        )
    return values[text]


def _shown(value: object) -> str:
    """Return a value as messages show it: text as it is, an integer's digits, else the repr; cut if long."""
    if isinstance(value, str):
        text = value
    else:
        degree = _integer(value)
        text = repr(value) if degree is None else str(degree)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _try(resolve: Callable[[], Setting[T]]) -> Setting[T] | Diagnostic:
    try:
        return resolve()
    except OpenNkiError as problem:
        return problem.diagnostics[0]


def _resolved(
    name: str, found: Setting[T] | Diagnostic, effect: str, problem: str | None = None
) -> SettingRow:
    if isinstance(found, Diagnostic):
        origin = str(found.data.get("origin") or found.data.get("variable", ""))
        return SettingRow(name, None, origin, effect, found.message)
    value = found.value.name if isinstance(found.value, Target) else str(found.value)
    if found.kind == "artifact":  # no number yet: each executable brings its own
        return SettingRow(name, None, found.origin, effect)
    return SettingRow(name, value, found.origin, effect, problem)


def _variable_row(name: str, effect: str) -> SettingRow:
    value = _variable(name)
    return SettingRow(name, value, "environment" if value is not None else "not set", effect)
