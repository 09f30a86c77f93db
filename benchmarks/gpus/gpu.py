"""A GPU of NVIDIA: products, convolutions, attention, operators bound by memory and whole models beside the libraries in PyTorch's wheel.

python -m benchmarks gpu [--groups gemm,memory] [--seconds 460] [--json build/gpu.json] [--resume build/gpu.json]

Everything is compiled first, in processes of its own, into the caches; then both sides take turns on the same inputs, by CUDA events, with
the second cache flushed before each call. Results are compared. Parts of schedules are measured on and off: the ratio is their gain. What
does not fit into the time is said to be open; --resume takes what an earlier run measured on the same device. The exit status is 1 where
there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from typing import Any

from benchmarks.gpus import programs, references, switches
from benchmarks.gpus.cases import Case
from benchmarks.gpus.cases import all_cases as compared
from benchmarks.gpus.measuring import Deadline, Gpu, turns
from benchmarks.gpus.results import Result, facts, lines, read
from benchmarks.models import CACHE
from benchmarks.options import names, new_file, takes_json, write_json

GROUPS = tuple(dict.fromkeys([case.group for case in compared()] + [switches.GROUP]))
COMPILING = 0.5
"""Share of the time that compilation may take."""
TUNERS = 3
"""Models that torch.compile tunes at the same time."""


def all_cases() -> list[Case]:
    """Every case: those beside the libraries, then parts of schedules on and off."""
    return [*compared(), *switches.switches()]


def ahead(case: Case) -> Callable[[Case, str], str]:
    """What compiles a case ahead."""
    return switches.compiled_ahead if case.group == switches.GROUP else programs.compiled_ahead


def missing() -> str:
    """Why nothing can be measured here; "" where there is a GPU."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: pip install torch (a wheel for CUDA)"
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA: install a wheel for CUDA"
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU of NVIDIA"
    import tilewright as tvm

    return "" if tvm.cuda(0).exist else "cuda(0) does not exist: tilewright devices says what is missing"


def compiled(cases: Sequence[Case], target: str, seconds: float) -> dict[str, str]:
    """Compiles cases into the caches, both ours and torch's; what went wrong by the name of a case, "" where nothing did."""
    deadline, context = Deadline(seconds), multiprocessing.get_context("spawn")
    models = [c for c in cases if c.group == "models"]
    ours = ProcessPoolExecutor(max((os.cpu_count() or 2) - TUNERS, 1), context)
    peers = ProcessPoolExecutor(TUNERS, context)
    jobs = [(c, peers.submit(references.tuned_ahead, c)) for c in models]
    # Models take longest, so they begin first.
    jobs += [(c, ours.submit(ahead(c), c, target)) for c in sorted(cases, key=lambda c: c not in models)]
    wait([future for _, future in jobs], timeout=deadline.left)
    found: dict[str, str] = {}
    for case, future in jobs:
        found[case.name] = found.get(case.name, "") or outcome(future)
    for pool in (ours, peers):
        pool.shutdown(wait=False, cancel_futures=True)
    for process in multiprocessing.active_children():
        process.terminate()
    return found


def outcome(future: Future[str]) -> str:
    """What went wrong in a compilation, "" if nothing did."""
    if not future.done():
        return "not compiled in time"
    error = future.exception()
    return future.result() if error is None else f"{type(error).__name__}: {error}"


def sides(case: Case, gpu: Any) -> tuple[Callable[[], Any], Callable[[], Any], str]:
    """(our run, the peer's, what is wrong with our result)."""
    if case.group == switches.GROUP:
        return switches.sides(case, gpu)
    import torch

    from tilewright import nd

    library = programs.build(case, gpu.target)
    executor = gpu.executor(library, case.group == "models")
    if case.group == "models":
        peer, arrays = references.compiled_model(case)
        for name, value in arrays.items():
            executor.set_input(name, value)
        expected = peer().clone()
    else:
        given = references.tensors(case, gpu.place)
        peer = references.reference(case, given)
        expected = references.comparable(case, peer())
        for name, tensor in given.items():
            if not name.startswith("w"):
                executor.set_input_zero_copy(name, nd.from_dlpack(tensor))
    executor.run()
    gpu.wait()
    return executor.run, peer, references.difference(case, torch.from_dlpack(executor.get_output(0)), expected)


def measured(case: Case, gpu: Any) -> Result:
    """One case; what goes wrong is its error."""
    try:
        ours, peer, wrong = sides(case, gpu)
        return Result(case, error=wrong) if wrong else turns(case, gpu, ours, peer)
    except Exception as error:
        return Result(case, error=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__.split("\n\n")[0])
    parser.add_argument("--groups", default=",".join(GROUPS), help=f"of {', '.join(GROUPS)}; by default all")
    parser.add_argument("--seconds", type=float, default=460.0, help="after which no further case begins (460)")
    parser.add_argument(
        "--resume", type=new_file, metavar="FILE", help="the results of an earlier run, which are not measured again"
    )
    takes_json(parser)
    options = parser.parse_args(argv)
    if options.seconds <= 0:
        parser.error(f"--seconds takes a positive number, but was given {options.seconds:g}")
    groups = names(parser, "--groups", options.groups, GROUPS)
    why = missing()
    if why:
        print(f"there is no GPU to measure: {why}", file=sys.stderr)
        return 1
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CACHE.parent / "inductor"))
    return run([c for c in all_cases() if c.group in groups], Gpu(), options)


def run(cases: Sequence[Case], gpu: Any, options: argparse.Namespace) -> int:
    """Measures cases in the time that there is. The results are written after each case, so that what was measured is kept."""
    deadline = Deadline(options.seconds)
    known = read(json.loads(options.resume.read_text()), cases) if options.resume and options.resume.is_file() else {}
    todo = [c for c in cases if c.name not in known]
    said = compiled(todo, gpu.target, COMPILING * options.seconds)
    bandwidth = gpu.bandwidth()
    results: list[Result] = []
    for case in cases:
        if case.name in known:
            results.append(known[case.name])
        elif said.get(case.name):
            results.append(Result(case, error=said[case.name]))
        elif deadline.left <= 0:
            results.append(Result(case, error="not measured: the time was over"))
        else:
            results.append(measured(case, gpu))
            print(lines(results[-1:], bandwidth)[2], file=sys.stderr, flush=True)
            write_json(options, facts(results, gpu.facts, bandwidth))
    write_json(options, facts(results, gpu.facts, bandwidth))
    print("\n".join(lines(results, bandwidth)))
    return 0
