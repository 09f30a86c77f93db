"""Logs of measurements, in the classic format: a line of JSON each.

{"input": ["llvm -keys=cpu", "matmul", [["TENSOR", [64, 64], "float32"]], {}], "config": {"index": 7, "code_hash": null, "entity":
 [["tile_y", "sp", [-1, 8]]]}, "result": [[0.0012], 0, 0.3, 1767225600.0], "version": 0.2, "tvm_version": "0.1.0"}
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.autotvm.measure.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tilewright.autotvm.task.possible import is_possible
from tilewright.autotvm.task.space.config import ConfigEntity
from tilewright.autotvm.task.task import Task
from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION
from tilewright.target import Target
from tilewright.tuning import log

logger = logging.getLogger("autotvm")

AUTOTVM_LOG_VERSION = 0.2
NO_COST = (1e9,)
"""The costs of failed measurements in logs."""

Pair = tuple[MeasureInput, MeasureResult]


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """The same text for the same input; without include_config, for the same target and workload."""
    config = json.dumps(inp.config.to_json_dict()["entity"]) if include_config else ""
    return "".join([str(inp.target), inp.task.name, str(inp.task.args), str(inp.task.kwargs), config])


def to_json(inp: MeasureInput, result: MeasureResult) -> dict[str, Any]:
    """A measurement as a line of a log holds it."""
    costs = NO_COST if result.error_no else tuple([float(c) for c in result.costs])
    return {
        "input": [str(inp.target), inp.task.name, inp.task.args, dict(inp.task.kwargs)],
        "config": inp.config.to_json_dict(),
        "result": [costs, int(result.error_no), result.all_cost, result.timestamp],
        "version": AUTOTVM_LOG_VERSION,
        "tvm_version": VERSION,
    }


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """A measurement as a line of a log. Raises ValueError for protocols other than json: pickled records run code where they are read."""
    _need_json(protocol)
    return json.dumps(to_json(inp, result))


def decode(row: str, protocol: str = "json") -> Pair | None:
    """The measurement of a line; None for one of the old format 0.1. Raises ValueError for what is no measurement."""
    _need_json(protocol)
    try:
        found = json.loads(row)
    except ValueError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    return from_json(found)


def _need_json(protocol: str) -> None:
    if protocol != "json":
        raise ValueError(f"records are written as json, not as {protocol!r}")


def from_json(found: Any) -> Pair | None:
    """The measurement that `to_json` wrote; None for one of the old format 0.1. Raises ValueError for anything else."""
    if not isinstance(found, dict):
        raise ValueError("it is no record of AutoTVM: it is no object")
    if found.get("v", found.get("version")) == 0.1:
        return None
    if found.get("version") != AUTOTVM_LOG_VERSION:
        raise ValueError(
            f"it has the version {found.get('version')}, but records of AutoTVM have {AUTOTVM_LOG_VERSION}"
        )
    try:
        target, name, args, _ = found["input"]
        costs, error, cost, timestamp = found["result"]
        result = MeasureResult(tuple(costs), MeasureErrorNo(error), float(cost), float(timestamp))
        # Old logs name the option -target that is -mtriple now.
        text = re.sub(r"(?<!\S)-target(?=[= ])", "-mtriple", str(target))
        config = ConfigEntity.from_json_dict(found["config"])
        config.cost = float(np.mean(result.costs))
        return MeasureInput(Target(text), Task(str(name), _tuples(args)), config), result
    except (KeyError, TypeError, ValueError, TVMError) as error:
        raise ValueError(f"it is no record of AutoTVM: {type(error).__name__}: {error}") from error


def _tuples(value: Any) -> Any:
    return tuple([_tuples(v) for v in value]) if isinstance(value, list) else value


def load_from_buffer(file: Iterable[str]) -> Iterator[Pair]:
    """The measurements of an open log. Lines that hold none are left out, with a warning."""
    for number, line in enumerate(file, 1):
        if line.strip() and not line.startswith("#"):
            yield from _pair(number, line, getattr(file, "name", "a buffer"))


def load_from_file(filepath: str | os.PathLike[str]) -> Iterator[Pair]:
    """The measurements of a log. Lines that hold none, such as one that was cut, are left out, with a warning."""
    with Path(filepath).open(encoding="utf-8", errors="replace") as file:
        yield from load_from_buffer(file)


def _pair(number: int, line: str, name: str) -> list[Pair]:
    try:
        found = decode(line)
    except ValueError as error:
        logger.warning("line %d of %s is not used: %s", number, name, error)
        return []
    return [found] if found is not None else []


def write(path: str | os.PathLike[str], pairs: Iterable[Pair]) -> None:
    """Adds measurements to a log, whose folder is created if it is missing. They are on the disk when this returns."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    log.append(path, [to_json(*pair) for pair in pairs])


