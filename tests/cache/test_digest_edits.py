"""An edit of anything that a kernel reaches changes exactly the parts of its key that it concerns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from opennki.cache.closure import digest_function
from opennki.cache.digest import Digest
from tests.cache.conftest import MakeProject
from tests.cache.project import Project, kernel


def parts(project: Project) -> Mapping[str, str]:
    """Return the parts of the digest of the project's kernel."""
    digest = digest_function(project.kernel().function)
    assert isinstance(digest, Digest), digest.reason
    return {name: part.digest for name, part in digest.parts.items()}


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """Return the names of the parts that differ, appear or vanish."""
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


class Edit(NamedTuple):
    """Files, an edit of one of them, and the parts that it changes."""

    files: dict[str, str]
    file: str
    old: str
    new: str
    parts: set[str]


HELPERS = {
    "k.py": kernel("helpers.first()", "import helpers"),
    "helpers.py": "import config\n\n\ndef first():\n    return second()\n\n\n"
    "def second():\n    return config.SCALE * 2.0\n\n\ndef third():\n    return 1\n",
    "config.py": "SCALE = 0.5\nOTHER = 1\n",
}

DATACLASS = (
    "from dataclasses import dataclass, field\n\n\n@dataclass\nclass Tile:\n    rows: int = 2\n"
    "    names: list = field(default_factory=lambda: [1])\n\n"
    "    def factor(self):\n        return self.rows * 1.5\n\n\nTILE = Tile(rows=3)\n"
)

CLASS = (
    "class Base:\n    scale = 2.0\n\n    def half(self):\n        return self.value / 2\n\n\n"
    "class Scale(Base):\n    def __init__(self, value):\n        self.value = value\n\n"
    "    def __call__(self):\n        return self.value * self.scale\n\n"
    "    @property\n    def double(self):\n        return self.value * 2\n\n"
    "    @staticmethod\n    def one():\n        return 1\n\n\nOBJECT = Scale(0.5)\n"
)


def global_of(factor: str, value: str) -> dict[str, str]:
    """Return a project whose kernel reads a global `G`, made by `value`."""
    return {"k.py": kernel(factor, f"import enum, functools, operator\nimport numpy as np\n{value}")}


G = {"global `G` of k.py"}

