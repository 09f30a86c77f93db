"""Results of LiteRT, computed in a separate process, because its reference kernels crash on some models.

The process runs this file: `python litert.py MODEL INPUTS.npz RESULTS.npz KERNELS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Answers = tuple[list[Array], dict[int, Array]]
"""(outputs, number of another tensor -> its elements)."""
REFERENCE, FASTER = "reference", "faster"
MISSING, REFUSED = 3, 4
"""Exit codes: LiteRT is not installed, LiteRT refuses the model."""


def answers(path: str, inputs: Mapping[int, Array], tensors: Sequence[int]) -> tuple[Answers, str]:
    """(the results of LiteRT, the kind of kernels that computed them). inputs: number of a tensor -> its elements.

    The reference kernels run first. If they crash or lack an operator, the faster ones run. Raises TVMError if LiteRT
    is not installed, or refuses the model.
    """
    from tilewright.support.errors import TVMError
    from tilewright.support.files import temporary_folder

    with temporary_folder() as folder:
        given, made = (os.path.join(folder, n) for n in ("given.npz", "made.npz"))
        arrays: dict[str, Any] = {f"input_{i}": x for i, x in inputs.items()}
        np.savez(given, tensors=np.array(tensors, np.int64), **arrays)
        said = "its kernels end the process"
        for kernels in (REFERENCE, FASTER):
            status, text = own_process(os.path.abspath(path), given, made, kernels)
            if status == 0:
                with np.load(made) as found:
                    outputs = [found[f"output_{k}"] for k in range(sum(n.startswith("output_") for n in found))]
                    return (outputs, {i: found[f"tensor_{i}"] for i in tensors}), kernels
            if status == MISSING:
                raise TVMError("comparing with LiteRT needs it: pip install 'tilewright[tflite]'")
            if status == REFUSED:
                said = " ".join(text.split())
    raise TVMError(f"{path}: LiteRT does not run it: {said}")


def own_process(path: str, given: str, made: str, kernels: str) -> tuple[int, str]:
    """(exit code, standard output) of a process that runs `main`."""
    command = [sys.executable, os.fspath(Path(__file__)), path, given, made, kernels]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout


def main(path: str, given: str, made: str, kernels: str) -> int:
    """The body of the process: reads inputs from a file and writes results to another."""
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        return MISSING
    kinds = {REFERENCE: OpResolverType.BUILTIN_REF, FASTER: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    with np.load(given) as file:
        tensors = file["tensors"].tolist()
        inputs = {int(n.removeprefix("input_")): file[n] for n in file if n.startswith("input_")}
    try:
        runner = Interpreter(
            model_path=path,
            experimental_op_resolver_type=kinds[kernels],
            experimental_preserve_all_tensors=bool(tensors),
        )
        for index, x in inputs.items():
            runner.resize_tensor_input(index, x.shape)
        runner.allocate_tensors()
        for index, x in inputs.items():
            runner.set_tensor(index, np.ascontiguousarray(x))
        runner.invoke()
        found = {f"output_{k}": runner.get_tensor(d["index"]) for k, d in enumerate(runner.get_output_details())}
        found |= {f"tensor_{i}": runner.get_tensor(i) for i in tensors}
    except (RuntimeError, ValueError) as error:
        print(error)
        return REFUSED
    np.savez(made, **found)
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file: its modules must not shadow Python's
    sys.exit(main(*sys.argv[1:]))
