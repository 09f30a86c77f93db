"""Weights in the layouts of records: what `AutoSchedulerLayoutRewrite` puts into kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te
from tilewright.ir import Type
from tilewright.relay.cards.card import INJECTIVE, OpCard, TypeRuleError, need
from tilewright.relay.cards.relations import dims, tensor, tensor_type
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import op
from tilewright.support.errors import TVMError
from tilewright.tuning.packing import Part, packed, parts_of_letters, sizes_of


class auto_scheduler_layout_transform(OpCard, key="auto_scheduler_layout_transform"):
    """data in a layout whose dimensions are other parts of the same axes. A layout is a text of extents and of letters that name axes:
    "12a16b" has 12 of a, 16 of b, and "4b12a4b" the outer four of b, 12 of a, the inner four of b."""

    src_layout: str
    dst_layout: str
    fuse = INJECTIVE
    samples = [
        (((6, 8),), {"src_layout": "6a8b", "dst_layout": "2b6a4b"}),
        (((2, 6, 4),), {"src_layout": "2b6a4b", "dst_layout": "6a8b"}),
        (((3, 6, 4),), {"src_layout": "3b6a4b", "dst_layout": "2b2a6b3a"}),
    ]

    def _parts(self) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        try:
            return parts_of_letters(self.src_layout), parts_of_letters(self.dst_layout)
        except TVMError as error:
            raise TypeRuleError("src_layout and dst_layout must be texts such as 2b6a4b", str(error)) from None

    def infer(self, data: Type) -> Type:
        t, (src, dst) = tensor(data, 0), self._parts()
        shape = [part.extent for part in src]
        need(
            list(dims(t)) == shape,
            f"the extents of data in {self.src_layout} must be known to be {shape}",
            f"it has {t.shape}",
            0,
        )
        need(
            sizes_of(src) == sizes_of(dst),
            "both layouts must have the same axes",
            f"they are {self.src_layout} and {self.dst_layout}",
        )
        return tensor_type(tuple([part.extent for part in dst]), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        # Models from the compile cache need neither.
        from tilewright.auto_scheduler.packed_weights import unpacked

        return unpacked(data, *self._parts())

    def ref(self, data: np.ndarray) -> np.ndarray:
        return packed(data, *self._parts())

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("auto_scheduler_layout_transform")(dy, self.dst_layout, self.src_layout)]
