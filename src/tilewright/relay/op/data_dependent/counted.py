"""Operators whose number of result rows depends on the data: argwhere, unique.

A kernel fills the front of a tensor of the largest possible size and returns the number of rows; `dyn.prefix` takes that many.
Programs with these operators run in the virtual machine and in the interpreter. Graphs, whose sizes are fixed, can call the
kernel's operator (`vm.*`) itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.cards.card import OPAQUE, OpCard, need
from tilewright.relay.cards.relations import dims, product, tensor, tensor_type
from tilewright.relay.expr import Expr, Tuple, TupleGetItem
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.data_dependent.dynamic import prefix
from tilewright.support.errors import OpNotImplemented
from tilewright.tir import Any as AnyDim


class Counted(OpCard):
    """Base of operators whose number of rows is known only after they have run. kernel: the operator that fills the front."""

    kernel: ClassVar[type[OpCard]]
    counted_by: ClassVar[int]
    """The index of the number among the kernel's results."""
    cut: ClassVar[tuple[int, ...]]
    """The indices of the results that are cut to the number of rows."""
    fuse = OPAQUE
    expand_in = "SimplifyInference"

    def kernel_card(self) -> OpCard:
        """The kernel's operator with this one's attributes."""
        return self.kernel(**{f.name: getattr(self, f.name) for f in self.kernel._fields if f.name != "span"})

    def results(self, parts: list[Expr]) -> Expr:
        """The results, from the kernel's results cut to the number of rows."""
        return Tuple(tuple(parts))

    def expand(self, *args: Expr, **kwargs: Any) -> Expr:
        card = self.kernel_card()
        whole = self.kernel.call(list(args), {f.name: getattr(card, f.name) for f in card._fields if f.name != "span"})
        parts: list[Expr] = [TupleGetItem(whole, i) for i in range(card.outputs)]
        number = parts[self.counted_by]
        return self.results([prefix.call([p, number], {}) if i in self.cut else p for i, p in enumerate(parts)])

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        raise OpNotImplemented(
            f"{self.type_key} has as many results as its data says, so a graph of fixed sizes cannot hold it. Compile for the"
            f' virtual machine (relay.vm.compile, create_executor("vm")), or use {self.kernel.type_key}, which fills the front of'
            " a result of fixed size and tells the number"
        )

    def ref(self, *args: np.ndarray, **kwargs: Any) -> Any:
        parts = self.kernel_card().ref(*args)
        count = int(parts[self.counted_by].reshape(-1)[0])
        found = tuple([p[:count] if i in self.cut else p for i, p in enumerate(parts)])
        return found if self.outputs > 1 else found[0]


def is_counted(card: OpCard) -> bool:
    """Whether the number of rows of a card's results depends on the data, so that it cannot be in a graph."""
    return isinstance(card, Counted) or card.expand_in == "SimplifyInference" and type(card).compute is OpCard.compute


class argwhere_kernel(OpCard, key="vm.argwhere"):
    """(indices, number (1,)): the index of each nonzero element, as rows at the front; rows after them are zeros."""

    flat = True
    outputs = 2
    fuse = OPAQUE
    samples = [((np.array([[0, 1, 2], [3, 0, 0]], np.float32),), {}), ((((7,), "bool"),), {})]

    def infer(self, condition: TensorType) -> Type:
        t = tensor(condition, 0)
        return TupleType((tensor_type((product(dims(t)), len(t.shape)), "int32"), tensor_type((1,), "int32")))

    def compute(self, condition: te.Tensor) -> list[te.Tensor]:
        return topi.counted.nonzero(condition)

    def ref(self, condition: np.ndarray) -> tuple[np.ndarray, ...]:
        found = np.argwhere(condition).astype(np.int32)
        out = np.zeros((condition.size, condition.ndim), np.int32)
        out[: len(found)] = found
        return out, np.array([len(found)], np.int32)


