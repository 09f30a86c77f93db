"""`python -m tests.fuzz.onnx.graphs --count 1000 --seed 7`: random ONNX models, native code against ONNX Runtime."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection

from tests.fuzz.caches import own_cache
from tests.fuzz.onnx import moves, nets  # noqa: F401 (register generators)
from tests.fuzz.onnx.case import TARGETS, Draw, Way, compare, compile_and_run, reference, text_of, way_of
from tests.fuzz.onnx.ops import generators

PATIENCE = 120.0
"""Seconds after which a model counts as hanging."""


@dataclass
class Outcome:
    """passed; refused (a clear message that says what is not supported); invalid (the generator's model has no meaning); failed."""

    status: str
    text: str = ""


def draw(seed: int, only: str | None = None) -> tuple[str, Draw]:
    """The generator of a seed, and the graph that it made."""
    names = sorted(generators)
    name = only if only is not None else names[seed % len(names)]
    d = Draw(seed)
    generators[name](d)
    return name, d


def attempt(d: Draw, way: Way, outputs: list[str] | None = None) -> Outcome:
    """One model, or the part of it that makes `outputs`, by both ways."""
    from tilewright.support.errors import OpNotImplemented

    model = d.model(outputs)
    want = reference(model, d.inputs)
    if isinstance(want, str):
        return Outcome("invalid", want)
    try:
        got = compile_and_run(model, d.inputs, way)
    except OpNotImplemented as error:
        return Outcome("refused", str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(os.path.dirname(place.filename))}/{os.path.basename(place.filename)}:{place.lineno}"
        return Outcome("failed", f"{type(error).__name__}: {error} (at {where})")
    half = any(v.dtype == "float16" for v in (*d.inputs.values(), *d.weights.values(), *want))
    single = any(v.dtype == "float32" for v in (*d.inputs.values(), *d.weights.values(), *want))
    try:
        compare(got, want, "float16" if half else "float32" if single else "float64")
    except AssertionError as error:
        return Outcome("failed", str(error))
    return Outcome("passed")


def check(seed: int, only: str | None, way: Way) -> Outcome:
    """The outcome of a seed; a failing graph is told by its smallest failing part."""
    _, d = draw(seed, only)
    outcome = attempt(d, way)
    if outcome.status != "failed":
        return outcome
    part = None
    if len(d.nodes) > 1:
        for node in d.nodes:
            smaller = attempt(d, way, list(node.output))
            if smaller.status == "failed":
                part, outcome = list(node.output), smaller
                break
    return Outcome("failed", f"{outcome.text}\n  {text_of(d.model(part))}")


def serve(connection: Connection, threads: str) -> None:
    """Check what comes in until the other side closes."""
    os.environ["TVM_NUM_THREADS"] = threads
    while True:
        try:
            connection.send(check(*connection.recv()))
        except EOFError:
            return


class Worker:
    """One process that checks models, and is replaced when one takes it down."""

    def __init__(self, threads: str) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.threads = threads
        self.start()

    def start(self) -> None:
        self.connection, other = self.context.Pipe()
        self.process = self.context.Process(target=serve, args=(other, self.threads), daemon=True)
        self.process.start()
        other.close()

    def check(self, seed: int, only: str | None, way: Way) -> Outcome:
        """As the function `check`, in the other process."""
        self.connection.send((seed, only, way))
        try:
            if not self.connection.poll(PATIENCE):
                self.process.kill()
                self.process.join()
                self.start()
                return Outcome("failed", f"no result in {PATIENCE:.0f} s")
            answer: Outcome = self.connection.recv()
            return answer
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode
            self.start()
            _, d = draw(seed, only)
            return Outcome("failed", f"the process died with code {code}\n  {text_of(d.model())}")

    def stop(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()


@own_cache()
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.onnx.graphs", description=__doc__.split("`: ")[1])
    parser.add_argument("--count", type=int, default=200, help="how many models")
    parser.add_argument("--seed", type=int, default=0, help="the first model's seed")
    parser.add_argument("--only", choices=sorted(generators), help="models of this generator")
    parser.add_argument("--opt-level", type=int, choices=range(4), help="default: all in turn")
    parser.add_argument("--target", help=f"default: in turn {', '.join(dict.fromkeys(TARGETS))}")
    parser.add_argument("--threads", type=int, choices=(1, 2), help="default: both in turn")
    parser.add_argument("--most", type=int, default=10, help="stop after this many failures")
    parser.add_argument("--list", action="store_true", help="show what was refused and what had no reference")
    options = parser.parse_args(argv)
    workers: dict[int, Worker] = {}
    counts: collections.Counter[str] = collections.Counter()
    other: collections.Counter[tuple[str, str, str]] = collections.Counter()
    start = shown = time.monotonic()
    for done, seed in enumerate(range(options.seed, options.seed + options.count), 1):
        way = way_of(seed)
        way.opt_level = way.opt_level if options.opt_level is None else options.opt_level
        way.target = options.target or way.target
        threads = options.threads or 1 + seed // 3 % 2
        if threads not in workers:
            workers[threads] = Worker(str(threads))
        outcome = workers[threads].check(seed, options.only, way)
        counts[outcome.status] += 1
        name = options.only or sorted(generators)[seed % len(generators)]
        if outcome.status == "failed":
            print("\r\033[K" if sys.stderr.isatty() else "", end="")
            print(
                f"seed {seed} ({name}): {outcome.text}\n  " + repeat(seed, options.only, way, threads),
                end="\n\n",
                flush=True,
            )
        elif outcome.status != "passed":
            other[(outcome.status, name, outcome.text.splitlines()[-1].strip()[:160])] += 1
        now = time.monotonic()
        if now - shown > 0.5 and sys.stderr.isatty() or now - shown > 20:
            shown, rate = now, done / (now - start)
            left = (options.count - done) / rate
            text = (
                f"{done} of {options.count} models, {counts['failed']} failures, {rate:.1f} a second, {left:.0f} s left"
            )
            print(
                f"\r\033[K{text}" if sys.stderr.isatty() else text,
                end="" if sys.stderr.isatty() else "\n",
                file=sys.stderr,
            )
            sys.stderr.flush()
        if counts["failed"] >= options.most:
            break
    for worker in workers.values():
        worker.stop()
    if options.list:
        for (status, name, text), number in sorted(other.items()):
            print(f"{number:4} {status} {name}: {text}")
    seconds = time.monotonic() - start
    summary = ", ".join(f"{counts[k]} {k}" for k in ("passed", "failed", "refused", "invalid"))
    print(
        f"{sum(counts.values())} models from seed {options.seed}: {summary}; {sum(counts.values()) / seconds:.1f} a second",
        file=sys.stderr,
    )
    return int(counts["failed"] > 0)


def repeat(seed: int, only: str | None, way: Way, threads: int) -> str:
    """The command that does one model again."""
    return (
        f"repeat it: python -m tests.fuzz.onnx.graphs --seed {seed} --count 1" + (f" --only {only}" if only else "")
        + f" --opt-level {way.opt_level} --target '{way.target}' --threads {threads}"
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
