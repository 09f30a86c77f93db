"""Options that several benchmarks take, refused in the same words."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any


def cores(threads: int) -> list[int]:
    """The cores that all contestants share: the last ones, as the first serves most interrupts."""
    free = sorted(os.sched_getaffinity(0))
    if threads > len(free):
        raise ValueError(f"{threads} threads were asked for, but this process may use {len(free)} cores")
    return free[-threads:]


def numbers(parser: argparse.ArgumentParser, option: str, text: str) -> list[int]:
    """Positive numbers with commas between."""
    parts = [p.strip() for p in text.split(",")]
    if not all([p.isdecimal() and int(p) > 0 for p in parts]):
        parser.error(f"{option} takes positive numbers with commas between, such as 1,2, but was given {text!r}")
    return [int(p) for p in parts]


def thread_counts(parser: argparse.ArgumentParser, text: str) -> list[int]:
    """Numbers of threads, none above the cores that this process may use."""
    counts = numbers(parser, "--threads", text)
    for count in counts:
        try:
            cores(count)
        except ValueError as error:
            parser.error(str(error))
    return counts


def thread_count(parser: argparse.ArgumentParser, text: str) -> int:
    """One number of threads."""
    counts = thread_counts(parser, text)
    if len(counts) > 1:
        parser.error(f"--threads takes one number here, but was given {text!r}")
    return counts[0]


def names(parser: argparse.ArgumentParser, option: str, text: str, known: Collection[str]) -> list[str]:
    """Names with commas between, all of them known."""
    found = [n for n in text.split(",") if n]
    for name in found:
        if name not in known:
            parser.error(f"{option}: there is no {name!r}; there are {', '.join(known)}")
    return found


def takes_json(parser: argparse.ArgumentParser) -> None:
    """The option for a file that the results are written to as well."""
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write the results here")


def new_file(text: str) -> Path:
    """A file in a folder that there is."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} is not a folder")
    return path


def write_json(options: argparse.Namespace, results: Any) -> None:
    """Writes the results to the file that was asked for, if one was."""
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
