"""`python -m tests.fuzz.mutations --count 500`: damaged ONNX files through import, build and a run; each in a process of its own."""

from __future__ import annotations

import argparse
import collections
import os
import random
import select
import sys
import time

from tests.fuzz.onnx_graphs import draw

PATIENCE = 10.0
"""Seconds that one file may take."""
MEMORY = 6 << 30
"""Bytes that one file may make the process ask for."""
GENERATORS = ("convnet", "transformer", "mixture", "residual", "conv", "slices", "resize")


def mutated(seed: int) -> bytes:
    """A model's file with a part cut off, bits turned, bytes replaced, doubled or left out."""
    rng = random.Random(seed)
    data = bytearray(draw(seed, rng.choice(GENERATORS))[1].model().SerializeToString())
    at = rng.randrange(len(data))
    kind = rng.choice(["cut", "turn", "turn", "turn", "replace", "double", "omit"])
    if kind == "cut":
        del data[at:]
    elif kind == "turn":
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == "replace":
        data[at : at + 4] = bytes(rng.randrange(256) for _ in range(4))
    elif kind == "double":
        data[at:at] = data[max(0, at - 30) : at]
    else:
        del data[at : at + rng.randrange(1, 20)]
    return bytes(data)


def fate(data: bytes) -> str:
    """What becomes of a file: "ran", "refused", or what must not be: an error that is none of ours."""
    import resource

    from tilewright import relay, runtime
    from tilewright.support.errors import InternalError, TVMError

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        mod, params = relay.frontend.from_onnx(data)
        executor = relay.build(mod, "llvm", params=params)["default"](runtime.cpu(0))
        executor["run"]()
    except InternalError as error:
        return f"InternalError: {error}"
    except TVMError:
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "ran"


def outcome(seed: int) -> str:
    """The fate of a seed's file in a child process, its death and its dawdling included."""
    data = mutated(seed)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.write(writer, fate(data).encode()[:4000])
        os._exit(0)
    os.close(writer)
    try:
        if not select.select([reader], [], [], PATIENCE)[0]:
            os.kill(pid, 9)
            return f"no result in {PATIENCE:.0f} s"
        text = os.read(reader, 5000).decode(errors="replace")
    finally:
        os.close(reader)
        status = os.waitpid(pid, 0)[1]
    return text or f"the process died with status {status}"


def survey(first: int, count: int, progress: bool = False) -> tuple[collections.Counter[str], list[str]]:
    """How many files ran or were refused, and the text of each that did neither."""
    import tilewright.relay.backend.build  # noqa: F401 (children inherit what is loaded)

    counts: collections.Counter[str] = collections.Counter()
    problems = []
    shown = time.monotonic()
    for seed in range(first, first + count):
        text = outcome(seed)
        known = text in ("ran", "refused")
        counts[text if known else "failed"] += 1
        if not known:
            problems.append(f"seed {seed}: {text}\nrepeat it: python -m tests.fuzz.mutations --seed {seed} --count 1")
        if progress and time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(f"{seed - first + 1} of {count} files, {len(problems)} failures", file=sys.stderr, flush=True)
    return counts, problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mutations", description=__doc__.split("`: ")[1])
    parser.add_argument("--count", type=int, default=100, help="how many files")
    parser.add_argument("--seed", type=int, default=0, help="the first file's seed")
    options = parser.parse_args()
    counts, problems = survey(options.seed, options.count, progress=True)
    print("\n\n".join(problems))
    print(", ".join(f"{n} {what}" for what, n in counts.items()), file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
