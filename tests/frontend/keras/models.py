"""Keras on its torch backend beside the importer: what the tests of Keras share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import torch

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor

Array = np.ndarray[Any, Any]


def data_for(model: Any, batch: int = 2, seed: int = 0) -> list[Array]:
    """Random inputs of a model: small numbers, places below 5 for integers."""
    rng = np.random.default_rng(seed)
    found = []
    for x in model.inputs:
        shape = [batch if k == 0 and d is None else 6 if d is None else d for k, d in enumerate(x.shape)]
        if "int" in str(x.dtype):
            found.append(rng.integers(0, 5, shape).astype(str(x.dtype)))
        else:
            found.append(rng.standard_normal(shape).astype(str(x.dtype)))
    return found


def shuffled(model: Any, seed: int = 1) -> None:
    """Random weights everywhere, so that zeros and ones hide nothing."""
    rng = np.random.default_rng(seed)
    for v in model.weights:
        if not v.dtype.startswith("float"):
            continue
        spread = rng.uniform(0.5, 1.5, v.shape) if "variance" in v.name else rng.standard_normal(v.shape) * 0.3
        v.assign(keras.ops.convert_to_tensor(spread.astype("float32"), dtype=v.dtype))


def keras_outputs(model: Any, data: Sequence[Array]) -> list[Array]:
    """What Keras computes."""
    with torch.no_grad():
        made = model(list(data) if len(data) > 1 else data[0], training=False)
    return [keras.ops.convert_to_numpy(v) for v in keras.tree.flatten(made)]


def compiled_outputs(mod: Any, params: Mapping[str, Any], data: Sequence[Array]) -> list[Array]:
    """What the compiled module computes."""
    with tvm.transform.PassContext(opt_level=3):
        run = graph_executor.GraphModule(relay.build(mod, target="llvm", params=dict(params))["default"](tvm.cpu()))
    names = [v.name_hint for v in mod["main"].params]
    for name, x in zip(names, data, strict=False):
        run.set_input(name, x)
    run.run()
    return [run.get_output(k).numpy() for k in range(run.get_num_outputs())]


def interpreted_outputs(mod: Any, params: Mapping[str, Any], data: Sequence[Array]) -> list[Array]:
    """What the interpreter computes."""
    from tilewright.relay.evaluation.interpreter import run_function

    main = mod["main"]
    values = {v.name_hint: x for v, x in zip(main.params, data, strict=False)} | dict(params)
    made = run_function(main, [values[v.name_hint] for v in main.params])
    return [np.asarray(v) for v in (made if isinstance(made, (list, tuple)) else [made])]
