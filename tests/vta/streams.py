"""Random instruction streams in the functional and in the cycle-level simulator, thousands a second:
`python -m tests.vta.streams --count 1000000`.

A program of C++ (streams.cc) makes them and runs both simulators; this one draws the accelerators and shows how far it is. Ctrl-C tells
what is done; `--first` goes on from there."""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.vta.random_programs import random_configuration
from tilewright.vta.simulator.description import describe

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "vta_streams"
MACHINE = [ROOT / "native" / "devices" / "vta" / f"{name}.cc" for name in
           ("bus", "cycles", "description", "dram", "machine", "order", "trace", "transfer")]  # fmt: skip
SOURCES = [Path(__file__).with_suffix(".cc"), *MACHINE, ROOT / "native" / "devices" / "common" / "errors.cc"]
CHUNK = 5000
"""Streams of a process; each process has other accelerators."""


def compiled() -> Path:
    """The program, compiled once from these sources and kept in build/."""
    texts = [p.read_bytes() for p in sorted([*SOURCES, *MACHINE[0].parent.glob("*.h")])]
    program = BUILD / hashlib.sha256(b"".join(texts)).hexdigest()[:16]
    if not program.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        compiler = ["c++"] if shutil.which("c++") else [sys.executable, "-m", "ziglang", "c++"]
        options = ["-std=c++17", "-O2", f"-I{ROOT / 'native' / 'include'}", *map(str, SOURCES), "-ldl"]
        partial = program.with_suffix(".partial")
        subprocess.run([*compiler, *options, "-o", str(partial)], check=True)
        partial.rename(program)
    return program


def run(first: int, count: int, accelerators: int = 50) -> tuple[list[int], str]:
    """Streams from number `first` on: (how many ended, were refused; instructions, cycles, and cycles in which units worked together, of
    those that ended), and "", or what differs."""
    rng = random.Random(first)
    texts = [describe(replace(random_configuration(rng), target="tsim")) for _ in range(accelerators)]
    program = compiled()
    path = BUILD / f"accelerators-{first}"
    path.write_text("".join([text + "\n" for text in texts]))
    try:
        done = subprocess.run([program, path, str(first), str(count)], capture_output=True, text=True, check=False)
    finally:
        path.unlink()
    if done.returncode:
        return [], f"accelerators of --first {first}: {done.stdout}{done.stderr}"
    return [int(n) for n in done.stdout.split()], ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=100_000)
    options.add_argument("--first", type=int, default=0, help=f"the number of the first stream, a multiple of {CHUNK}")
    given = options.parse_args()
    if given.count < 1 or given.first < 0 or given.first % CHUNK:
        options.error(f"--count must be at least 1, and --first a multiple of {CHUNK}")
    begin, total, done = time.perf_counter(), [0] * 5, 0
    try:
        while done < given.count:
            count = min(CHUNK, given.count - done)
            found, wrong = run(given.first + done, count)
            if wrong:
                print(wrong)
                return 1
            total, done = [a + b for a, b in zip(total, found, strict=True)], done + count
            print(
                f"\r{done} of {given.count}, {done / (time.perf_counter() - begin):.0f} a second",
                end="",
                file=sys.stderr,
            )
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with --first {given.first + done}", file=sys.stderr)
    ended, refused, instructions, cycles, together = total
    print(
        f"\n{done} streams from number {given.first}: equal; {ended} ended, {refused} were refused by both; {instructions} instructions,"
        f" {cycles} cycles, in {together / max(cycles, 1):.1%} of them units worked at the same time"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
