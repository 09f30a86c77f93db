"""`python -m benchmarks [NAME ARGS...]`: latency of whole models by default; each other file here is a benchmark of its own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

NAMES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in ("__init__", "__main__", "models"))


def main() -> int:
    name, *rest = sys.argv[1:] or ["latency"]
    if name.startswith("-"):
        name, rest = "latency", [name, *rest]
    if name not in NAMES:
        print(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"benchmarks.{name}")
    return int(module.main(rest) or 0)


sys.exit(main())
