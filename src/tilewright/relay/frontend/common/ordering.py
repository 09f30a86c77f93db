"""Selection of the k best elements of an axis, for all importers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir import Span
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.value import Value, make_call, make_calls


def best(span: Span, x: Value, k: Any, axis: int = -1, is_ascend: bool = False, dtype: str = "int32") -> list[Expr]:
    """The k largest elements (smallest with `is_ascend`) in order, and their indices. `k`: a number, or a computed vector of one element.

    For k = 0 the results are empty. relay's topk takes 0 as all elements, so a slice removes them.
    """
    attrs = {"axis": axis, "ret_type": "both", "is_ascend": is_ascend, "dtype": dtype}
    if isinstance(k, Value):
        zero, one = [Value(array=np.array([v], np.int64)) for v in (0, 1)]
        k = Value(make_call("dyn.within", [k, k], {"low": 0, "name": "k"}, span))
        found = make_calls("dyn.topk", [x, k], attrs, span)
        return [make_call("dyn.strided_slice", [v, zero, k, one], {"axes": (axis,)}, span) for v in found]
    found = make_calls("topk", [x], {"k": k, **attrs}, span)
    if not isinstance(k, int) or k > 0:
        return list(found)
    none = {"begin": (0,), "end": (0,), "strides": (1,), "axes": (axis,)}
    return [make_call("strided_slice", [v], none, span) for v in found]
