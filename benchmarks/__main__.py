"""`python -m benchmarks [NAME ARGS...]`: latency of whole models by default. A benchmark is a module with a `main` in one of the rooms."""

from __future__ import annotations

import importlib
import sys

from benchmarks.catalogue import BENCHMARKS, title


def main() -> int:
    name, *rest = sys.argv[1:] or ["latency"]
    if name in ("-h", "--help"):
        print("python -m benchmarks [NAME ARGS...]; each takes --help. Without a name: latency.")
        room = ""
        for other, module in BENCHMARKS.items():
            if module.rpartition(".")[0] != room:
                room = module.rpartition(".")[0]
                print(f"\n{title(room)}")
            print(f"  {other:18} {title(module)}")
        return 0
    if name.startswith("-"):
        name, rest = "latency", [name, *rest]
    if name not in BENCHMARKS:
        print(f"there is no benchmark {name!r}; there are {', '.join(sorted(BENCHMARKS))}", file=sys.stderr)
        return 2
    module = importlib.import_module(BENCHMARKS[name])
    from benchmarks.models import UnknownModel

    try:
        return int(module.main(rest) or 0)
    except UnknownModel as e:
        print(e, file=sys.stderr)
        return 2


sys.exit(main())