def split_workload(in_file: str | os.PathLike[str], clean: bool = True) -> None:
    """Splits a log into files of one workload each, which lie beside it and are named by a number and the log's name.

    clean: repeated measurements of a configuration, and failed ones, are left out.
    """
    groups: dict[str, list[Pair]] = {}
    for pair in load_from_file(in_file):
        groups.setdefault(measure_str_key(pair[0], False), []).append(pair)
    source = Path(in_file)
    for number, pairs in enumerate(groups.values()):
        last = {measure_str_key(p[0]): p for p in pairs if not p[1].error_no}
        kept = list(last.values()) if clean else pairs
        path = source.with_name(f"{number:03d}.{source.name}")
        path.unlink(missing_ok=True)
        write(path, kept)
        logger.info("%s: %d records of %s", path, len(kept), pairs[0][0].task.workload)


def best_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """The fastest measurement of each target and workload. Those whose times no machine can reach are left out, with a warning."""
    best: dict[str, Pair] = {}
    for pair in pairs:
        key = measure_str_key(pair[0], False)
        faster = not pair[1].error_no and (key not in best or np.mean(pair[1].costs) < np.mean(best[key][1].costs))
        if faster and is_possible(*pair):
            best[key] = pair
    return list(best.values())


def pick_best(in_file: str | os.PathLike[str], out_file: Any) -> None:
    """Writes the fastest measurement of each target and workload. out_file: a path, whose file is replaced, or an open file."""
    best = best_pairs(load_from_file(in_file))
    if hasattr(out_file, "write"):
        out_file.writelines([encode(*pair) + "\n" for pair in best])
        return
    Path(out_file).unlink(missing_ok=True)
    write(out_file, best)
    logger.info("%d records of %s are the fastest of their workloads; they are in %s", len(best), in_file, out_file)


def main(argv: list[str] | None = None, prog: str = "python -m tilewright.autotvm.record") -> int:
    """Prints a log, splits it by workload, or picks the fastest records."""
    parser = argparse.ArgumentParser(prog=prog, description="Reads, splits and condenses logs of AutoTVM.")
    parser.add_argument("--mode", choices=["read", "pick", "split"], default="read")
    parser.add_argument("--i", required=True, metavar="FILE", help="the log")
    parser.add_argument("--o", metavar="FILE", help="where the fastest records are written (default: FILE.best.log)")
    parser.add_argument("--begin", type=int, default=0, help="the first record that is printed")
    parser.add_argument("--end", type=int, default=5, help="the record before which printing ends")
    options = parser.parse_args(argv)
    try:
        if options.mode == "pick":
            pick_best(options.i, options.o or f"{options.i}.best.log")
        elif options.mode == "split":
            split_workload(options.i)
        else:
            for i, pair in enumerate(load_from_file(options.i)):
                if options.begin <= i < options.end:
                    print(pair[0].target, pair[0].task, pair[0].config, pair[1], sep="\n", end="\n\n")
    except (OSError, TVMError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
