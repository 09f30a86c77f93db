"""`python -m tests.fuzz.files.mutations --count 500`: damaged model files through import, build and a run, in processes of their own.

ONNX, PyTorch, TFLite, TensorFlow and Keras. Every file must be refused with an error of ours, or run; what runs, and what the model's
own framework takes too, must have the right answer (`second_opinion`). One of NATIVE that can be imported is compiled and run
natively, the others in relay's interpreter. A file may take 10 seconds of CPU time, and a process 2 GB more memory than it begins with.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import gc
import itertools
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.caches import own_cache
from tests.fuzz.files import damage, damage_trees, model_files
from tests.fuzz.files.second_opinion import UNCHECKED, verdict
from tests.fuzz.progress import Progress
from tilewright.relay.frontend.tflite import litert

CPU_SECONDS = 10
"""Seconds of processor time that one file may take."""
PATIENCE = 900.0
"""Seconds that it may take on a busy machine."""
MEMORY = 2 << 30
"""Bytes that the process may ask for beyond those that it begins with."""
KINDS = (
    "onnx bytes",
    "onnx graph",
    "onnx graph",
    "onnx graph",
    "external",
    "pt2 bytes",
    "pt2",
    "script bytes",
    "script",
    "tflite bytes",
    "tflite",
    "tensorflow bytes",
    "tensorflow",
    "keras bytes",
    "keras",
    "h5 bytes",
    "h5",
)
SHAPES = {"dense": (3, 16), "picture": (2, 3, 8, 8), "attention": (1, 5, 16), "writes": (4, 4), "tokens": (2, 5)}
NATIVE = 5
RENEWED = 200
MOST_RUN = 1 << 22
"""Elements that inputs may have to be run with."""


def kind_of(seed: int) -> str:
    """What a seed's file is, and how it is damaged."""
    return KINDS[seed % len(KINDS)]


@functools.cache
def sound_files(whole: bool, models: str) -> dict[str, list[Path]]:
    """The corpus' files whose names hold `models`, by kind."""
    return {k: [f for f in files if models in f.name] for k, files in model_files.corpus(whole).items()}


def write(seed: int, folder: Path, whole: bool = True, models: str = "") -> Path:
    """A seed's damaged file; `whole`: of all test models; `models`: of files whose names hold this."""
    rng = random.Random(seed)
    kind = kind_of(seed)
    corpus = sound_files(whole, models)
    if not kind.startswith(("onnx", "external")):
        files = corpus[kind.split()[0]]
        if files:
            source = rng.choice(files)
            path = folder / source.name
            if source.is_dir():
                shutil.copytree(source, path)
            else:
                shutil.copyfile(source, path)
            spoil(path, kind, rng)
            return path
        kind = "onnx bytes"
    model = model_files.onnx_model(seed, rng, corpus["node"], bool(models))
    path = folder / "model.onnx"
    if kind == "external":
        (folder / "model").mkdir()
        path = model_files.with_external_data(model, folder / "model")
        damage.in_external_data(path, rng)
    elif kind == "onnx graph":
        damage.in_graph(model, rng)
        path.write_bytes(model.SerializeToString())
    else:
        path.write_bytes(damage.in_bytes(model.SerializeToString(), rng))
    return path


def spoil(path: Path, kind: str, rng: random.Random) -> None:
    """Damages a file, or one of those in a folder, in place."""
    if path.is_dir():
        parts = sorted([p for p in path.rglob("*") if p.is_file()])
        path = path / "saved_model.pb" if rng.random() < 0.6 else rng.choice(parts)
    format_name, _, way = kind.partition(" ")
    data = path.read_bytes()
    if way == "bytes" or (format_name == "tensorflow" and path.suffix != ".pb"):
        data = damage.in_bytes(data, rng)
    elif format_name == "tflite":
        data = damage_trees.in_tflite(data, rng)
    elif format_name == "tensorflow":
        data = damage_trees.in_tensorflow(data, rng, path.name == "saved_model.pb")
    elif format_name == "h5":
        damage_trees.in_h5(path, rng)
        return
    else:
        data = damage.in_archive(data, rng)
    path.write_bytes(data)