class argwhere(Counted, key="argwhere"):
    """The index (a row) of each nonzero element, in order: (number, axes) of int32."""

    flat = True
    kernel = argwhere_kernel
    counted_by, cut = 1, (0,)
    samples = [
        ((np.array([[0, 1, 2], [3, 0, 0]], np.float32),), {}),
        ((((7,), "bool"),), {}),
        ((np.zeros((2, 2), "int32"),), {}),
    ]

    def infer(self, condition: TensorType) -> Type:
        return tensor_type((AnyDim(), len(tensor(condition, 0).shape)), "int32")

    def results(self, parts: list[Expr]) -> Expr:
        return parts[0]


class unique_kernel(OpCard, key="vm.unique"):
    """unique, with results as long as data. Elements after the distinct ones are zeros."""

    is_sorted: bool = True
    return_counts: bool = False
    fuse = OPAQUE
    samples = [
        ((np.array([3, 1, 3, 2, 1, 1], np.float32),), {"return_counts": True}),
        ((np.array([3, 1, 3, 2, 1, 1], np.int64),), {"is_sorted": False}),
    ]

    @property
    def outputs(self) -> int:
        """Five with `return_counts`, else four."""
        return 5 if self.return_counts else 4

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, 1)
        places = tensor_type(t.shape, "int32")
        counts = [places] if self.return_counts else []
        return TupleType((t, places, places, tensor_type((1,), "int32"), *counts))

    def compute(self, data: te.Tensor) -> list[te.Tensor]:
        return topi.unique(data, self.is_sorted, self.return_counts)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> list[Expr]:
        """The adjoint of a distinct element goes to its first occurrence; other occurrences get zero."""
        first, number = TupleGetItem(result, 1), TupleGetItem(result, 3)
        place = op("cumsum")(op("ones_like")(first), axis=0, exclusive=True)
        elements = TupleGetItem(dy, 0)
        kept = op("where")(op("less")(place, number), elements, op("zeros_like")(elements))
        return [op("scatter_elements")(op("zeros_like")(data), first, kept, axis=0, reduction="add")]

    def ref(self, data: np.ndarray) -> tuple[np.ndarray, ...]:
        kinds, first, which, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True)
        if not self.is_sorted:
            order = np.argsort(first, kind="stable")
            rank = np.argsort(order)
            kinds, first, which, counts = kinds[order], first[order], rank[which], counts[order]

        def padded(x: np.ndarray, dtype: Any) -> np.ndarray:
            out = np.zeros(data.shape, dtype)
            out[: len(x)] = x
            return out

        places: Any = np.int32
        number = np.array([len(kinds)], places)
        made = (padded(kinds, data.dtype), padded(first, places), which.astype(places).reshape(-1), number)
        return (*made, padded(counts, places)) if self.return_counts else made


class unique(Counted, key="unique"):
    """(distinct elements, index of the first occurrence of each, index of each input element among them, their number (1,)), and
    with `return_counts` the count of each. Elements are in ascending order with `is_sorted`, else in the order of their first
    occurrences. `data` has one axis."""

    is_sorted: bool = True
    return_counts: bool = False
    kernel = unique_kernel
    counted_by, cut = 3, (0, 1, 4)
    samples = [
        ((np.array([3, 1, 3, 2, 1, 1], np.float32),), {"return_counts": True}),
        ((np.array([3, 1, 3, 2, 1, 1], np.int64),), {"is_sorted": False}),
    ]

    @property
    def outputs(self) -> int:
        """Five with `return_counts`, else four."""
        return 5 if self.return_counts else 4

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        need(len(t.shape) == 1, "data must have one axis", f"it has {len(t.shape)}", 0, "Reshape it to (-1,)")
        places = tensor_type((AnyDim(),), "int32")
        counts = [places] if self.return_counts else []
        return TupleType(
            (
                tensor_type((AnyDim(),), t.dtype),
                places,
                tensor_type(t.shape, "int32"),
                tensor_type((1,), "int32"),
                *counts,
            )
        )
