"""Picks the fastest records of logs of AutoTVM: `python -m tilewright.exec.autotvm_log_editor --act pick-best --i tune.log`. Of several
logs: `--i 'logs/*.log'`, or a folder."""

from __future__ import annotations

import argparse
import glob
import os
import sys

from tilewright.autotvm.record import best_pairs, load_from_file, pick_best, write
from tilewright.support.errors import TVMError


def main(argv: list[str] | None = None, prog: str = "python -m tilewright.exec.autotvm_log_editor") -> int:
    """Write the fastest record of each workload."""
    parser = argparse.ArgumentParser(prog=prog, description="Picks the fastest record of each target and workload.")
    parser.add_argument("--act", choices=["pick-best"], required=True, help="what is done")
    parser.add_argument(
        "--i", required=True, metavar="FILE", help="a log, a folder of logs, or a pattern of their names"
    )
    parser.add_argument("--o", metavar="FILE", help="where the records are written (default: FILE.best.log)")
    options = parser.parse_args(argv)
    out = options.o or f"{options.i.rstrip('/*')}.best.log"
    try:
        if os.path.isfile(options.i):
            pick_best(options.i, out)
        else:
            _pick_of_several(options.i, out)
    except (OSError, TVMError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _pick_of_several(given: str, out: str) -> None:
    paths = sorted(glob.glob(os.path.join(given, "*.log") if os.path.isdir(given) else given))
    logs = [path for path in paths if not path.endswith(".best.log")]
    if not logs:
        raise TVMError(f"there are no logs at {given}")
    best = best_pairs(pair for path in logs for pair in load_from_file(path))
    if os.path.exists(out):
        os.remove(out)
    write(out, best)


if __name__ == "__main__":
    sys.exit(main())