def loaded(path: Path) -> tuple[Any, Any]:
    """(module, interface of an ONNX model or None) of a file."""
    from tilewright.relay.frontend.common.formats import format_of
    from tilewright.relay.frontend.onnx.importing import import_model
    from tilewright.relay.parameters import bind_params
    from tilewright.relay.transform import InferType
    from tilewright.support.pinned import Pinned

    if path.suffix == ".onnx":
        imported = import_model(path)
        return imported.mod, imported.interface
    shapes = {}
    if path.suffix == ".pt":
        name = {"tokens": "ids", "attention": "x", "writes": "x"}.get(path.stem, "input")
        shapes[name] = Pinned(SHAPES[path.stem], "int64" if path.stem == "tokens" else "")
    mod, params = format_of(path).load(path, shapes)
    return InferType()(bind_params(mod, params)), None


def arguments(mod: Any, rng: np.random.Generator) -> list[np.ndarray] | None:
    """Values for the parameters of main, dynamic dimensions being 2; None where they, or what is computed, would be large."""
    from tilewright.cli.tensors import random_input
    from tilewright.ir import IntImm, TensorType
    from tilewright.relay.functor import post_order

    for e in post_order(mod["main"].body):
        t = getattr(e, "checked_type", None)
        if (
            isinstance(t, TensorType)
            and np.prod([d.value for d in t.shape if isinstance(d, IntImm)], dtype=object) > MOST_RUN
        ):
            return None
    found = []
    for p in mod["main"].params:
        shape = [int(d.value) if hasattr(d, "value") else 2 for d in p.checked_type.shape]
        if np.prod(shape, dtype=object) > MOST_RUN:
            return None
        found.append(random_input(shape, str(p.checked_type.dtype), rng))
    return found


def fate(path: Path, seed: int) -> tuple[str, list[np.ndarray], list[np.ndarray], Any]:
    """What becomes of a file: "ran", "imported", "refused", or what must not be: an error that is none of ours. Further the arguments and
    results."""
    from tilewright import runtime
    from tilewright.relay.frontend.onnx.program import runner
    from tilewright.runtime.host_functions.strings import string_table
    from tilewright.support.errors import InternalError, TVMError

    try:
        mod, interface = loaded(path)
        args = arguments(mod, np.random.default_rng(seed))
        if args is None:
            return "imported", [], [], None
        with string_table.run():
            # Native code would not hear of the clock, and loops may be long.
            native = seed % NATIVE == 0 and not has_loops(mod)
            run = runner(mod, "llvm", runtime.cpu(0)) if native else partial(interpreted, mod)
            results = [np.asarray(r) for r in run(args)]
        return "ran", args, results, (mod, interface)
    except Long:
        return "imported", [], [], None
    except InternalError as error:
        return f"InternalError: {error}\n{place(error)}", [], [], None
    except TVMError as error:
        return (
            "refused" if str(error).strip() else f"{type(error).__name__} without a text\n{place(error)}",
            [],
            [],
            None,
        )
    except (ValueError, MemoryError) as error:
        if not place(error).startswith("_ffi"):
            return f"{type(error).__name__}: {error}\n{place(error)}", [], [], None
        # What a compiled program says of arguments that do not fit (dynamic dimensions that the model takes to be equal, say), and of a
        # tensor that memory does not hold.
        return "refused", [], [], None
    except BaseException as error:
        return f"{type(error).__name__}: {error}\n{place(error)}", [], [], None


class Long(Exception):
    """A program with loops takes longer than a file may: a changed number can ask for millions of rounds."""


def has_loops(mod: Any) -> bool:
    """Whether functions of main call themselves."""
    from tilewright.relay.expr import Function, Let
    from tilewright.relay.functor import post_order

    return any([isinstance(e, Let) and isinstance(e.value, Function) for e in post_order(mod["main"].body)])


