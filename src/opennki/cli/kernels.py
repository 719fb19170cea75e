"""Kernels from the command line: `file.py:kernel` and the arguments that `--arg` gives."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from opennki.build.aliasing import install
from opennki.build.kernel_errors import user_error
from opennki.diag import OpenNkiError, fail
from opennki.frontend.kernel import Kernel
from opennki.frontend.spec import parse_spec

__all__ = ["bind_arguments", "load_kernel", "parse_argument"]

_SPEC = re.compile(r"[A-Za-z_]\w*\s*\[[^\]]*\]")
_NAMED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", re.DOTALL)


def load_kernel(reference: str) -> Kernel:
    """Return the kernel that `file.py:name` names; the name may be left out when the file has one kernel.

    The file is run as a module of its own, `import nki` in it gives OpenNKI's, and its folder (that of the
    top package, if it is in one) is on `sys.path`. Errors: ONKI004, ONKI005, ONKI009.
    """
    path, name = _split(reference)
    if not path.is_file():
        fail("ONKI005", file=str(path), reason="it is a folder" if path.is_dir() else "no such file")
    kernels = _kernels(_run(path))
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name is not None and name in kernels:
        return kernels[name]
    fail("ONKI004", file=str(path), name=name or "<name>", help=_which(path, kernels))


def _split(reference: str) -> tuple[Path, str | None]:
    """Split off the kernel's name; a colon of a Windows drive is none of ours."""
    before, colon, name = reference.rpartition(":")
    if colon and name.isidentifier() and before:
        return Path(before), name
    return Path(reference), None


def _which(path: Path, kernels: Mapping[str, Kernel]) -> list[str]:
    if kernels:
        return [f"name one of its kernels: {', '.join(f'`{path}:{name}`' for name in sorted(kernels))}"]
    return ["decorate a function of the file with `@nki.jit`"]


def _kernels(module: ModuleType) -> dict[str, Kernel]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Kernel)}


def _run(path: Path) -> ModuleType:
    """Import the file: by its dotted name if it is in a package, else as a module of its stem."""
    install(force=True)
    path = path.resolve()
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return import_module(".".join(names)) if len(names) > 1 else _run_alone(path)
    except OpenNkiError:
        raise
    except Exception as error:
        raise user_error("ONKI009", error, file=path.name) from error


def _run_alone(path: Path) -> ModuleType:
    known = sys.modules.get(path.stem)
    is_free = known is None or getattr(known, "__file__", None) == str(path)
    name = path.stem if is_free else f"__{path.stem}__"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        fail("ONKI005", file=str(path), reason="it is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def parse_argument(text: str) -> tuple[str | None, object]:
    """Return name and value of one `--arg`: a spec, or a plain Python literal; the name may be left out.

    Errors: ONKI003 for a text that is neither.

    >>> parse_argument("eps=1e-6"), parse_argument("mode='fast'")
    (('eps', 1e-06), ('mode', 'fast'))
    """
    named = _NAMED.fullmatch(text.strip())
    name, value = (named[1], named[2].strip()) if named else (None, text.strip())
    if _SPEC.fullmatch(value):
        return name, parse_spec(value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        fail("ONKI003", text=text, help=_how(name or "a", value))


def _how(name: str, value: str) -> list[str]:
    lines = [f"a tensor: --arg '{name}=float32[512,64]'", f"a value: --arg '{name}=1e-6', None, True, (1, 2)"]
    if value.isidentifier():
        lines.append(f"a string is quoted twice: --arg \"{name}='{value}'\"")
    return lines


def bind_arguments(kernel: Kernel, texts: Iterable[str]) -> tuple[Sequence[object], dict[str, object]]:
    """Return the positional and keyword arguments that the `--arg` texts give, in the order of the signature.

    Errors: ONKI003, ONKI006 for names or a number that do not fit the kernel.
    """
    positional: list[object] = []
    named: dict[str, object] = {}
    for text in texts:
        name, value = parse_argument(text)
        if name is None:
            positional.append(value)
        elif name in named:
            fail("ONKI006", problem=f"`{name}` is given twice", help=["give each --arg once"])
        else:
            named[name] = value
    signature = inspect.signature(kernel.function)
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as error:
        needs = " ".join(f"--arg '{name}=…'" for name in signature.parameters)
        problem = f"kernel `{kernel.name}{signature}`: {error}"
        fail("ONKI006", problem=problem, help=[f"give {needs}" if needs else "the kernel takes nothing"])
    return bound.args, dict(bound.kwargs)
