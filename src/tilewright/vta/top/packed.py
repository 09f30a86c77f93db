"""What schedules of packed operators share: the stages around a product, their memories and copies."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.support.errors import TVMError
from tilewright.te.primfunc import post_order
from tilewright.vta.environment import Environment


class PackedStages:
    """schedule: of all stages. anchor: the product. last: the stage that is stored. after: the stages between them, in their order. Arrays
    that these read are copied to the chip."""

    def __init__(self, outs: Any, tag: str, env: Environment) -> None:
        outputs: list[te.Tensor] = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        if len(outputs) != 1:
            raise TVMError(f"a kernel of the accelerator has one result, not {len(outputs)}")
        self.env, self.last = env, outputs[0]
        self.schedule = te.create_schedule(self.last.op)
        computes = [op for op in post_order(self.schedule.outputs) if isinstance(op, te.ComputeOp)]
        anchors = [op for op in computes if op.tag == tag]
        if len(anchors) != 1 or self.last.op is anchors[0]:
            raise TVMError(
                f"a kernel of the accelerator has one stage with the tag {tag}, and at least a cast to {env.out_dtype} after it; this one"
                f" has {len(anchors)}, and ends with {self.last.op.name}"
            )
        self.anchor: te.Tensor = anchors[0].output(0)
        before = set(post_order([self.anchor.op]))
        self.after = [op.output(0) for op in computes if op not in before and op is not self.last.op]
        self.copied = self._copied(before)
        for stage in [self.anchor, *self.after, *self.copied]:
            self.schedule[stage].set_scope(env.acc_scope)

    def _copied(self, before: Any) -> list[te.Tensor]:
        found = []
        for stage in self.after:
            for source in stage.op.input_tensors:
                if isinstance(source.op, te.PlaceholderOp) and source.op not in before:
                    found.append(self.schedule.cache_read(source, self.env.acc_scope, [stage]))
        return found

    @property
    def inside(self) -> list[te.Tensor]:
        """The stages that are computed at a tile of the last one."""
        return [*self.copied, self.anchor, *self.after]

    def on_chip(self, source: te.Tensor, scope: str) -> te.Tensor:
        """A copy of an input of the product in a memory: the padding of the input, or a stage of its own."""
        if isinstance(source.op, te.PlaceholderOp):
            return self.schedule.cache_read(source, scope, [self.anchor])
        self.schedule[source].set_scope(scope)
        return source


__all__ = ["PackedStages"]
