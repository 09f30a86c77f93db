"""Whole TFLite files, compiled, against LiteRT: `make test-tflite` (python -m tests.frontend.tflite.whole FOLDER-OR-FILE ...).

Integers must be those of LiteRT's reference kernels, bit by bit (within two units where a model has operators that have none, so
that the other kernels run), floats within 1e-4 of the largest. Operators that round floats to bytes (dynamic range) are given LiteRT's
own floats, each its own: of floats that differ by their last bit one may fall to the other side of a border, and what is a step of 255
there grows in every layer behind. Ends with 1 where a file is not so, or where LiteRT's answer hardly depends on what it is
given, or is nearly the same everywhere, so that it says nothing. Files that LiteRT itself refuses to run are named.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tilewright as tvm
from tests.frontend.tflite.ops.writer import schema
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.tflite import from_tflite, litert
from tilewright.support.errors import TVMError

Arrays = list[np.ndarray]
CLOSE, NEAR = 1e-4, 2
"""Floats, as a share of the largest; integers where other kernels than the reference answer."""
TELLING, TELLING_UNITS = 0.05, 8
"""How far an answer's numbers must be from each other, and from those of another input."""


def arguments(path: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs of a file; dynamic axes have the extent 1."""
    mod, params = from_tflite(path)
    rng, found = np.random.default_rng(seed), {}
    for p in mod["main"].params:
        if p.name_hint in params:
            continue
        shape = [d.value if hasattr(d, "value") else 1 for d in p.type_annotation.shape]
        dtype = np.dtype(str(p.type_annotation.dtype))
        whole = dtype.kind in "iu"
        numbers = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape) if whole else rng.standard_normal(shape)
        found[p.name_hint] = numbers.astype(dtype)
    return found


def compiled(path: Path, inputs: dict[str, np.ndarray]) -> Arrays:
    """What the command line's build answers."""
    mod, params = formats.format_of(path).load(path, {n: x.shape for n, x in inputs.items()})
    executor = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    for name, x in inputs.items():
        executor.set_input(name, x)
    executor.run()
    return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]


class Pieces(NamedTuple):
    """A model cut before every operator that rounds floats to bytes."""

    data: bytes
    given: dict[str, int]
    """The inputs that the cuts made, and the tensors whose elements they take."""
    results: list[int]
    """The tensors that are results: those before cuts, then the model's own."""


def pieces(data: bytes) -> Pieces:
    """The pieces of a model's first graph. Its other graphs are left whole, and so are states."""
    import flatbuffers

    s = schema()
    model = s.ModelT.InitFromObj(s.Model.GetRootAs(data, 0))
    main = model.subgraphs[0]
    given: dict[str, int] = {}
    before: list[int] = []

    def constant(tensor: int) -> bool:
        return model.buffers[main.tensors[tensor].buffer].data is not None

    for op in main.operators:
        if not any(main.tensors[i].type == s.TensorType.INT8 and constant(i) for i in op.inputs if i >= 0):
            continue
        op.inputs = list(op.inputs)
        for place, i in enumerate(op.inputs):
            t = main.tensors[i]
            if i < 0 or t.type != s.TensorType.FLOAT32 or t.isVariable or constant(i) or i in main.inputs:
                continue
            again = copy.copy(t)
            again.name = f"cut{len(given)}".encode()
            op.inputs[place] = len(main.tensors)
            main.tensors.append(again)
            given[again.name.decode()] = i
            before.append(i)
    results = list(dict.fromkeys([*before, *main.outputs]))
    main.inputs = [*main.inputs, *range(len(main.tensors) - len(given), len(main.tensors))]
    main.outputs = results
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return Pieces(bytes(builder.Output()), given, results)


def numbers_of_inputs(data: bytes) -> list[int]:
    """The numbers of the tensors that a model takes."""
    return [int(i) for i in schema().Model.GetRootAs(data, 0).Subgraphs(0).InputsAsNumpy()]


def apart(x: np.ndarray, y: np.ndarray) -> float:
    """How far two answers are from each other: floats as a share of the largest of y, integers in units."""
    if y.dtype.kind == "f":
        return float(np.abs(x - y).max() / max(np.abs(y).max(), 1e-30))
    return float(np.abs(x.astype(np.int64) - y.astype(np.int64)).max())


def tells(answer: np.ndarray, other: np.ndarray) -> bool:
    """Whether an answer says something: its numbers differ, and those for another input are others."""
    least = TELLING if answer.dtype.kind == "f" else TELLING_UNITS
    return min(apart(answer, np.full_like(answer, answer.min())), apart(other, answer)) >= least


def main(places: list[str]) -> int:
    """A line for each file."""
    files = [f for p in map(Path, places) for f in (sorted(p.glob("*.tflite")) if p.is_dir() else [p])]
    verdicts = []
    for path in files:
        begin = time.perf_counter()
        try:
            verdict, said = checked(path)
        except TVMError as error:
            verdict, said = "", f"LiteRT refuses what its own converter wrote: {' '.join(str(error).split())[:160]}"
        verdicts.append(verdict)
        print(f"{verdict:5} {path.name:34} {said} ({time.perf_counter() - begin:.1f} s)", flush=True)
    good, refused = verdicts.count("ok"), verdicts.count("")
    print(f"{good} of {len(files) - refused} as LiteRT has them; it refuses {refused}")
    return 0 if good + refused == len(files) else 1


def checked(path: Path) -> tuple[str, str]:
    """The verdict on a file, and how far ours is from LiteRT's answer. Raises TVMError where LiteRT refuses the file."""
    data = path.read_bytes()
    cut, tensors = pieces(data), numbers_of_inputs(data)
    inputs, others = arguments(path), arguments(path, seed=1)
    found = compiled(path, inputs)
    (wanted, between), kernels = litert.answers(
        str(path), dict(zip(tensors, inputs.values(), strict=True)), cut.results if cut.given else []
    )
    (elsewhere, _), _ = litert.answers(str(path), dict(zip(tensors, others.values(), strict=True)), [])
    if not all(map(tells, wanted, elsewhere)):
        return "EMPTY", "LiteRT's answer is nearly constant: it says nothing of ours"
    good, said = True, []
    for f, w, other in zip(found, wanted, elsewhere, strict=True):
        distance = apart(f, w)
        if w.dtype.kind != "f":
            good &= distance <= (0 if kernels == litert.REFERENCE else NEAR)
            said.append(f"{np.count_nonzero(f != w)} of {w.size} differ, by at most {distance:.0f}")
        else:
            # What grew out of roundings stays less than half of what another input changes.
            good &= distance <= (apart(other, w) / 2 if cut.given else CLOSE)
            said.append(f"{distance:.1e}")
    if cut.given:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / path.name
            file.write_bytes(cut.data)
            answers = compiled(file, inputs | {n: between[i] for n, i in cut.given.items()})
        worst = max(apart(f, between[i]) for f, i in zip(answers, cut.results, strict=True))
        good &= worst <= CLOSE
        said.append(f"{worst:.1e} cut before each of {len(cut.given)} roundings")
    return "ok" if good else "WRONG", "; ".join(said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