def interpreted(mod: Any, args: list[np.ndarray]) -> list[Any]:
    """The results of main by relay's interpreter. Raises Long."""
    from tilewright.relay.evaluation.interpreter import run_function

    def late(*_: Any) -> None:
        raise Long

    before = signal.signal(signal.SIGPROF, late) if has_loops(mod) else None
    try:
        with np.errstate(all="ignore"):
            found = run_function(mod["main"], args, mod)
    finally:
        if before is not None:
            signal.signal(signal.SIGPROF, before)
    return list(found) if isinstance(found, (tuple, list)) else [found]


def place(error: BaseException) -> str:
    """The lines that raised it, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return " < ".join([f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames)])


def opinion(path: Path, args: list[np.ndarray], results: list[np.ndarray], made: Any) -> str:
    """The verdict; an error on the way to it is one of the tests or the package."""
    try:
        return verdict(path, args, results, made)
    except MemoryError:
        return UNCHECKED + " (no memory for a verdict)"
    except Exception as error:
        return f"no verdict: {type(error).__name__}: {error}\n{place(error)}"


class Worker:
    """A process that takes files one after the other, so that few need one of their own; it is replaced when a file takes it down, and
    after RENEWED files."""

    def __init__(self) -> None:
        self.pid = 0
        self.done = 0

    def start(self) -> None:
        """A fresh process, forked from this one."""
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        self.pid, self.done, self.said = os.fork(), 0, b""
        if self.pid == 0:
            try:
                os.close(self.orders)
                os.close(self.answers)
                serve(orders, answers)
            finally:
                os._exit(0)
        os.close(orders)
        os.close(answers)

    def stop(self) -> int:
        """Ends it; the status that it ended with."""
        if not self.pid:
            return 0
        os.close(self.orders)
        os.close(self.answers)
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        return status

    def check(self, seed: int, path: Path) -> str:
        """The fate of a file, the process's death and its dawdling included."""
        if not self.pid or self.done >= RENEWED:
            self.stop()
            self.start()
        self.done += 1
        os.write(self.orders, f"{seed}\0{path}\n".encode())
        text = self.heard()
        if text is None:
            return self.ended()
        if text != "ran":
            return text
        text = self.heard()
        if text is None:
            # The framework died of the file, or dawdled; that is no finding here.
            self.ended()
        return text or UNCHECKED + " (the framework died of it)"

    def twice(self, seed: int, path: Path) -> str:
        """`check`, again in a process of its own where what others left may be the reason of a failure."""
        text = self.check(seed, path)
        if text.startswith(("MemoryError", "the process died", "no result")) and self.done != 1:
            self.stop()
            text = self.check(seed, path)
        return text

    def heard(self) -> str | None:
        """The next word; None where none comes."""
        begin = time.monotonic()
        while b"\0" not in self.said:
            left = begin + PATIENCE - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                return None
            part = os.read(self.answers, 5000)
            if not part:
                return None
            self.said += part
        word, _, self.said = self.said.partition(b"\0")
        return word.decode(errors="replace")

    def ended(self) -> str:
        """How a process that fell silent ended."""
        late = os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        if not late:
            os.close(self.orders)
            os.close(self.answers)
            self.pid = 0
            return "the process died"
        time.sleep(0.2)
        os.kill(self.pid, signal.SIGKILL)
        status = self.stop()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
            return f"the process died of signal {os.WTERMSIG(status)}"
        return f"no result in {PATIENCE:.0f} s"