EDITS = {
    "helper two calls deep": Edit(
        HELPERS, "helpers.py", "SCALE * 2.0", "SCALE * 4.0", {"function `second` of helpers.py"}
    ),
    "module attribute": Edit(
        HELPERS, "config.py", "SCALE = 0.5", "SCALE = 0.25", {"global `SCALE` of config.py"}
    ),
    "module attribute's type": Edit(HELPERS, "config.py", "0.5", "1", {"global `SCALE` of config.py"}),
    "function that nothing calls": Edit(HELPERS, "helpers.py", "return 1", "return 2", set()),
    "attribute that nothing reads": Edit(HELPERS, "config.py", "OTHER = 1", "OTHER = 2", set()),
    "comment in a helper": Edit(
        HELPERS,
        "helpers.py",
        "    return second()",
        "    return second()  # twice",
        {"function `first` of helpers.py"},
    ),
    "line before a helper": Edit(
        HELPERS,
        "helpers.py",
        "def second():",
        "# moved\ndef second():",
        {"place of function `second` of helpers.py"},
    ),
    "line after everything": Edit(HELPERS, "helpers.py", "return 1\n", "return 1\n# end\n", set()),
    "default argument": Edit(
        {"k.py": kernel("help()", "def help(scale=0.5):\n    return scale")},
        "k.py",
        "scale=0.5",
        "scale=2.5",
        {"default `scale` of function `help` of k.py", "function `help` of k.py"},
    ),
    "default made elsewhere": Edit(
        {"k.py": kernel("help()", "D = 0.5\n\n\ndef help(scale=D):\n    return scale")},
        "k.py",
        "D = 0.5",
        "D = 2.5",
        {"default `scale` of function `help` of k.py"},
    ),
    "keyword default": Edit(
        {"k.py": kernel("help()", "D = 0.5\n\n\ndef help(*, scale=D):\n    return scale")},
        "k.py",
        "D = 0.5",
        "D = None or 2.5",
        {"default `scale` of function `help` of k.py"},
    ),
    "closure cell": Edit(
        {"k.py": kernel("help()", "def make(n):\n    return lambda: n\n\n\nhelp = make(0.5)")},
        "k.py",
        "make(0.5)",
        "make(2.5)",
        {"outer variable `n` of function `make.<locals>.<lambda>` of k.py"},
    ),
    "lambda": Edit(
        global_of("G(2)", "G = lambda n: n * 0.5"),
        "k.py",
        "n * 0.5",
        "n * 0.4",
        {"function `<lambda>` of k.py"},
    ),
    "partial": Edit(
        global_of("G()", "G = functools.partial(operator.mul, 2.0, 0.5)"), "k.py", "0.5", "0.4", G
    ),
    "NumPy scalar": Edit(global_of("G", "G = np.float32(0.5)"), "k.py", "(0.5)", "(0.25)", G),
    "NumPy scalar's dtype": Edit(global_of("G", "G = np.float32(0.5)"), "k.py", "float32", "float64", G),
    "NumPy array": Edit(global_of("G[1]", "G = np.array([0.5, 2.0])"), "k.py", "2.0]", "2.5]", G),
    "NumPy array's shape": Edit(global_of("G.size", "G = np.zeros((2, 3))"), "k.py", "(2, 3)", "(3, 2)", G),
    "None": Edit(global_of("G or 1", "G = None"), "k.py", "None", "False", G),
    "sign of zero": Edit(global_of("G", "G = 0.0"), "k.py", "0.0", "-0.0", G),
    "truth value": Edit(global_of("G", "G = 1"), "k.py", "G = 1", "G = True", G),
    "list": Edit(global_of("G[0][1]", "G = [(1, 2.0)]"), "k.py", "2.0", "3.0", G),
    "list or tuple": Edit(global_of("G[0]", "G = [1.0]"), "k.py", "[1.0]", "(1.0,)", G),
    "order of a dict": Edit(
        global_of("next(iter(G))", "G = {1: 2, 3: 4}"), "k.py", "{1: 2, 3: 4}", "{3: 4, 1: 2}", G
    ),
    "set": Edit(global_of("len(G)", "G = {1, 2}"), "k.py", "{1, 2}", "{1, 3}", G),
    "order in a set": Edit(global_of("len(G)", "G = {'a', 'b'}"), "k.py", "{'a', 'b'}", "{'b', 'a'}", set()),
    "enum member": Edit(
        global_of("G.value", "class E(enum.Enum):\n    A = 1\n    B = 2\n\n\nG = E.A"),
        "k.py",
        "E.A",
        "E.B",
        G,
    ),
    "enum value": Edit(
        global_of("G.value", "class E(enum.Enum):\n    A = 1\n    B = 2\n\n\nG = E.A"),
        "k.py",
        "A = 1",
        "A = 5",
        {*G, "class `E` of k.py"},
    ),
    "dataclass object": Edit(
        {"k.py": kernel("TILE.factor()", DATACLASS)}, "k.py", "rows=3", "rows=4", {"global `TILE` of k.py"}
    ),
    "dataclass default": Edit(
        {"k.py": kernel("TILE.factor()", DATACLASS)},
        "k.py",
        "rows: int = 2",
        "rows: int = 5",
        {"class `Tile` of k.py"},
    ),
    "dataclass factory": Edit(
        {"k.py": kernel("Tile().names[0]", DATACLASS)},
        "k.py",
        "lambda: [1]",
        "lambda: [2]",
        {"function `Tile.<lambda>` of k.py"},
    ),
    "dataclass method": Edit(
        {"k.py": kernel("TILE.factor()", DATACLASS)},
        "k.py",
        "self.rows * 1.5",
        "self.rows * 1.0",
        {"function `Tile.factor` of k.py"},
    ),
    "callable object's state": Edit(
        {"k.py": kernel("OBJECT()", CLASS)}, "k.py", "Scale(0.5)", "Scale(0.25)", {"global `OBJECT` of k.py"}
    ),
    "callable object's code": Edit(
        {"k.py": kernel("OBJECT()", CLASS)},
        "k.py",
        "self.value * self.scale",
        "self.value + self.scale",
        {"function `Scale.__call__` of k.py"},
    ),
    "class attribute of a base": Edit(
        {"k.py": kernel("OBJECT()", CLASS)}, "k.py", "scale = 2.0", "scale = 3.0", {"class `Base` of k.py"}
    ),
    "method of a base": Edit(
        {"k.py": kernel("OBJECT.half()", CLASS)},
        "k.py",
        "self.value / 2",
        "self.value / 4",
        {"function `Base.half` of k.py"},
    ),
    "property": Edit(
        {"k.py": kernel("OBJECT.double", CLASS)},
        "k.py",
        "self.value * 2\n",
        "self.value * 3\n",
        {"function `Scale.double` of k.py"},
    ),
    "static method": Edit(
        {"k.py": kernel("OBJECT.one()", CLASS)},
        "k.py",
        "        return 1",
        "        return 3",
        {"function `Scale.one` of k.py"},
    ),
    "configuration object": Edit(
        global_of("G.size", "class Config(nl.NKIObject):\n    size: int\n\n\nG = Config(size=4)"),
        "k.py",
        "size=4",
        "size=5",
        G,
    ),
    "import in a function": Edit(
        {
            "k.py": kernel("help()", "def help():\n    from late import scale\n\n    return scale()"),
            "late.py": "def scale():\n    return 0.5\n",
        },
        "late.py",
        "return 0.5",
        "return 0.25",
        {"function `scale` of late.py"},
    ),
    "module imported in a function": Edit(
        {
            "k.py": kernel("help()", "def help():\n    import late as module\n\n    return module.SCALE"),
            "late.py": "SCALE = 0.5\n",
        },
        "late.py",
        "0.5",
        "0.25",
        {"global `SCALE` of late.py"},
    ),
    "module that is passed on": Edit(
        {
            "k.py": kernel("help(late)", "import late\n\n\ndef help(module):\n    return module.SCALE"),
            "late.py": "SCALE = 0.5\n",
        },
        "late.py",
        "0.5",
        "0.25",
        {"global `SCALE` of late.py"},
    ),
    "attribute by a made-up name": Edit(
        {
            "k.py": kernel("help()", "import late\n\n\ndef help():\n    return getattr(late, 'SC' + 'ALE')"),
            "late.py": "SCALE = 0.5\n",
        },
        "late.py",
        "0.5",
        "0.25",
        {"global `SCALE` of late.py"},
    ),
    "module of a package": Edit(
        {
            "k.py": kernel("package.part.SCALE", "import package.part"),
            "package/__init__.py": "",
            "package/part.py": "SCALE = 0.5\n",
        },
        "package/part.py",
        "0.5",
        "0.25",
        {"global `SCALE` of package/part.py"},
    ),
    "relative import in a function": Edit(
        {
            "k.py": kernel("package.help()", "import package"),
            "package/__init__.py": "def help():\n    from .part import SCALE\n\n    return SCALE\n",
            "package/part.py": "SCALE = 0.5\n",
        },
        "package/part.py",
        "0.5",
        "0.25",
        {"global `SCALE` of package/part.py"},
    ),
    "function behind a decorator": Edit(
        {
            "k.py": kernel(
                "help()",
                "import functools\n\n\ndef twice(f):\n    @functools.wraps(f)\n"
                "    def g():\n        return 2 * f()\n\n    return g\n\n\n@twice\n"
                "def help():\n    return 0.5",
            )
        },
        "k.py",
        "return 0.5",
        "return 0.25",
        {"function `help` of k.py"},
    ),
    "function behind lru_cache": Edit(
        global_of("help()", "@functools.lru_cache\ndef help():\n    return 0.5"),
        "k.py",
        "return 0.5",
        "return 0.25",
        {"function `help` of k.py"},
    ),
    "nested kernel": Edit(
        global_of("inner()", "@nki.jit\ndef inner():\n    return 0.5"),
        "k.py",
        "return 0.5",
        "return 0.25",
        {"function `inner` of k.py"},
    ),
    "method of a named tuple": Edit(
        global_of(
            "G.half()",
            "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    a: float\n\n"
            "    def half(self):\n        return self.a / 2\n\n\nG = Pair(1.0)",
        ),
        "k.py",
        "self.a / 2",
        "self.a / 4",
        {"function `Pair.half` of k.py"},
    ),
    "builtin that a global hides": Edit(
        global_of("abs(-0.5)", "G = 1"),
        "k.py",
        "G = 1",
        "abs = float",
        {"global `abs` of k.py"},
    ),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edit_changes_the_parts_that_it_concerns(edit: Edit, project: MakeProject) -> None:
    made = project(edit.files)
    before = parts(made)
    assert parts(made) == before
    made.edit(edit.file, edit.old, edit.new)
    assert changed(before, parts(made)) == edit.parts
