"""Which parts of a quantised model the accelerator computes: they become kernels on packed data, annotated with their devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from tilewright.ir import IRModule, Op
from tilewright.ir.transform import PassContext, Sequential
from tilewright.node import deep_recursion
from tilewright.relay import qnn, transform
from tilewright.relay.cards.card import constructor as op
from tilewright.relay.expr import Call, Expr, Function, Tuple, TupleGetItem, Var, const
from tilewright.relay.functor import ExprMutator, post_order
from tilewright.relay.rewriting import card_of, constant_of, is_op, static_shape, tensor_of, typed, use_counts
from tilewright.relay.typing.infer_type import infer_module
from tilewright.runtime import cpu, ext_dev
from tilewright.vta.configuration import Configuration
from tilewright.vta.environment import Environment, get_env
from tilewright.vta.top import fusion
from tilewright.vta.top.accumulators import NARROW, Kernel, Refused, Stored
from tilewright.vta.top.concatenation import OfEachPart
from tilewright.vta.top.folding import Fold, fold_of, folded
from tilewright.vta.top.packing import Packing
from tilewright.vta.top.products import Product

BESIDE_PIXELS = 16
"""Accumulators that a sum of pixels and what follows it take beside them, at most."""


class Partition:
    """Rewrites expressions. counts: how often each is used. wanted: the only ones that may be on the accelerator; None: all. kernels: how
    many there are; refused: why others of int8 are not, and how often."""

    def __init__(self, config: Configuration, counts: Mapping[Expr, int], wanted: Set[Expr] | None = None) -> None:
        self.packing, self.config = Packing(config.batch, config.block_in, config.block_out), config
        self.counts, self.wanted = counts, wanted
        self.pixels = min(config.depth("inp"), config.depth("acc") - BESIDE_PIXELS)
        self.kernels = 0
        self.refused: dict[str, int] = {}
        self._stored: dict[Expr, Stored | None] = {}
        self._given: dict[Expr, Stored] = {}
        self._plain: dict[Expr, Expr] = {}
        self._folded: dict[tuple[Expr, Fold], Expr] = {}

    def plain(self, e: Expr) -> Expr:
        """The expression with what the accelerator computes of it."""
        found = self._plain.get(e)
        if found is None:
            stored = self.on_accelerator(e)
            found = self._plain[e] = self._unpacked(stored) if stored is not None else self._rebuilt(e)
        return found

    def _rebuilt(self, e: Expr) -> Expr:
        if isinstance(e, Call):
            args = tuple([self.plain(a) for a in e.args])
            same = all([a is b for a, b in zip(args, e.args, strict=True)])
            return e if same else typed(Call(e.op, args, e.attrs, e.type_args, e.span))
        if isinstance(e, Tuple):
            return typed(Tuple(tuple([self.plain(f) for f in e.fields]), e.span))
        if isinstance(e, TupleGetItem):
            return typed(TupleGetItem(self.plain(e.tuple_value), e.index, e.span))
        return e

    def on_accelerator(self, e: Expr) -> Stored | None:
        """The packed result of an expression that the accelerator computes; None for others."""
        if not isinstance(e, Call) or type(e.op) is not Op or str(getattr(e.checked_type, "dtype", "")) not in NARROW:
            return None
        if e not in self._stored:
            allowed = self.wanted is None or e in self.wanted
            self._stored[e] = (self._same_data(e) or self._kernel(e)) if allowed else None
        return self._stored[e]

    def _same_data(self, e: Call) -> Stored | None:
        """The packed data of an operand of one pixel in another shape, such as a row of a matrix; None for others."""
        if not is_op(e, "reshape", "nn.batch_flatten", "squeeze", "expand_dims"):
            return None
        source, shape = self.on_accelerator(e.args[0]), static_shape(e)
        if source is None or shape is None:
            return None
        image = self.packing.image(shape)
        same = image is not None and image == self.packing.image(source.shape) and image[2:] == (1, 1)
        return source._replace(shape=shape) if same else None

    def _kernel(self, e: Call, alone: bool = False) -> Stored | None:
        """alone: a pool without what it reads."""
        kernel = Kernel(self.packing, self._read, self.pixels)
        kernel.computed = self._computed
        fused = is_op(e, "nn.max_pool2d") and not alone
        if not alone:
            kernel.holds = self._holds
        try:
            body, shape, offset = kernel.root(e)
        except Refused as reason:
            if fused:
                return self._kernel(e, alone=True)
            self.refused[str(reason)] = self.refused.get(str(reason), 0) + 1
            return None
        if not kernel.worth:
            return self._kernel(e, alone=True) if fused else None
        # Constants that were added to others are not read.
        read = {v for v in post_order(body) if isinstance(v, Var)}
        params = {p: a for p, a in zip(kernel.params, kernel.args, strict=True) if p in read}
        function = Function(tuple(params), body, None, (), {"Primitive": 1})
        self.kernels += 1
        return Stored(typed(Call(function, tuple(params.values()), None, (), e.span)), shape, offset)

    def _holds(self, pool: Call) -> bool:
        """Whether what a pool reads, and nothing else does, is computed faster in its kernel."""
        source = pool.args[0]
        once = self.counts.get(source, 0) == 1 and isinstance(source, Call) and not is_op(source, "nn.max_pool2d")
        allowed = self.wanted is None or source in self.wanted
        return once and allowed and fusion.is_faster(pool, self.config, self._computed)

    def _read(self, e: Expr) -> tuple[Stored, bool]:
        found = self.on_accelerator(e)
        if found is not None and self.packing.alike:
            return found, True
        if e not in self._given:
            shape = static_shape(e)
            assert shape is not None
            value, offset = self.plain(e), 128 if str(tensor_of(e).dtype) == "uint8" else 0
            if offset:
                value = op("cast")(op("subtract")(op("cast")(value, "int16"), const(128, "int16")), "int8")
            packed = op("on_device")(self.packing.pack(value, shape), cpu(0))
            self._given[e] = Stored(typed(packed), shape, offset)
        return self._given[e], False

    def _computed(self, product: Product) -> Product:
        """A product whose data the CPU gives, with columns of the kernel as channels where this takes fewer steps; others as they are."""
        data, fold = product.data, fold_of(product, self.packing)
        shape = static_shape(data)
        if fold is None or shape is None or self.packing.image(shape) is None or self._read(data)[1]:
            return product
        if (data, fold) not in self._folded:
            made = self._folded[data, fold] = typed(fold.of(data))
            self._plain[made] = typed(fold.of(self.plain(data)))
            self._stored[made] = None
        return folded(product, self._folded[data, fold])

    def _unpacked(self, found: Stored) -> Expr:
        value = self.packing.unpack(op("on_device")(found.value, ext_dev(0)), found.shape)
        if found.offset:
            value = op("cast")(op("add")(op("cast")(value, "int16"), const(128, "int16")), "uint8")
        return typed(value)


class _MovesLast(ExprMutator):
    """Puts pools of maxima, and what interleaves the phases of a transposed convolution, behind what is done with their results until
    these are int8: functions that keep the order of numbers, the same for all pixels."""

    def visit_call(self, call: Call) -> Expr:
        new = typed(self.rewritten_call(call))
        if not is_op(new, "cast") or str(tensor_of(new).dtype) not in NARROW:
            return new
        chain: list[tuple[Call, int]] = []
        inner: Expr = new
        while isinstance(inner, Call) and (place := _keeps_order(inner)) is not None:
            chain.append((inner, place))
            inner = inner.args[place]
        times = _moves(inner)
        if times == 0 or not chain:
            return new
        assert isinstance(inner, Call)
        value = inner.args[0]
        for step, place in reversed(chain):
            args = [value if n == place else _repeated(a, times) for n, a in enumerate(step.args)]
            value = typed(Call(step.op, tuple(args), step.attrs, (), step.span))
        return typed(Call(inner.op, (value,), inner.attrs, (), inner.span))


def _moves(e: Expr) -> int:
    """How many channels of its operand a channel of the result has, for an operator that moves numbers or takes the largest; 0 for
    others, and where some results come from nowhere."""
    if is_op(e, "nn.max_pool2d"):
        return 1
    if not is_op(e, "nn.contrib_interleave_phases"):
        return 0
    card: Any = card_of(e)
    places = static_shape(e.args[0]) or ()
    whole = tuple(card.phases) == tuple(card.strides) and set(card.dilation) == {1}
    axes = zip(card.shape, card.offset, card.strides, places[2:], strict=True)
    covered = whole and all([at >= 0 and size + at <= step * count for size, at, step, count in axes])
    return math.prod(card.phases) if covered else 0


def _repeated(e: Expr, times: int) -> Expr:
    """A constant operand for so many channels instead of each."""
    value = constant_of(e)
    if value is None or value.size == 1 or times == 1:
        return e
    return typed(const(np.repeat(value, times, axis=0 if value.ndim == 1 else value.ndim - 3)))


def _keeps_order(e: Call) -> int | None:
    """The argument for which a call is a function that grows with it, the same for all pixels; None for others."""
    if is_op(e, "cast", "clip", "floor", "round", "nn.relu"):
        return 0
    if not is_op(e, "add", "subtract", "multiply", "divide", "maximum", "minimum", "right_shift", "nn.bias_add"):
        return None
    values = [constant_of(a) for a in e.args]
    place = 0 if values[1] is not None else 1
    value = values[1 - place]
    if value is None or (place == 1 and is_op(e, "subtract", "divide", "right_shift")):
        return None
    per_pixel = value.ndim > 1 and any([n > 1 for n in value.shape[-2:]])
    if per_pixel or (is_op(e, "multiply", "divide") and not (value > 0).all()):
        return None
    return place


def canonical(mod: IRModule) -> IRModule:
    """The module in plain operators, with products and weights as the partition looks for them."""
    passes = [
        transform.InferType(), qnn.transform.CanonicalizeOps(), transform.FoldConstant(), transform.SimplifyInference(),
        transform.TransposedConvolutions(), transform.FoldConstant(),
        transform.ConvertLayout({"nn.conv2d": ["NCHW", "OIHW"], "nn.max_pool2d": ["NCHW"]}), transform.FoldConstant(),
        transform.InferType(),
    ]  # fmt: skip
    with PassContext(opt_level=3):
        mod = Sequential(passes)(mod)
    main: Any = mod["main"]
    body = OfEachPart().visit(_MovesLast().visit(main.body))
    return infer_module(mod.with_functions({**mod.functions, mod.get_global_var("main"): main.replace(body=body)}))


def partition(mod: IRModule, env: Environment | None = None) -> IRModule:
    """The module with kernels for the accelerator of the environment (default: the current one): convolutions, dense layers and pools of
    int8, and what requantises their results. They are primitive functions on packed data, on `tvm.ext_dev(0)`; the rest is on `tvm.cpu(0)`.

    Requantisation in integers (`relay.qnn.op.requantize_config(compute_dtype="int64")`) is part of kernels, and so is one in float32 by
    powers of two, which is exact; any other one in floating point stays on the CPU."""
    return partitioned(canonical(mod), None, env)[0]


def partitioned(mod: IRModule, wanted: Set[Expr] | None, env: Environment | None = None) -> tuple[IRModule, Partition]:
    """The module of plain operators in parts, and what was done."""
    env = env if env is not None else get_env()
    main: Any = mod["main"]
    work = Partition(env.configuration, use_counts(main), wanted)
    with deep_recursion():
        body = work.plain(main.body)
    made: Any = main.replace(body=body, ret_type=None)
    return infer_module(mod.with_functions({**mod.functions, mod.get_global_var("main"): made})), work


__all__ = ["Partition", "canonical", "partition", "partitioned"]
