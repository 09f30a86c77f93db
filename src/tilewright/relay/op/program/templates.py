"""An operator as a template of AutoTVM computes and schedules it, with the configuration of a record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.codegen.backend import evaluate
from tilewright.ir import Type
from tilewright.relay.cards.card import OUT_ELEMWISE, LayoutChoice, OpCard, need
from tilewright.relay.cards.relations import dims, tensor, tensor_type
from tilewright.target import Target

BLOCKED = ("conv2d_NCHWc.x86", "depthwise_conv2d_NCHWc.x86")
"""Templates whose data and weights are better given in the blocks of their configuration."""
GENERIC = ".generic"
"""The end of the names of templates whose knobs are the decisions of the kernel's plan."""
SAMPLE = (
    '["dense_nopack.x86", ["TENSOR", [2, 6], "float32"], ["TENSOR", [4, 6], "float32"], null, "float32"]',
    '{"index": 0, "code_hash": null, "entity": [["tile_y", "sp", [-1, 2]], ["tile_x", "sp", [-1, 2]], ["tile_k", "sp", [-1, 3]]]}',
)


class autotvm_template(OpCard, key="nn.contrib_autotvm_template"):
    """What a template of AutoTVM computes of its inputs. workload: its name and its arguments, config: a configuration, both as a record
    has them. shape, dtype: of the result. Inputs may be given as the template wants them packed.

    `relay.transform.ApplyTemplates` puts it in the place of operators for which there is a record.
    """

    fuse = OUT_ELEMWISE
    undifferentiable = "templates are put in when a model is built; take the gradient of the model before"
    workload: str
    config: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    samples = [(((2, 6), (4, 6)), {"workload": SAMPLE[0], "config": SAMPLE[1], "shape": (2, 4)})]

    @property
    def template(self) -> str:
        return str(json.loads(self.workload)[0])

    @property
    def decisions(self) -> str:
        """As JSON, the decisions about the kernel of a template whose knobs they are; "" for others, which schedule it themselves."""
        if not self.template.endswith(GENERIC):
            return ""
        return json.dumps({name: value for name, kind, value in json.loads(self.config)["entity"] if kind == "ot"})

    def infer(self, data: Type, weight: Type) -> Type:
        for number, given in enumerate((data, weight)):
            t = tensor(given, number)
            known = all([isinstance(d, int) for d in dims(t)])
            need(known, "all extents must be known, for which there is a record", f"they are {t.shape}", number)
        return tensor_type(self.shape, self.dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        given = iter((data, weight))
        name, *values = json.loads(self.workload)
        args = [next(given) if isinstance(v, list) and v[:1] == ["TENSOR"] else _tuples(v) for v in values]
        return self._configured("fcompute", name, *args)  # type: ignore[no-any-return]

    def schedule(self, outs: Sequence[te.Tensor], target: Target) -> te.Schedule | None:
        if self.decisions:
            return None
        return self._configured("fschedule", self.template, list(outs))  # type: ignore[no-any-return]

    def _configured(self, part: str, name: str, *args: Any) -> Any:
        """The result of a part of the template, which is given the configuration."""
        from tilewright.autotvm.task.dispatcher import ApplyConfig
        from tilewright.autotvm.task.space.config import ConfigEntity
        from tilewright.autotvm.task.task import template_named

        config = ConfigEntity.from_json_dict(json.loads(self.config))
        with Target.current(True) or Target("llvm"), ApplyConfig(config):
            return getattr(template_named(name), part)(*args)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        arrays = [np.ascontiguousarray(a) for a in (data, weight)]
        inputs = [te.placeholder(a.shape, a.dtype.name, f"p{i}") for i, a in enumerate(arrays)]
        out = np.zeros(self.shape, self.dtype)
        evaluate(te.create_prim_func([*inputs, self.compute(*inputs)]), [*arrays, out])
        return out

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Templates on blocks of channels take data and weights in the blocks of the configuration, and leave the result in them."""
        if self.template not in BLOCKED or len(self.shape) != 4:
            return None
        sizes = {name: value for name, _, value in json.loads(self.config)["entity"]}
        block_in, block_out = sizes["tile_ic"][-1], sizes["tile_oc"][-1]
        n, channels, height, width = self.shape
        within = 1 if self.template == BLOCKED[1] else block_in
        card = self.replace(shape=(n, channels // block_out, height, width, block_out))
        return LayoutChoice(card, [f"NCHW{block_in}c", f"OIHW{within}i{block_out}o"], f"NCHW{block_out}c")


def _tuples(value: Any) -> Any:
    return tuple([_tuples(v) for v in value]) if isinstance(value, list) else value
