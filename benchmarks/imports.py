"""What importing costs over `import numpy, ml_dtypes`: fresh processes, in pairs that take turns."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from benchmarks.measure import (
    REFERENCE,
    Figure,
    Result,
    cpu_seconds,
    figure,
    fresh_environment,
    reference_loop,
    result,
    slowness,
)

__all__ = ["run"]

BASE = "import numpy, ml_dtypes"
STATEMENTS = {
    "import opennki": "import opennki",
    "import nki": "import opennki; opennki.install(); import nki, nki.isa, nki.language",
}
BUDGETS_MS = {"import opennki": 60.0, "import nki": 100.0}  # design
SAYS = {
    "import opennki": "`import opennki`",
    "import nki": "`import opennki; opennki.install(); import nki, nki.isa, nki.language`",
}

_INSIDE = """{base}
import time
wall, cpu = time.perf_counter(), time.process_time()
{statement}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def run(quick: bool) -> Result:
    """Import in fresh processes: the base alone and with OpenNKI in turn, and the time within one."""
    rounds = 1 if quick else 21
    for statement in STATEMENTS.values():  # bytecode is written, files are in the system's memory
        _python(f"{BASE}\n{statement}")
    inside: dict[str, list[tuple[float, float]]] = {name: [] for name in STATEMENTS}
    over: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    loops: list[float] = []
    for _ in range(rounds):
        loops.append(cpu_seconds(reference_loop))
        for name, statement in STATEMENTS.items():
            base = _wall(BASE)
            both = _wall(f"{BASE}\n{statement}")
            over[name].append(both - base)
            wall, cpu = _python(_INSIDE.format(base=BASE, statement=statement)).split()
            inside[name].append((float(wall), float(cpu)))
    return result(
        f"Importing, over `{BASE}`",
        [
            one
            for name in STATEMENTS
            for one in _figures(name, over[name], inside[name], slowness({REFERENCE: loops}))
        ],
        slowest_modules=_slowest_modules(1 if quick else 7),
    )


def _figures(
    name: str, over: list[float], inside: list[tuple[float, float]], factors: list[float]
) -> list[Figure]:
    budget = BUDGETS_MS[name]
    return [
        figure(
            name,
            [1e3 * wall for wall, _ in inside],
            "ms",
            f"wall time of {SAYS[name]} in a process that has imported NumPy and ml_dtypes",
            slowness=factors,
            budget=budget,
        ),
        figure(
            f"{name}, whole processes",
            [1e3 * seconds for seconds in over],
            "ms",
            f"wall time of a process that does both, less that of one that only does `{BASE}`",
            slowness=factors,
            budget=budget,
        ),
        figure(
            f"{name}, processor time",
            [1e3 * cpu for _, cpu in inside],
            "ms",
            "the same within one process, without what other processes take",
            slowness=factors,
        ),
    ]


def _slowest_modules(rounds: int) -> list[dict[str, object]]:
    """Return the ten modules of `import nki` that take longest themselves, by `-X importtime`."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        script = f"{BASE}\nimport sys\nprint('after', file=sys.stderr)\n{STATEMENTS['import nki']}"
        lines = _run(["-X", "importtime", "-c", script]).stderr.splitlines()
        for line in lines[lines.index("after") + 1 :]:
            own, _, module = line.removeprefix("import time:").split("|")
            times.setdefault(module.strip(), []).append(float(own) / 1e3)
    found = sorted(((median(own), module) for module, own in times.items()), reverse=True)[:10]
    return [{"module": module, "ms": round(own, 2)} for own, module in found]


def _wall(script: str) -> float:
    start = time.perf_counter()
    _python(script)
    return time.perf_counter() - start


def _python(script: str) -> str:
    return _run(["-c", script]).stdout


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter with this OpenNKI on its path and without settings of ours."""
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env=fresh_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
