"""`python -m benchmarks [NAME ARGS...]`: latency of whole models by default; each other file here is a benchmark of its own."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "__main__" and "\ndef main(" in p.read_text())


def title(name: str) -> str:
    """The first line of a benchmark's docstring."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    return (ast.get_docstring(tree) or "").split("\n")[0]


def main() -> int:
    name, *rest = sys.argv[1:] or ["latency"]
    if name in ("-h", "--help"):
        print("python -m benchmarks [NAME ARGS...]; each takes --help. Without a name: latency.\n")
        for other in NAMES:
            print(f"  {other:18} {title(other)}")
        return 0
    if name.startswith("-"):
        name, rest = "latency", [name, *rest]
    if name not in NAMES:
        print(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"benchmarks.{name}")
    from benchmarks.models import UnknownModel

    try:
        return int(module.main(rest) or 0)
    except UnknownModel as e:
        print(e, file=sys.stderr)
        return 2


sys.exit(main())
