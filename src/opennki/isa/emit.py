"""Emitters: the functions that kernels call, generated once a row, and the first meeting of a combination.

The usual call finds its combination of layouts and attributes already checked and appends one record. The
first time, everything is coerced and checked, the engine is chosen, and the verdict is remembered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import numpy as np

from opennki.diag import Label, diagnostic, error, fail
from opennki.ir.types import AttrValue, Engine, Instruction
from opennki.isa.attributes import KINDS
from opennki.isa.define import Call, Check, Role, Row
from opennki.isa.layout import RegisterLayout, TileLayout
from opennki.isa.machine_rules import GENERAL_CHECKS
from opennki.isa.recorder import CURRENT, NkiInstruction, Recorder
from opennki.isa.spell import operand_label

__all__ = ["check_call", "make_emitter"]

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")

_TEMPLATE = """
def key({names}):
    return ({key},)

def {name}({parameters}):
    recorder = current()
    try:
        plan = recorder.plans[{opcode}][({key},)]
        operands = ({operands},)
    except (AttributeError, KeyError, TypeError):
        plan = None
    if plan is None:  # outside of the handler, so that an error has no context of ours
        plan, operands = first_time(ROW, recorder, ({names},), getframe(1))
    frame = getframe(1)
    location = recorder.locations.get((id(frame.f_code), frame.f_lasti))
    if location is None:
        location = recorder.locate(frame)
    instruction = Instruction({opcode}, operands, plan[0], plan[1], location, (), {given_name})
    recorder.append(instruction)
    return NkiInstruction(instruction, recorder)
