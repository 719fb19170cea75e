"""Where code comes from: OpenNKI, an installed package, or the user; and what no digest can answer for."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from types import ModuleType
from typing import Literal

from msgspec import Struct

__all__ = ["Package", "is_outside", "module_file", "package_of", "unloaded_package"]

_OURS = "opennki"
_STANDARD = os.path.dirname(os.path.abspath(os.__file__))
_SITE = re.compile(r"^(.*[/\\](?:site|dist)-packages)[/\\]")


class Package(Struct, frozen=True):
    """An installed package, which a digest knows by name and version; OpenNKI's is that of the toolchain."""

    name: str
    version: str

    @property
    def is_ours(self) -> bool:
        """True for OpenNKI itself."""
        return self.name == _OURS


_OPENNKI = Package(_OURS, "")
_PYTHON = Package("python", "")
"""The standard library: its version is the interpreter's, part of the toolchain."""


def package_of(module: str) -> Package | None:
    """Return the installed package that a loaded module belongs to, None for the user's own modules.

    What is installed without a version counts as the user's.
    """
    top = module.partition(".")[0]
    if top == _OURS:
        return _OPENNKI
    if top in sys.builtin_module_names:
        return _PYTHON
    found = sys.modules.get(module) or sys.modules.get(top)
    if found is None:
        return None
    if found.__name__.partition(".")[0] == _OURS:  # under another name, as `nki`
        return _OPENNKI
    file = module_file(found)
    if not file and getattr(found.__spec__, "origin", None) == "frozen":
        return _PYTHON
    return _package_at(top, file)


def unloaded_package(top: str) -> Package | Literal[False] | None:
    """Return the package that `import top` would load, None for a module of the user's, False for nothing.

    It is looked for and not imported.
    """
    from importlib.util import find_spec

    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return False
    if type(spec.loader).__module__.partition(".")[0] == _OURS:  # under another name, as `nki`
        return _OPENNKI
    if spec.origin in ("built-in", "frozen"):
        return _PYTHON
    return _package_at(top, os.path.abspath(spec.origin) if spec.origin else "")


def _package_at(top: str, file: str) -> Package | None:
    site = _SITE.match(file)
    if site is None:
        return _PYTHON if file.startswith(_STANDARD + os.sep) else None
    version = _version(top, site[1])
    return Package(top, version) if version else None


def module_file(module: ModuleType) -> str:
    """Return the file of a module, that of the first part of a namespace package, "" where there is none."""
    file = vars(module).get("__file__")
    if isinstance(file, str):
        return os.path.abspath(file)
    spec = vars(module).get("__spec__")
    parts = list(getattr(spec, "submodule_search_locations", None) or ())
    return os.path.join(os.path.abspath(parts[0]), "") if parts else ""


def _version(top: str, site: str) -> str:
    module = sys.modules.get(top)
    said = vars(module).get("__version__") if module is not None else None
    # Of a string's own subclass, as PyTorch's version is, the plain string: keys are written as JSON.
    return str(said) if isinstance(said, str) and said else _recorded_version(top, site)


@lru_cache(maxsize=1024)
def _recorded_version(top: str, site: str) -> str:
    """Return the version by the package's record beside it, "" if there is none."""
    try:
        names = os.listdir(site)
    except OSError:
        return ""
    for name in names:
        project, _, version = name.removesuffix(".dist-info").partition("-")
        if name.endswith(".dist-info") and _normal(project) == _normal(top):
            return version
    from importlib import metadata

    projects = metadata.packages_distributions().get(top, [])
    return ", ".join(f"{project} {metadata.version(project)}" for project in sorted(set(projects)))


def _normal(project: str) -> str:
    return re.sub(r"[-_.]+", "_", project).lower()


# Outside: what a function of a package reads that is neither an argument nor its version.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OUTSIDE = _words(
    """
    _io _random codecs fcntl ftplib gc getpass glob http importlib io linecache mmap multiprocessing nt ntpath
    numpy.random os pathlib platform posix posixpath random requests resource secrets select shelve shutil
    signal socket sqlite3 subprocess tempfile time urllib uuid
    builtins.__import__ builtins.breakpoint builtins.eval builtins.exec builtins.globals builtins.input
    builtins.open
    datetime.date.today datetime.datetime.now datetime.datetime.today datetime.datetime.utcnow
    inspect.currentframe inspect.getouterframes inspect.getsource inspect.getsourcefile
    inspect.getmodule inspect.getsourcelines inspect.stack inspect.trace
    numpy.fromfile numpy.genfromtxt numpy.load numpy.loadtxt numpy.memmap
    sys._current_frames sys._getframe sys.modules sys.stdin
    threading.current_thread threading.get_ident threading.local
    """
)
"""Modules and functions whose results no key covers: files, time, chance, environment, code made of text."""

_PURE = _words(
    """
    posixpath.basename posixpath.commonpath posixpath.dirname posixpath.isabs posixpath.join
    posixpath.normpath posixpath.split posixpath.splitext
    ntpath.basename ntpath.commonpath ntpath.dirname ntpath.isabs ntpath.join ntpath.normpath ntpath.split
    ntpath.splitext
    os.fspath posix.fspath nt.fspath
    pathlib.PurePath pathlib.PurePosixPath pathlib.PureWindowsPath
    """
)
"""What of these modules depends on its arguments alone."""


def is_outside(name: str) -> bool:
    """True if what `module.name` is or returns depends on more than arguments and version.

    >>> is_outside("time.time"), is_outside("os.environ.get"), is_outside("posixpath.join")
    (True, True, False)
    """
    parts = name.replace("pathlib._local.", "pathlib.").split(".")  # where Python 3.13 keeps it
    heads = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return not _OUTSIDE.isdisjoint(heads) and _PURE.isdisjoint(heads)