def forked_litert(*files: str) -> tuple[int, str]:
    """LiteRT's `own_process`, forked from this one, which has loaded what it needs."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            status = litert.main(*files)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), ""


def serve(orders: int, answers: int) -> None:
    """The work of a process."""
    import resource

    litert.own_process = forked_litert
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    # The clock's signal ends the process: nothing that hangs in native code would hear of it.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with os.fdopen(orders) as lines:
        for line in lines:
            seed, _, path = line.rstrip("\n").partition("\0")
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            # A framework's process of its own inherits no clock, but this limit; what this process has used is not part of the other's.
            resource.setrlimit(
                resource.RLIMIT_CPU, (int(time.process_time()) + 2 * CPU_SECONDS, resource.RLIM_INFINITY)
            )
            text, args, results, made = fate(Path(path), int(seed))
            os.write(answers, text.encode()[:4000] + b"\0")
            if text == "ran":
                os.write(answers, opinion(Path(path), args, results, made).encode()[:4000] + b"\0")
            signal.setitimer(signal.ITIMER_PROF, 0)


def outcome(seed: int, worker: Worker, keep: Path | None = None, whole: bool = True, models: str = "") -> str:
    """The fate of a seed's file."""
    folder = Path(tempfile.mkdtemp(prefix="tilewright-damaged-"))
    try:
        path = write(seed, folder, whole, models)
        if keep is not None:
            shutil.copytree(folder, keep, dirs_exist_ok=True, symlinks=True, ignore=shutil.ignore_patterns("fifo"))
        return worker.twice(seed, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_expected(text: str) -> bool:
    """Whether what became of a file is no find."""
    return text in ("right", "imported", "refused") or text.startswith(UNCHECKED)


def load_all() -> None:
    """Loads what any file may need: each of the processes that are forked from this one would load it anew, on some file's clock."""
    import onnx.reference.ops._op_list  # noqa: F401
    import onnxruntime  # noqa: F401

    from tilewright import relay
    from tilewright.ir import IRModule
    from tilewright.relay.frontend.common.formats import find_formats

    find_formats()
    model = IRModule.from_expr(relay.sort(relay.zeros((2,), "float32")))
    relay.build(model, "llvm")
    relay.vm.compile(model, "llvm")
    with contextlib.suppress(ImportError):
        import ai_edge_litert.interpreter  # noqa: F401
    try:
        import torch
        import torch._decomp
        import torch._export.passes
        import torch.export

        torch.set_num_threads(1)
        os.environ.setdefault("KERAS_BACKEND", "torch")
        import keras  # noqa: F401
    except ImportError:
        pass


def survey(
    first: int,
    count: int,
    progress: bool = False,
    keep: Path | None = None,
    whole: bool = True,
    formats: Sequence[str] = (),
    models: str = "",
) -> tuple[collections.Counter[str], list[str]]:
    """How many files ran or were refused, and the text of each that did neither; the first is copied into `keep`. formats: only these;
    models: only of files whose names hold this."""
    model_files.corpus(whole)
    load_all()
    gc.freeze()  # children share what is not collected
    counts: collections.Counter[str] = collections.Counter()
    problems = []
    shown = Progress(count, "files")
    worker = Worker()
    given = f" --models {models}" if models else ""
    seeds = (k for k in itertools.count(first) if not formats or kind_of(k).split()[0] in formats)
    for done, seed in enumerate(itertools.islice(seeds, count), 1):
        text = outcome(seed, worker, keep if done == 1 else None, whole, models)
        known = is_expected(text)
        counts[text if known else "failed"] += 1
        if not known:
            shown.failures += 1
            problems.append(
                f"seed {seed} ({kind_of(seed)}): {text}\nrepeat it: python -m tests.fuzz.files.mutations --seed {seed} --count 1{given}"
            )
            if progress:
                shown.clear()
                print(problems[-1] + "\n", flush=True)
        shown.done = done
        if progress:
            shown.show()
    worker.stop()
    return counts, problems


@own_cache()
def main() -> int:
    summary, details = str(__doc__).split("`: ")[1].split("\n", 1)
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.files.mutations", description=summary, epilog=details)
    parser.add_argument("--count", type=int, default=100, help="how many files")
    parser.add_argument("--seed", type=int, default=0, help="the first file's seed")
    names = sorted({k.split()[0] for k in KINDS})
    parser.add_argument("--formats", nargs="+", choices=names, metavar="FORMAT", help=f"only these: {', '.join(names)}")
    parser.add_argument(
        "--models", default="", help="only of models whose files' names hold this: ai_onnx_ml, Quantize"
    )
    parser.add_argument("--keep", type=Path, help="copy the first seed's file into this folder")
    options = parser.parse_args()
    counts, problems = survey(
        options.seed, options.count, True, options.keep, formats=options.formats or (), models=options.models
    )
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())), file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
