"""What schedules of packed operators share: the stages around a product, their memories and copies."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.autotvm.task.dispatcher import SEARCHED
from tilewright.support.errors import TVMError
from tilewright.te.primfunc import post_order
from tilewright.topi.template_stages import axes_of, reduced
from tilewright.topi.utils import get_const_int, shape_of
from tilewright.vta.environment import Environment

SEARCHED.update([f"{name}_packed.vta" for name in ("conv2d", "group_conv2d", "conv2d_transpose", "dense")])


class PackedStages:
    """schedule: of all stages. anchors: the products with the tag; last: the stage that is stored. inside: the stages that are computed at
    a tile of the last one, in their order: accumulators, copies of arrays that they read, and inputs that become accumulators as they
    are."""

    def __init__(self, outs: Any, tag: str, env: Environment) -> None:
        outputs: list[te.Tensor] = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        if len(outputs) != 1:
            raise TVMError(f"a kernel of the accelerator has one result, not {len(outputs)}")
        self.env, self.last = env, outputs[0]
        self.schedule = te.create_schedule(self.last.op)
        computes = [op for op in post_order(self.schedule.outputs) if isinstance(op, te.ComputeOp)]
        anchors = [op for op in computes if op.tag == tag]
        if (tag and not anchors) or self.last.op in anchors:
            raise TVMError(
                f"a kernel of the accelerator has a stage with the tag {tag}, and at least a cast to {env.out_dtype} after it; this one has"
                f" {len(anchors)}, and ends with {self.last.op.name}"
            )
        self.anchors: list[te.Tensor] = [op.output(0) for op in anchors]
        before = {op for a in anchors for op in post_order([a])}
        self.inside: list[te.Tensor] = []
        for op in computes:
            if op in anchors:
                self.schedule[op].set_scope(env.acc_scope)
                self.inside.append(op.output(0))
            elif op not in before and op is not self.last.op:
                self._add(op.output(0))

    @property
    def anchor(self) -> te.Tensor:
        """The only product. TVMError where there are several."""
        if len(self.anchors) != 1:
            raise TVMError(f"a template has one product, but this kernel has {len(self.anchors)}")
        return self.anchors[0]

    def _add(self, stage: te.Tensor) -> None:
        """Gives a stage its memory, and copies for what it reads."""
        if not stage.shape:
            self.schedule[stage].compute_inline()
            return
        wide = str(stage.dtype) == self.env.acc_dtype
        scope = self.env.acc_scope if wide else self.env.inp_scope
        for source in stage.op.input_tensors if wide else ():
            if isinstance(source.op, te.PlaceholderOp):
                narrow = str(source.dtype) != self.env.acc_dtype
                memory = self.env.inp_scope if narrow else self.env.acc_scope
                self.inside.append(self.schedule.cache_read(source, memory, [stage]))
        self.schedule[stage].set_scope(scope)
        self.inside.append(stage)

    def on_chip(self, source: te.Tensor, scope: str, anchor: te.Tensor) -> te.Tensor:
        """A copy of an input of a product in a memory: the padding of the input, or a stage of its own."""
        if isinstance(source.op, te.PlaceholderOp):
            return self.schedule.cache_read(source, scope, [anchor])
        self.schedule[source].set_scope(scope)
        return source

    def compute_inside(self, loop: Any) -> None:
        """Computes all stages inside at a loop of the last one."""
        for stage in self.inside:
            if _reduces(stage) and stage not in self.anchors:
                # An instruction for each element of a window, for all windows at once.
                self.schedule[stage].reorder(*reduced(self.schedule, stage), *axes_of(self.schedule, stage))
            self.schedule[stage].compute_at(self.schedule[self.last], loop)

    # ---- what they need

    @property
    def _owners(self) -> list[te.Tensor]:
        """The stages in accumulators that have a place of their own: not the place of an operand that they read last."""
        stages = [t for t in self.inside if str(t.dtype) == self.env.acc_dtype]
        readers: dict[Any, list[te.Tensor]] = {}
        for t in [*stages, self.last]:
            for source in t.op.input_tensors:
                readers.setdefault(source.op, []).append(t)
        given: set[Any] = set()
        found = []
        for t in stages:
            operands = [
                s
                for s in t.op.input_tensors
                if any([s.op is other.op for other in stages])
                and shape_of(s) == shape_of(t)
                and readers[s.op][-1] is t
                and readers[s.op].count(t) == 1
                and s.op not in given
                and not _reduces(t)
            ]
            if operands:
                given.add(operands[0].op)
            else:
                found.append(t)
        return found

    def uses(self, rows: int, columns: int, out_blocks: int) -> dict[str, int]:
        """Elements of each memory that all stages but those of a product need for a tile of so many rows, columns and blocks."""
        own = {t.op for t in self._owners}
        found = {"inp": 0, "acc": 0}
        for t in self.inside:
            wide = str(t.dtype) == self.env.acc_dtype
            if not wide or t.op in own:
                found["acc" if wide else "inp"] += self._elements(shape_of(t), (rows, columns), out_blocks)
        return found

    def _elements(self, shape: list[Any], tile: tuple[int, int], out_blocks: int) -> int:
        """Elements of a stage of this shape for a tile of the last one; windows move over it with the results."""
        whole, found = shape_of(self.last), min(out_blocks, int(shape[1]))
        for axis, count, window in zip((2, 3), tile, self.window, strict=True):
            extent = int(shape[axis])
            if extent == whole[axis]:
                found *= count
            elif extent > 1:
                step = max((extent - window) // max(whole[axis] - 1, 1), 1)
                found *= min(extent, (count - 1) * step + window)
        return found

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns that a reduction behind the products, or without any, goes over; (1, 1): there is none."""
        for t in self.inside:
            if _reduces(t) and t not in self.anchors:
                y, x = (get_const_int(axis.dom.extent) for axis in reduced(self.schedule, t))
                return y, x
        return 1, 1

    @property
    def pool(self) -> te.Tensor | None:
        """The stage that takes the largest of windows of a product's results; None where there is none."""
        found = [t for t in self.inside if _reduces(t) and t not in self.anchors]
        return found[0] if self.anchors and found else None

    @property
    def extra(self) -> int:
        """Accumulators beside those of the sums, for each of them; not those of a pool behind them."""
        pooled = [] if self.pool is None else shape_of(self.pool)[2:4]
        return sum([shape_of(t)[2:4] not in ([1, 1], pooled) for t in self._owners]) - 1

    @property
    def passes(self) -> tuple[int, ...]:
        """For each step of the ALU on the sums, cycles of one: a second operand in accumulators takes another one."""
        computed = [t for t in self.inside if not _is_copy(t) and t not in self.anchors and not _reduces(t)]
        wide = [t for t in computed if str(t.dtype) == self.env.acc_dtype]
        return tuple(
            [min(len(t.op.input_tensors), 2) for t in wide if shape_of(t)[2:4] == shape_of(self.anchors[0])[2:4]]
        )

    @property
    def copied(self) -> int:
        """Arrays with an accumulator for each sum that are loaded, of those that `extra` counts."""
        whole = shape_of(self.anchors[0])[2:4]
        return sum([_is_copy(t) and shape_of(t)[2:4] == whole != [1, 1] for t in self.inside])

    @property
    def constants(self) -> int:
        """Accumulators for each output block beside those."""
        return sum([shape_of(t)[2:4] == [1, 1] for t in self._owners])

    @property
    def widened(self) -> int:
        """Inputs that become accumulators as they are, for each of the result."""
        return sum([str(t.dtype) != self.env.acc_dtype for t in self.inside])


def _is_copy(stage: te.Tensor) -> bool:
    """Whether a stage only loads an array."""
    sources = stage.op.input_tensors
    return len(sources) == 1 and isinstance(sources[0].op, te.PlaceholderOp) and ".local." in stage.op.name


def _reduces(stage: te.Tensor) -> bool:
    """Whether a stage is a reduction."""
    return isinstance(stage.op, te.ComputeOp) and bool(stage.op.reduce_axis)


__all__ = ["PackedStages"]
