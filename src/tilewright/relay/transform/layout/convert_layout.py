"""ConvertLayout: converts convolutional programs to requested layouts, with as few layout_transforms as possible.

A convolution runs in the layout that is given for its operator. Following operators use the layout of their input if they
can (element-wise ones, pooling, batch norm, concatenation, reductions, ...): attributes and small operands are rewritten.
Other operators, and results of functions, get the original layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import IRModule, Op, TensorType, TupleType
from tilewright.ir.span import BaseSpan
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import BROADCAST, as_expr, constructor
from tilewright.relay.expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem
from tilewright.relay.functor import ExprMutator
from tilewright.relay.op.arithmetic.reduction import OverAxes
from tilewright.relay.op.convolution.attributes import ConvAttrs
from tilewright.relay.op.layers import padding
from tilewright.relay.op.movement import reshaping
from tilewright.relay.rewriting import card_of, same_result, static_shape, tuple_type_of, typed, typed_pass
from tilewright.support.errors import TVMError

KERNEL_DEFAULTS = {
    "NCHW": "OIHW", "NHWC": "HWIO", "NCW": "OIW", "NWC": "WIO", "NCDHW": "OIDHW", "NDHWC": "DHWIO", "HWNC": "HWOI",
}  # fmt: skip
"""Layout of the data -> the kernel layout for "default"."""

CONVOLUTIONS = (
    "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.deformable_conv2d",
)  # fmt: skip
CONFIGURED = ("nn.max_pool2d", "nn.avg_pool2d", "nn.global_max_pool2d", "nn.global_avg_pool2d", "image.resize2d")
"""Operators other than convolutions for which a layout may be requested."""
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "all", "any", "variance", "argmax", "argmin")
BY_AXIS = (
    "nn.softmax",
    "nn.log_softmax",
    "nn.fast_softmax",
    "nn.bias_add",
    "nn.prelu",
    "concatenate",
    "split",
    "nn.batch_norm",
    "nn.instance_norm",
    "nn.group_norm",
)
"""Operators with an attribute `axis` for one axis of the data."""


class LayoutConfig:
    """Layers that ConvertLayout skips: `with LayoutConfig(skip_layers=[0, 3]):` numbers convolutions in the order
    of the program."""

    current: LayoutConfig | None = None

    def __init__(self, skip_layers: Sequence[int] = ()) -> None:
        self.skip_layers = tuple(skip_layers)
        self.counter = 0
        self._before: LayoutConfig | None = None

    def check_skip(self) -> bool:
        """Whether the next layer is skipped."""
        self.counter += 1
        return self.counter - 1 in self.skip_layers

    def reset(self) -> None:
        """Restarts the numbering."""
        self.counter = 0
        self.skip_layers = ()

    def __enter__(self) -> LayoutConfig:
        self._before, LayoutConfig.current = LayoutConfig.current, self
        return self

    def __exit__(self, *args: object) -> None:
        LayoutConfig.current = self._before


def _order(source: str, target: str) -> tuple[int, ...]:
    """For each axis of `target` the axis of `source` with the same letter."""
    return tuple([source.index(c) for c in target])


class _Convert(ExprMutator):
    """`self.layouts`: value -> (original layout, current layout), for values with a changed layout."""

    def __init__(self, wanted: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.wanted = wanted
        self.layouts: dict[Expr, tuple[str, str]] = {}
        self.brought: dict[tuple[Expr, str, str], Expr] = {}

    def transformed(self, e: Expr, source: str, target: str) -> Expr:
        if source == target:
            return e
        key = (e, source, target)
        if key not in self.brought:
            self.brought[key] = typed(constructor("layout_transform")(e, source, target))
        return self.brought[key]

    def plain(self, e: Expr) -> Expr:
        """The value, or all fields of a tuple, in the original layout."""
        if e in self.layouts and isinstance(e.checked_type, TensorType):
            had, has = self.layouts[e]
            return self.transformed(e, has, had)
        if e in self.layouts:
            fields = tuple([self.plain(self.item(e, i)) for i in range(len(tuple_type_of(e).fields))])
            return typed(Tuple(fields))
        if isinstance(e, Tuple):
            fields = tuple([self.plain(f) for f in e.fields])
            same = all([a is b for a, b in zip(fields, e.fields, strict=True)])
            return e if same else typed(Tuple(fields, e.span))
        return e

    def note(self, e: Expr, had: str, has: str) -> Expr:
        if had != has:
            self.layouts[typed(e)] = (had, has)
        return e

    def as_layout(self, e: Expr, had: str, want: str) -> Expr:
        """An operand of original layout `had`, converted to the layout `want`."""
        known = self.layouts.get(e)
        if known is None:
            return self.transformed(e, had, want)
        if known[0] == had:
            return self.transformed(e, known[1], want)
        return self.transformed(self.plain(e), had, want)

    def visit_call(self, call: Call) -> Expr:
        args = [self.visit(a) for a in call.args]
        if type(call.op) is Op:
            found = self.rule(call, args)
            if found is not None:
                return typed(found)
        new = tuple([self.plain(a) for a in args])
        op = call.op if type(call.op) is Op else self.visit(call.op)
        if op is call.op and all([a is b for a, b in zip(new, call.args, strict=True)]):
            return call
        made = Call(op, new, call.attrs, call.given_types, call.span)
        return typed(made) if type(op) is Op else same_result(made, call)

    def rule(self, call: Call, args: list[Expr]) -> Expr | None:
        """The call in the requested layouts, or those of its arguments; None if it keeps its layouts."""
        name: str = call.operator.name
        said = call.operator.get_attr("FTVMConvertOpLayout")
        if said is not None and name in self.wanted:
            types = [*[a.checked_type for a in call.args], call.checked_type]
            found = said(call.attrs, [self.plain(a) for a in args], types, list(self.wanted[name]))
            return None if found is None else as_expr(found)
        told = call.operator.get_attr("FInferCorrectLayout")
        if told is not None:
            return self.by_program(call, args, told)
        if name in CONVOLUTIONS:
            return self.convolution(call, args)
        card = card_of(call)
        if name in CONFIGURED and name in self.wanted and len(str(card["layout"])) == len(self.wanted[name][0]):
            return self.with_layout(call, args, self.wanted[name][0])
        arrived = self.arriving(args)
        if arrived is None:
            return None
        had, has = arrived
        if getattr(card, "layout", "") == had:
            return self.with_layout(call, args, has)
        if name in BY_AXIS:
            return self.along_axis(call, args, had, has)
        if name in REDUCTIONS:
            return self.reduced(call, args, had, has)
        if name == "nn.pad":
            return self.padded(call, args, had, has)
        if (
            isinstance(card, reshaping.layout_transform)
            and card.src_layout == had
            and sorted(card.dst_layout) == sorted(had)
            and card.dst_layout != has
        ):
            # The transformation to the target layout starts at the current one. (If they are equal, the value cannot also stand for one of
            # another original layout. It is converted back and forth, which SimplifyExprPostAlterOp removes.)
            return self.transformed(args[0], has, card.dst_layout)
        if card.fuse <= BROADCAST and not hasattr(card, "axis"):
            return self.elementwise(call, args, had, has)
        return None

    def by_program(self, call: Call, args: list[Expr], told: Any) -> Expr | None:
        """The call by the rule that a program registered for the operator. The rule is called for the current and the original layouts."""
        known = [self.layouts.get(a, ("", "")) for a in args]
        if all([had == has for had, has in known]):
            return None
        types = [a.checked_type for a in call.args]
        had, has = ([pair[i] for pair in known] for i in (0, 1))
        old, new = told(call.attrs, had, had, types), told(call.attrs, has, had, types)
        wanted, before = ([str(x) for x in out.input_layouts] for out in (new, old))
        if len(new.output_layouts) != 1 or len(wanted) != len(args) or "" in (wanted[0], str(new.output_layouts[0])):
            return None
        brought = [
            self.as_layout(a, b, w) if w and b else self.plain(a) for a, b, w in zip(args, before, wanted, strict=True)
        ]
        attrs = call.attrs if new.new_attrs is None else new.new_attrs
        made = Call(call.op, tuple(brought), attrs, call.given_types, call.span)
        return self.note(made, str(old.output_layouts[0]), str(new.output_layouts[0]))

    def arriving(self, args: Sequence[Expr]) -> tuple[str, str] | None:
        """(original, current) layout of the first operand with a changed layout."""
        for a in args:
            for e in a.fields if isinstance(a, Tuple) else (a,):
                if e in self.layouts:
                    return self.layouts[e]
        return None

    def convolution(self, call: Call, args: list[Expr]) -> Expr | None:
        card, name = card_of(call, ConvAttrs), call.operator.name
        data, kernel, _ = card.layouts()
        if name not in self.wanted or (LayoutConfig.current is not None and LayoutConfig.current.check_skip()):
            return None
        want = list(self.wanted[name])
        new_data = data if want[0] == "default" else want[0]
        if sorted(new_data) != sorted(data):
            raise TVMError(f"ConvertLayout: {name} has the layout {data}, which cannot become {new_data}")
        new_kernel = want[1] if len(want) > 1 and want[1] != "default" else _default_kernel(name, new_data, kernel)
        if card.out_layout not in ("", data):
            return None
        depthwise = name == "nn.conv2d" and card.groups > 1 and _depthwise(call, kernel)
        if depthwise and (len(want) < 2 or want[1] == "default") and new_data == "NHWC":
            new_kernel = "HWOI"
        x = self.as_layout(args[0], data, new_data)
        w = self.as_layout(args[-1], kernel, new_kernel)
        attrs = card.replace(data_layout=new_data, kernel_layout=new_kernel, out_layout="")
        rest = [self.plain(a) for a in args[1:-1]]
        return self.note(Call(call.op, (x, *rest, w), attrs, (), call.span), data, new_data)

    def with_layout(self, call: Call, args: list[Expr], layout: str) -> Expr | None:
        """An operator with a layout attribute: pooling, resizing."""
        card = card_of(call)
        had = str(card["layout"])
        if sorted(layout) != sorted(had) or getattr(card, "out_layout", "") not in ("", had):
            return None
        changes = {"layout": layout, **({"out_layout": ""} if hasattr(card, "out_layout") else {})}
        rest = [self.plain(a) for a in args[1:]]
        new = Call(call.op, (self.as_layout(args[0], had, layout), *rest), card.replace(**changes), (), call.span)
        return self.note(new, had, layout)

    def along_axis(self, call: Call, args: list[Expr], had: str, has: str) -> Expr | None:
        card = card_of(call)
        parts = args[0].fields if isinstance(args[0], Tuple) else args[:1]
        originals = call.args[0].fields if isinstance(call.args[0], Tuple) else call.args[:1]
        if any([_ndim(o) != len(had) for o in originals]) or isinstance(card["axis"], (list, tuple)):
            return None
        if any([p not in self.layouts and not isinstance(p, Expr) for p in parts]):
            return None
        axis = has.index(had[int(card["axis"]) % len(had)])
        brought = [self.as_layout(p, had, has) for p in parts]
        first = typed(Tuple(tuple(brought), args[0].span)) if isinstance(args[0], Tuple) else brought[0]
        new = typed(Call(call.op, (first, *[self.plain(a) for a in args[1:]]), card.replace(axis=axis), (), call.span))
        if isinstance(new.checked_type, TupleType):
            # The layout applies to fields with the same number of axes, when they are extracted.
            self.layouts[new] = (had, has)
            return new
        return self.note(new, had, has)

    def reduced(self, call: Call, args: list[Expr], had: str, has: str) -> Expr | None:
        """A reduction over given axes. The remaining axes keep the order of the current layout."""
        card = card_of(call, OverAxes)
        if args[0] not in self.layouts or card.axis is None or card.exclude or len(args) > 1:
            return None
        letters = [had[a % len(had)] for a in card.axis]
        attrs = card.replace(axis=tuple(sorted([has.index(c) for c in letters])))
        new = Call(call.op, (args[0],), attrs, (), call.span)
        if card.keepdims:
            return self.note(new, had, has)
        left = [c for c in had if c not in letters]
        return self.note(new, "".join(left), "".join([c for c in has if c not in letters]))

    def padded(self, call: Call, args: list[Expr], had: str, has: str) -> Expr | None:
        card = card_of(call, padding.pad)
        if args[0] not in self.layouts or len(card.pad_width) != len(had):
            return None
        width = tuple([card.pad_width[i] for i in _order(had, has)])
        new = Call(call.op, (args[0], *[self.plain(a) for a in args[1:]]), card.replace(pad_width=width), (), call.span)
        return self.note(new, had, has)

    def elementwise(self, call: Call, args: list[Expr], had: str, has: str) -> Expr | None:
        """Operands with all axes are converted to the layout. Smaller operands first get axes of extent 1."""
        if not isinstance(call.checked_type, TensorType) or len(call.checked_type.shape) != len(had):
            return None
        brought: list[Expr] = []
        for new, old in zip(args, call.args, strict=True):
            ndim = _ndim(old)
            if ndim is None or ndim > len(had):
                return None
            if ndim == 0 or static_shape(old) is not None and all([n == 1 for n in static_shape(old) or ()]):
                brought.append(self.plain(new))
            elif ndim == len(had):
                brought.append(self.as_layout(new, had, has))
            else:
                wide = typed(constructor("expand_dims")(self.plain(new), 0, len(had) - ndim))
                brought.append(self.transformed(wide, had, has))
        return self.note(Call(call.op, tuple(brought), call.attrs, call.given_types, call.span), had, has)

    def visit_tuple(self, tup: Tuple) -> Expr:
        return typed(super().visit_tuple(tup))

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        value = self.visit(op.tuple_value)
        if isinstance(value, Tuple):
            return value.fields[op.index]
        return (
            typed(op) if value is op.tuple_value and value not in self.layouts else self.item(value, op.index, op.span)
        )

    def item(self, value: Expr, index: int, span: BaseSpan | None = None) -> Expr:
        """A field of a tuple. Fields with all axes have the tuple's layout."""
        new = typed(TupleGetItem(value, index, span))
        if value in self.layouts and _ndim(new) == len(self.layouts[value][0]):
            self.layouts[new] = self.layouts[value]
        return new

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else fn.replace(body=self.plain(self.visit(fn.body)))

    def visit_if(self, ite: If) -> Expr:
        cond, a, b = (self.plain(self.visit(e)) for e in (ite.cond, ite.true_branch, ite.false_branch))
        return ite.replace(cond=cond, true_branch=a, false_branch=b)

    def visit_let(self, let: Let) -> Expr:
        # A variable of a let keeps its declared type.
        chain = [(node, self.plain(self.visit(node.value))) for node in self.chain_of(let)]
        result: Expr = self.plain(self.visit(chain[-1][0].body))
        for node, value in reversed(chain):
            result = self.memo_map[node] = node.replace(value=value, body=result)
        return result