"""


def _key_of(role: Role) -> str:
    if role.many:
        return f"tuple([t.layout for t in {role.name}])"
    if role.keyed:
        return f"(getattr({role.name}, 'layout', None) or ({role.name}.__class__, {role.name}))"
    if role.number or role.optional:
        return f"getattr({role.name}, 'layout', {role.name}.__class__)"
    return f"{role.name}.layout"


def _operand_of(role: Role) -> str:
    if role.many:
        return f"*[t.access for t in {role.name}]"
    if role.number or role.optional:
        return f"getattr({role.name}, 'access', {role.name})"
    return f"{role.name}.access"


def make_emitter(row: Row) -> Callable[..., NkiInstruction]:
    """Return the function that kernels call for `row`, with the documented signature."""
    names = list(row.signature.parameters)
    scope: dict[str, Any] = {
        "ROW": row,
        "Instruction": Instruction,
        "NkiInstruction": NkiInstruction,
        "current": CURRENT.get,
        "first_time": _first_time,
        "getframe": sys._getframe,
    }
    parameters = []
    for i, (name, parameter) in enumerate(row.signature.parameters.items()):
        if parameter.default is parameter.empty:
            parameters.append(name)
        else:
            scope[f"default{i}"] = parameter.default
            parameters.append(f"{name}=default{i}")
    keyed = [a.name for a in row.attributes] + (["engine"] if row.selects_engine else [])
    text = _TEMPLATE.format(
        name=row.name,
        parameters=", ".join(parameters),
        names=", ".join(names),
        opcode=row.opcode,
        key=", ".join([_key_of(role) for role in row.roles] + keyed),
        operands=", ".join(_operand_of(role) for role in row.roles),
        given_name="name" if "name" in names else "None",
    )
    exec(compile(text, f"{_FOLDER}<row {row.name}>", "exec"), scope)  # a file of ours, to who looks at frames
    emitter: Callable[..., NkiInstruction] = scope[row.name]
    row.key = scope["key"]
    emitter.__doc__ = row.doc
    emitter.__module__ = row.function.__module__
    emitter.__signature__ = row.signature  # type: ignore[attr-defined]  # inspect reads it
    emitter.row = row  # type: ignore[attr-defined]  # the block's rules hang on it
    return emitter


def _first_time(
    row: Row, recorder: Recorder | None, values: tuple[Any, ...], frame: FrameType
) -> tuple[tuple[int, int], tuple[Any, ...]]:
    """Coerce, check and remember one combination; return its plan and its operands."""
    if recorder is None:
        fail("ONKI103", name=row.name)
    given = dict(zip(row.signature.parameters, values, strict=True))
    reporter = _Reporter(row, recorder, given, frame)
    operands, facts = _coerce_operands(row, given, reporter)
    attributes, canonical = _coerce_attributes(row, given, reporter)
    engine_asked = _coerce_engine(row, given, reporter)
    name = given.get("name")
    if name is not None and not isinstance(name, str):
        reporter.wrong_kind("name", "a str or None", name)
    key = row.key(*[canonical.get(n, v) for n, v in zip(given, values, strict=True)])
    plans = recorder.plans[row.opcode]
    plan = plans.get(key)
    if plan is None:
        call = Call(row, facts, row.decode(attributes), engine_asked, recorder.target, recorder.degree)
        check_call(call, reporter.violation)
        plan = (recorder.intern_attributes(attributes), call.engine.value)
        plans[key] = plan
    if all(canonical.get(n, v) is v or n in _attribute_names(row) for n, v in given.items()):
        _remember(row, plans, values, plan)
    return plan, operands


def _attribute_names(row: Row) -> set[str]:
    return {a.name for a in row.attributes}


def _remember(row: Row, plans: dict[Any, Any], values: tuple[Any, ...], plan: tuple[int, int]) -> None:
    """Remember the arguments as written, unless one of them does not hash (a list)."""
    try:
        plans[row.key(*values)] = plan
    except TypeError:
        return


def check_call(call: Call, violated: Callable[[Check, Mapping[str, object]], None]) -> None:
    """Run every check of a call, general ones first; settle its engine. Calls `violated` for each breach."""
    for check in GENERAL_CHECKS:
        numbers = check.test(call)
        if numbers is not None:
            violated(check, numbers)
    for check in call.row.checks:
        numbers = check.test(call)
        if numbers is not None:
            violated(check, numbers)


def _coerce_operands(
    row: Row, given: dict[str, Any], reporter: _Reporter
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    operands: list[Any] = []
    facts: dict[str, Any] = {}
    for role in row.roles:
        value = given[role.name]
        if role.many:
            if not isinstance(value, (list, tuple)) or not value:
                reporter.wrong_kind(role.name, "a list of tensors", value)
            for item in value:
                if not isinstance(getattr(item, "layout", None), TileLayout):
                    reporter.wrong_kind(role.name, "a list of tensors", item)
                reporter.check_owner(role.name, item)
            operands += [item.access for item in value]
            facts[role.name] = tuple(item.layout for item in value)
            continue
        operand, fact = _coerce_operand(role, value, reporter)
        given[role.name] = value if isinstance(fact, (TileLayout, RegisterLayout)) else operand
        operands.append(operand)
        facts[role.name] = fact
    return tuple(operands), facts


def _coerce_operand(role: Role, value: Any, reporter: _Reporter) -> tuple[Any, Any]:
    layout = getattr(value, "layout", None)
    if isinstance(layout, TileLayout) and role.spaces:
        reporter.check_owner(role.name, value)
        return value.access, layout
    if role.register and isinstance(layout, RegisterLayout):
        return value.access, layout
    if value is None and role.optional:
        return None, None
    if role.number and isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        number = value.item() if isinstance(value, np.generic) else value
        number = float(number) if isinstance(number, bool) else number
        return number, number
    kinds = [
        *(["a tensor"] if role.spaces else []),
        *(["a register"] if role.register else []),
        *(["a number"] if role.number else []),
    ]
    expected = " or ".join([*kinds, *(["None"] if role.optional else [])])
    reporter.wrong_kind(role.name, expected, value)
    raise AssertionError  # wrong_kind raises


def _coerce_attributes(
    row: Row, given: dict[str, Any], reporter: _Reporter
) -> tuple[tuple[AttrValue, ...], dict[str, Any]]:
    values: list[AttrValue] = []
    canonical: dict[str, Any] = {role.name: given[role.name] for role in row.roles if not role.many}
    for attribute in row.attributes:
        kind = KINDS[attribute.annotation]
        try:
            value = kind.canonical(given[attribute.name])
        except ValueError as problem:
            reporter.wrong_kind(attribute.name, str(problem), given[attribute.name])
        values.append(value)
        canonical[attribute.name] = value
    if row.has_many:
        values.append(sum(len(given[role.name]) for role in row.roles if role.many))
    return tuple(values), canonical


def _coerce_engine(row: Row, given: dict[str, Any], reporter: _Reporter) -> Engine:
    if not row.selects_engine:
        return Engine.unknown
    engine = given["engine"]
    if engine is None:
        return Engine.unknown
    if not isinstance(engine, Engine):
        reporter.wrong_kind("engine", "a member of `nisa.engine`", engine)
    return Engine(engine)


_OPERANDS = ("role", "a", "b", "like")
"""What checks call the operands that their numbers are about."""


class _Reporter:
    """Turns a violated check into the diagnostic of this call. State: the call as the kernel wrote it."""

    def __init__(self, row: Row, recorder: Recorder, given: dict[str, Any], frame: FrameType) -> None:
        self.row = row
        self.recorder = recorder
        self.given = dict(given)
        self.frame = frame

    def _tiles(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for role in self.row.roles:
            value = self.given.get(role.name)
            items = value if role.many and isinstance(value, (list, tuple)) else [value]
            for i, item in enumerate(items):
                if isinstance(getattr(item, "layout", None), TileLayout):
                    found[f"{role.name}[{i}]" if role.many else role.name] = item
        return found

    def _fields(self) -> tuple[dict[str, str], list[str], list[Label]]:
        fields: dict[str, str] = {}
        notes: list[str] = []
        labels: list[Label] = []
        for role, tile in self._tiles().items():
            name, allocated = self.recorder.allocation(tile)
            fields[role] = f"`{name}` {tile.layout.dtype}{list(tile.layout.shape)}"
            notes.append(f"`{role}` is `{name}`, {tile.layout.describe()}")
            if allocated is not None and allocated not in labels:
                labels.append(allocated)
        return fields, notes, labels

    def _called(self, numbers: Mapping[str, object]) -> dict[str, str]:
        """What a fix calls the operands of `numbers`: the kernel's own names, where they differ."""
        tiles = self._tiles()
        names = {role: tile.name for role, tile in tiles.items() if tile.name}
        if len(set(names.values())) < len(tiles):
            return {}
        spoken = {key: str(numbers[key]) for key in _OPERANDS if key in numbers}
        return {key: names[role] for key, role in spoken.items() if role in names}

    def check_owner(self, role: str, tile: Any) -> None:
        """Raise ONKI109 for a tile of another launch or another core."""
        if self.recorder.owns(tile):
            return
        location, callers = self.recorder.place(self.recorder.locate(self.frame))
        fail(
            "ONKI109",
            at=operand_label(location, role, f"`{role}` was made elsewhere"),
            callers=callers,
            core=self.recorder.core,
            tensor=tile.name,
        )

    def wrong_kind(
        self,
        role: str,
        expected: str,
        got: object,
        spelled: str | None = None,
        help: str = "",
        rule: str | None = None,
    ) -> None:
        """Raise ONKI101 for an argument of a wrong kind; `spelled` is how it is called, if not by itself."""
        location, callers = self.recorder.place(self.recorder.locate(self.frame))
        shown = spelled or _spell(got)
        fail(
            "ONKI101",
            at=operand_label(location, role, f"this is {shown}"),
            callers=callers,
            core=self.recorder.core,
            instruction=self.row.shown,
            role=role,
            expected=expected,
            got=shown,
            help=(help,) if help else (),
            rule=rule,
            data={"target": self.recorder.target.name},
        )

    def violation(self, check: Check, numbers: Mapping[str, object]) -> None:
        """Raise the diagnostic of a violated check, or say it if the check only warns."""
        if "expected" in numbers:
            spelled = numbers.get("spelled")
            self.wrong_kind(
                str(numbers["role"]),
                str(numbers["expected"]),
                numbers["got"],
                None if spelled is None else str(spelled),
                check.help,
                check.rule,
            )
        location, callers = self.recorder.place(self.recorder.locate(self.frame))
        fields, notes, labels = self._fields()
        says = check.says.format(
            **{"instruction": self.row.shown, "target": self.recorder.target.name, **fields, **numbers}
        )
        role = str(numbers.get("role", ""))
        found = diagnostic(
            check.code,
            at=operand_label(location, role, _label(self.row, role)),
            others=labels[:2],
            callers=callers,
            notes=notes,
            help=(check.help.format(**{**fields, **numbers, **self._called(numbers)}),) if check.help else (),
            rule=str(numbers.get("rule") or check.rule),
            core=self.recorder.core,
            says=says,
            data={"instruction": self.row.shown, "target": self.recorder.target.name, **numbers},
        )
        if check.warning:
            self.recorder.warn(found)
        else:
            raise error(found)


def _label(row: Row, role: str) -> str:
    return f"`{role}` of `{row.name}`" if role else f"this `{row.name}`"


def _spell(value: object) -> str:
    """Spell a value in a message: its type, and itself where that is short."""
    text = repr(value)
    kind = type(value).__name__
    return f"`{text}` ({kind})" if len(text) <= 40 and "\n" not in text else f"an object of type `{kind}`"
