"""Host operators: Python functions that compiled code calls for operators without kernels (strings, regular expressions, image files).

`host.call` is an ordinary operator. Its kernel calls one packed function (`runtime/host_functions/registry`), so executors, memory
plans and dynamic dimensions need no special case. If the size of the result depends on the data, another host function computes
the shape (`dyn.host.call`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from tilewright import te
from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.cards.card import DYNAMIC, OPAQUE, OpCard, TypeRuleError, need
from tilewright.relay.cards.relations import dims, tensor, tensor_type
from tilewright.relay.op.data_dependent.dynamic import Dynamic
from tilewright.runtime.host_functions.registry import ENTRY, name_in_code, run_host
from tilewright.support.errors import OpNotEnabled
from tilewright.target import Target
from tilewright.target.triples import is_bare
from tilewright.tir import Any as AnyDim
from tilewright.tir import call_packed


class host_call(OpCard, key="host.call"):
    """The tensor of `shape` and `dtype` that a Python function computes from the tensors `inputs`."""

    function: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    config: str = ""
    fuse = OPAQUE
    undifferentiable = "it is computed by a Python function; write its gradient with operators"

    def infer(self, inputs: TupleType) -> Type:
        need(isinstance(inputs, TupleType), "the inputs must be a tuple of tensors", f"they are {inputs}", 0)
        for k, t in enumerate(inputs.fields):
            tensor(t, k)
        return tensor_type(self.shape, self.dtype)

    def compute(self, inputs: Sequence[te.Tensor]) -> te.Tensor:
        """Raises OpNotEnabled where the target is a machine without an operating system."""
        target = Target.current()
        if target is not None and is_bare(target.triple):
            node = json.loads(self.config or "{}").get("node")
            what = f"the node {node!r}: {self.function}" if node else self.function
            raise OpNotEnabled(
                f"{what} has no kernel: a Python function computes it, and {target.mcpu or target} runs none. Let the model end before this"
                " operator, or begin behind it, and compute it elsewhere"
            )
        made: te.Tensor = te.extern(
            [self.shape],
            list(inputs),
            lambda ins, outs: call_packed(ENTRY, name_in_code(self.function), self.config, *ins, *outs),
            name="host_call",
            dtype=[self.dtype],
        )
        return made

    def ref(self, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return run_host(self.function, self.config, [np.asarray(x) for x in inputs]).astype(self.dtype, copy=False)


class host_draw(host_call, key="host.draw"):
    """`host.call` of a function whose results differ from call to call: equal calls are not merged, and nothing is folded."""

    pure = False


class dyn_host_call(Dynamic, key="dyn.host.call"):
    """`host.call` with a computed shape."""

    of = host_call
    function: str
    dtype: str = "float32"
    config: str = ""
    undifferentiable = host_call.undifferentiable

    def infer(self, inputs: TupleType, shape: TensorType) -> Type:
        rank = dims(tensor(shape, 1))[0]
        if not isinstance(rank, int):
            raise TypeRuleError("the number of axes must be known", f"the shape has {rank} elements", 1)
        return tensor_type([AnyDim() for _ in range(rank)], self.dtype)


DYNAMIC[host_call] = dyn_host_call.call_of
