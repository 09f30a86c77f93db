"""PyTorch's database of operators through the importer: the score of each group, each failure with its reason.

    python -m tests.frontend.torch.database [PATTERN] [--types float32,int64] [--samples 4] [--compiled] [--jobs 2]

Samples run in processes of their own that are replaced when one crashes or takes too long.
"""

from __future__ import annotations

import argparse
import re
import sys
import unittest
from typing import Any

from tests.frontend.onnx.conformance import Outcome, run_all
from tests.frontend.torch.database.known import explanation
from tests.frontend.torch.database.samples import TYPES, NotExported, check

GROUPS = ("elementwise", "reductions", "tensors", "nn.functional", "linalg", "fft", "special", "masked", "signal")
REFUSED = NotExported.__name__


def group_of(op: Any) -> str:
    """The group of an operator: its module, or what kind it is."""
    module = op.name.rpartition(".")[0]
    if module in GROUPS:
        return str(module)
    kinds = {"UnaryUfuncInfo": "elementwise", "BinaryUfuncInfo": "elementwise", "ReductionOpInfo": "reductions"}
    return kinds.get(type(op).__name__, "tensors")


def title_of(op: Any) -> str:
    """An operator's name, with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def is_core(op: Any) -> bool:
    """Whether PyTorch counts the operator among its core."""
    import torch

    packet = getattr(torch.ops.aten, op.aten_name or op.name, None)
    overloads = packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else []
    return any([torch.Tag.core in getattr(packet, o).tags for o in overloads])


def load(types: list[str], count: int, run: Any = None) -> tuple[dict[tuple[str, str], unittest.TestCase], set[str]]:
    """A test for each operator and element type, by group and name; and the names of those of the core."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    tests: dict[tuple[str, str], unittest.TestCase] = {}
    core = set()
    for op in op_db:
        for name in types:
            dtype = getattr(torch, name)
            if dtype not in op.supported_dtypes("cpu"):
                continue
            title = f"{title_of(op)}[{name}]"
            tests[group_of(op), title] = unittest.FunctionTestCase(
                lambda op=op, dtype=dtype: check(op, dtype, count, run)  # type: ignore[misc]
            )
            if is_core(op):
                core.add(title)
    return tests, core


def report(outcomes: list[Outcome], core: set[str]) -> int:
    """Failures, then the score of each group. The number of failures that are not explained."""
    unexplained = 0
    for o in sorted(outcomes, key=lambda o: (o.group, o.name)):
        why = explanation(o.name.partition("[")[0])
        if o.reason and REFUSED not in o.reason:
            unexplained += not why
            print(f"{o.group}  {o.name}: {f'[{why}] ' if why else ''}{o.reason}")
    tried = [o for o in outcomes if REFUSED not in o.reason]
    print(f"{len(outcomes) - len(tried)} are not exported by PyTorch, or have no samples of dense tensors")
    for group in (*GROUPS, "of the core", "all"):
        mine = [o for o in tried if group in (o.group, "all") or group == "of the core" and o.name in core]
        if mine:
            print(f"{group}: {sum(not o.reason for o in mine)} of {len(mine)}")
    return unexplained


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="regular expression that names must contain")
    parser.add_argument("--group", choices=GROUPS, help="only this group")
    parser.add_argument("--types", default=",".join(TYPES), help="element types")
    parser.add_argument("--samples", type=int, default=4, help="samples of each operator and type")
    parser.add_argument("--compiled", action="store_true", help="compile programs instead of interpreting them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120, help="limit for one operator")
    args = parser.parse_args()
    run = None
    if args.compiled:
        from tests.frontend.torch.database.compiled import compiled as run
    tests, core = load(args.types.split(","), args.samples, run)
    chosen = {k: t for k, t in tests.items() if re.search(args.pattern, k[1]) and args.group in (None, k[0])}
    sys.exit(report(run_all(chosen, args.jobs, args.seconds), core) > 0)


if __name__ == "__main__":
    main()