def _ndim(e: Expr) -> int | None:
    t = typed(e).checked_type
    return len(t.shape) if isinstance(t, TensorType) else None


def _default_kernel(name: str, data: str, kernel: str) -> str:
    """The default kernel layout for a layout of the data. Transposed convolutions have input channels first."""
    found = KERNEL_DEFAULTS.get(data, kernel)
    if name.endswith("_transpose"):
        found = found.replace("O", "?").replace("I", "O").replace("?", "I")
    return found if sorted(found) == sorted(kernel) else kernel


def _depthwise(call: Call, kernel: str) -> bool:
    shape = static_shape(call.args[1])
    return shape is not None and shape[kernel.index("I")] == 1


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> Pass:
    """Convert a program to other layouts. `{"nn.conv2d": ["NHWC", "default"]}` gives the layouts of an operator's data
    and weights. "default" keeps the data's layout, or selects the matching kernel layout. Pooling and
    image.resize2d can be named, too.

    Raises TVMError for an operator that has no layout to choose, and for layouts of other letters.
    """
    if not isinstance(desired_layouts, Mapping):
        raise TypeError(
            f'ConvertLayout takes layouts by operator, such as {{"nn.conv2d": ["NHWC", "default"]}}, but was given {desired_layouts!r}'
        )
    wanted = {k: [v] if isinstance(v, str) else [str(x) for x in v] for k, v in desired_layouts.items()}
    for name in wanted:
        if name not in (*CONVOLUTIONS, *CONFIGURED) and not _registered(name):
            raise TVMError(
                f"ConvertLayout: {name} has no layout to choose; those that have: {', '.join((*CONVOLUTIONS, *CONFIGURED))}, and"
                " those registered with relay.op.register_convert_op_layout"
            )

    def run(func: Function, mod: IRModule) -> Function:
        return _Convert(wanted).rewritten_function(func)

    return typed_pass("ConvertLayout", 3, run)


def _registered(name: str) -> bool:
    try:
        return Op.get(name).get_attr("FTVMConvertOpLayout") is not None
    except AttributeError:
        return False


__all__ = ["ConvertLayout", "LayoutConfig"]
