"""Runs computes of tensors on arrays, by the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import te
from tilewright.codegen import interp


def results(form: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """What a compute of tensors makes of arrays, by the interpreter."""
    tensors = [te.placeholder(a.shape, str(a.dtype), f"x{k}") for k, a in enumerate(arrays)]
    made = form(*tensors)
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    outs = [np.zeros([int(d) for d in t.shape], str(t.dtype)) for t in made]
    interp.run(te.create_schedule([t.op for t in made]).to_prim_func([*tensors, *made]), [*arrays, *outs])
    return outs
