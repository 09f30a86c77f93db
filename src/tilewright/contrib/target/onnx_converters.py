"""Operators of relay as nodes of ONNX: a converter for each, which programs may add to (`relay_to_onnx_op_mapping`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper

from tilewright import relay
from tilewright.contrib.target.onnx_model import Attributes, Entry, ModelContainer, OpConverter, ints, rename
from tilewright.ir import IRModule
from tilewright.support.errors import OpNotImplemented

Nodes = Mapping[Any, Sequence[Entry]]


def tvm_array_to_list(arr: Sequence[Any]) -> tuple[int, ...]:
    """Numbers as a tuple of ints."""
    return tuple(ints(arr))


def infer_type(node: Any) -> Any:
    """An expression with its types."""
    mod = relay.transform.InferType()(IRModule.from_expr(node))
    entry = mod["main"]
    return entry if isinstance(node, relay.Function) else entry.body


def call_node_infer_type(node: Any) -> list[Any]:
    """The types of what an expression computes: one, or those of a tuple's fields."""
    found = node.checked_type if node.checked_type is not None else infer_type(node).checked_type
    return list(found.fields) if hasattr(found, "fields") else [found]


def get_node_shape(node: Any) -> tuple[int, ...]:
    """The shape of what an expression computes."""
    return tvm_array_to_list(call_node_infer_type(node)[0].shape)


def _dtype(node: Any) -> np.dtype[Any]:
    return np.dtype(str(call_node_infer_type(node)[0].dtype))


def _output(entry: Entry, model: ModelContainer, kind: str, inputs: Sequence[str], **attributes: Any) -> None:
    """Adds the last node of a call, which has the call's output."""
    model.add_nodes([helper.make_node(kind, list(inputs), entry["output_names"][:1], entry["name"], **attributes)])


def _windows(attrs: Any, kernel: str = "kernel_size") -> Attributes:
    padding = ints(attrs.padding)
    size = ints(getattr(attrs, kernel))
    pads = padding * 2 if len(padding) == len(size) else padding * 2 * len(size) if len(padding) == 1 else padding
    return {"kernel_shape": size, "strides": ints(attrs.strides), "dilations": ints(attrs.dilation), "pads": pads}


def _plain(attrs: Any, name: str = "data_layout") -> None:
    layout = getattr(attrs, name)
    if not layout.startswith("NC") or layout != layout.upper():
        raise OpNotImplemented(
            f"ONNX has channels first, but the layout is {layout}: run relay.transform.ConvertLayout before"
        )


class Conv(OpConverter):
    """Convolutions over one to three axes."""

    onnx_name = "Conv"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        _plain(attrs)
        return {"group": int(attrs.groups), **_windows(attrs)}


class ConvTranspose(OpConverter):
    """Adjoints of convolutions."""

    onnx_name = "ConvTranspose"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {**Conv.convert_attributes(attrs), "output_padding": ints(attrs.output_padding)}


class MaxPool(OpConverter):
    """Maxima of windows."""

    onnx_name = "MaxPool"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        _plain(attrs, "layout")
        return {**_windows(attrs, "pool_size"), "ceil_mode": int(attrs.ceil_mode)}


class AveragePool(OpConverter):
    """Means of windows."""

    onnx_name = "AveragePool"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        found = MaxPool.convert_attributes(attrs)
        if {*found.pop("dilations")} != {1}:
            raise OpNotImplemented("means of windows with gaps are not written: ONNX has them from version 19 on")
        return {**found, "count_include_pad": int(attrs.count_include_pad)}


class MatMul(OpConverter):
    """Products of matrices; transposed operands are transposed by nodes of their own."""

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        call = node_entry["relay_node"]
        flags = (
            [False, True]
            if call.op.name == "nn.dense"
            else [bool(call.attrs.transpose_a), bool(call.attrs.transpose_b)]
        )
        names = []
        for name, turned, operand in zip(node_entry["input_names"], flags, call.args, strict=True):
            rank = len(get_node_shape(operand))
            order = [*range(rank - 2), rank - 1, rank - 2]
            names.append(
                model_container.node("Transpose", [name], node_entry["name"], {"perm": order}) if turned else name
            )
        _output(node_entry, model_container, "MatMul", names)


class Flatten(OpConverter):
    """All axes but the first merged."""

    onnx_name = "Flatten"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"axis": 1}


class BatchNormalization(OpConverter):
    """Batch normalisation with given statistics along axis 1."""

    onnx_name = "BatchNormalization"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        if attrs.axis != 1:
            raise OpNotImplemented(f"ONNX normalises along axis 1, but axis is {attrs.axis}")
        return {"epsilon": float(attrs.epsilon)}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        attributes = cls.convert_attributes(node_entry["relay_node"].attrs)
        _output(node_entry, model_container, cls.onnx_name, node_entry["input_names"], **attributes)


class Dropout(OpConverter):
    """Nothing, as outside of training."""

    onnx_name = "Identity"

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        _output(node_entry, model_container, cls.onnx_name, node_entry["input_names"])


class Softmax(OpConverter):
    """Softmax and its logarithm. Before version 13 ONNX's runs over all axes from `axis` on, so the axis is moved to the end."""

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"axis": int(attrs.axis)}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        call = node_entry["relay_node"]
        kind = "LogSoftmax" if call.op.name == "nn.log_softmax" else "Softmax"
        rank = len(get_node_shape(call.args[0]))
        axis = int(call.attrs.axis) % rank
        if model_container.opset >= 13 or axis == rank - 1:
            _output(node_entry, model_container, kind, node_entry["input_names"], axis=axis)
            return
        order = [a for a in range(rank) if a != axis] + [axis]
        prefix = node_entry["name"]
        moved = model_container.node("Transpose", node_entry["input_names"], prefix, {"perm": order})
        made = model_container.node(kind, [moved], prefix, {"axis": rank - 1})
        _output(node_entry, model_container, "Transpose", [made], perm=ints(np.argsort(order)))


class Transpose(OpConverter):
    """Axes in another order."""

    onnx_name = "Transpose"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"perm": ints(attrs.axes)} if attrs.axes else {}


class LayoutTransform(OpConverter):
    """Plain layouts: axes in another order."""

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        if sorted(attrs.src_layout) != sorted(attrs.dst_layout):
            raise OpNotImplemented(f"ONNX has no blocks of axes: {attrs.src_layout} to {attrs.dst_layout}")
        return {"perm": [attrs.src_layout.index(c) for c in attrs.dst_layout]}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        attributes = cls.convert_attributes(node_entry["relay_node"].attrs)
        _output(node_entry, model_container, "Transpose", node_entry["input_names"], **attributes)


class _OfShape(OpConverter):
    """An operator of ONNX whose second input is the shape of the result."""

    onnx_name = "Reshape"

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        shape = tvm_array_to_list(node_entry["types"][0].shape)
        given = model_container.constant(f"{node_entry['name']}_shape", np.array(shape, np.int64))
        _output(node_entry, model_container, cls.onnx_name, [*node_entry["input_names"][:1], given])


class Reshape(_OfShape):
    """The same elements in another shape, also `expand_dims`, `squeeze` and reshapes like another tensor."""


class Expand(_OfShape):
    """Elements repeated along axes of extent 1."""

    onnx_name = "Expand"


class Squeeze(OpConverter):
    """Without axes of extent 1."""

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {} if attrs.axis is None else {"axes": ints(attrs.axis)}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        call = node_entry["relay_node"]
        axes = cls.convert_attributes(call.attrs).get("axes")
        gone = axes if axes is not None else [k for k, d in enumerate(get_node_shape(call.args[0])) if d == 1]
        names = node_entry["output_names"], node_entry["name"]
        model_container.with_axes("Squeeze", node_entry["input_names"][0], gone, *names, since=13)


class Concat(OpConverter):
    """Tensors joined along an axis."""

    onnx_name = "Concat"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"axis": int(attrs.axis)}


class BiasAdd(OpConverter):
    """A vector added along an axis."""

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        call = node_entry["relay_node"]
        rank = len(get_node_shape(call.args[0]))
        behind = rank - 1 - int(call.attrs.axis) % rank
        data, bias = node_entry["input_names"]
        if behind:
            shape = model_container.constant(f"{node_entry['name']}_shape", np.array([-1, *[1] * behind], np.int64))
            bias = model_container.node("Reshape", [bias, shape], node_entry["name"])
        _output(node_entry, model_container, "Add", [data, bias])


class ReduceMean(OpConverter):
    """Reductions along axes: mean, sum, max, min, prod."""

    KINDS = {"mean": "ReduceMean", "sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"axes": None if attrs.axis is None else ints(attrs.axis), "keepdims": int(attrs.keepdims)}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        call = node_entry["relay_node"]
        found = cls.convert_attributes(call.attrs)
        rank = len(get_node_shape(call.args[0]))
        axes = [a % rank for a in found["axes"]] if found["axes"] is not None else list(range(rank))
        if call.attrs.exclude:
            axes = [a for a in range(rank) if a not in axes]
        kind = cls.KINDS[call.op.name]
        names = node_entry["output_names"], node_entry["name"]
        since = 13 if kind == "ReduceSum" else 18
        model_container.with_axes(
            kind, node_entry["input_names"][0], axes, *names, since=since, keepdims=found["keepdims"]
        )


class Pad(OpConverter):
    """Padding by a value, by edges or by mirror images."""

    MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect"}

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        before, after = [p[0] for p in attrs.pad_width], [p[1] for p in attrs.pad_width]
        return {"pads": ints([*before, *after]), "mode": cls.MODES[attrs.pad_mode]}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        found = cls.convert_attributes(node_entry["relay_node"].attrs)
        pads = model_container.constant(f"{node_entry['name']}_pads", np.array(found["pads"], np.int64))
        data, *value = node_entry["input_names"]
        _output(
            node_entry,
            model_container,
            "Pad",
            [data, pads, *(value if found["mode"] == "constant" else [])],
            mode=found["mode"],
        )


class Clip(OpConverter):
    """Values between limits."""

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"min": float(attrs.a_min), "max": float(attrs.a_max)}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        call = node_entry["relay_node"]
        found, dtype = cls.convert_attributes(call.attrs), _dtype(call.args[0])
        limits = [
            model_container.constant(f"{node_entry['name']}_{k}", np.array(found[k], dtype)) for k in ("min", "max")
        ]
        _output(node_entry, model_container, "Clip", [*node_entry["input_names"], *limits])


class Cast(OpConverter):
    """Values in another type."""

    onnx_name = "Cast"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"to": helper.np_dtype_to_tensor_dtype(np.dtype(str(attrs.dtype)))}


class LRN(OpConverter):
    """Local response normalisation along axis 1."""

    onnx_name = "LRN"

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        if attrs.axis != 1:
            raise OpNotImplemented(f"ONNX normalises along axis 1, but axis is {attrs.axis}")
        return {
            "alpha": float(attrs.alpha),
            "beta": float(attrs.beta),
            "bias": float(attrs.bias),
            "size": int(attrs.size),
        }


class Split(OpConverter):
    """Pieces along an axis."""

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"axis": int(attrs.axis)}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        axis = cls.convert_attributes(node_entry["relay_node"].attrs)["axis"]
        sizes = [int(t.shape[axis]) for t in node_entry["types"]]
        inputs, attributes = list(node_entry["input_names"]), {"axis": axis}
        if model_container.opset >= 13:
            inputs.append(model_container.constant(f"{node_entry['name']}_sizes", np.array(sizes, np.int64)))
        else:
            attributes["split"] = sizes
        model_container.add_nodes(
            [helper.make_node("Split", inputs, node_entry["output_names"], node_entry["name"], **attributes)]
        )


class Slice(OpConverter):
    """Parts along axes, with steps."""

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        begin, end = ints(attrs.begin), ints(attrs.end)
        sized = attrs.slice_mode == "size"
        if sized:
            end = [2**31 - 1 if e < 0 else b + e for b, e in zip(begin, end, strict=True)]
        steps = [1] * len(begin) if sized or not attrs.strides else ints(attrs.strides)
        steps += [1] * (len(begin) - len(steps))
        axes = list(range(len(begin))) if attrs.axes is None else ints(attrs.axes)
        return {"starts": begin, "ends": end, "axes": axes, "steps": steps}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        found = cls.convert_attributes(node_entry["relay_node"].attrs)
        more = [model_container.constant(f"{node_entry['name']}_{k}", np.array(v, np.int64)) for k, v in found.items()]
        _output(node_entry, model_container, "Slice", [*node_entry["input_names"], *more])


class ConstantOfShapeZeros(OpConverter):
    """Tensors of zeros."""

    VALUE = 0

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        return {"value": cls.VALUE}

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        made = node_entry["types"][0]
        value = cls.convert_attributes(node_entry["relay_node"].attrs)["value"]
        name = model_container.constant(
            node_entry["name"], np.full(tvm_array_to_list(made.shape), value, np.dtype(str(made.dtype)))
        )
        _output(node_entry, model_container, "Identity", [name])


class ConstantOfShapeOnes(ConstantOfShapeZeros):
    """Tensors of ones."""

    VALUE = 1


class Resize(OpConverter):
    """Images in another size."""

    MODES = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
    ROUNDING = {"": "floor", "round": "round_prefer_floor"}

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        _plain(attrs, "layout")
        rounding = cls.ROUNDING.get(attrs.rounding_method, attrs.rounding_method)
        return {
            "mode": cls.MODES[attrs.method],
            "coordinate_transformation_mode": attrs.coordinate_transformation_mode,
            "cubic_coeff_a": float(attrs.cubic_alpha),
            "exclude_outside": int(attrs.cubic_exclude),
            **({"nearest_mode": rounding} if attrs.method == "nearest_neighbor" else {}),
        }

    @classmethod
    def convert(cls, node_entry: Entry, model_container: ModelContainer, node_dict: Nodes) -> None:
        found, name = cls.convert_attributes(node_entry["relay_node"].attrs), node_entry["name"]
        empty = [model_container.constant(f"{name}_{k}", np.array([], np.float32)) for k in ("roi", "scales")]
        shape = tvm_array_to_list(node_entry["types"][0].shape)
        sizes = model_container.constant(f"{name}_sizes", np.array(shape, np.int64))
        _output(node_entry, model_container, "Resize", [*node_entry["input_names"], *empty, sizes], **found)


_RENAMED = """abs:Abs acos:Acos add:Add asin:Asin atan:Atan ceil:Ceil copy:Identity cos:Cos cosh:Cosh divide:Div equal:Equal erf:Erf
exp:Exp floor:Floor greater:Greater isnan:IsNaN less:Less log:Log logical_and:And logical_not:Not logical_or:Or logical_xor:Xor
maximum:Max minimum:Min multiply:Mul negative:Neg nn.global_avg_pool2d:GlobalAveragePool nn.global_max_pool2d:GlobalMaxPool nn.relu:Relu
power:Pow round:Round sigmoid:Sigmoid sign:Sign sin:Sin sinh:Sinh sqrt:Sqrt subtract:Sub tan:Tan tanh:Tanh where:Where"""
relay_to_onnx_op_mapping: dict[str, type[OpConverter]] = {
    **{pair.split(":")[0]: rename(pair.split(":")[1]) for pair in _RENAMED.split()},
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), Conv),
    **dict.fromkeys(("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"), ConvTranspose),
    **dict.fromkeys(("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"), MaxPool),
    **dict.fromkeys(("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"), AveragePool),
    **dict.fromkeys(("nn.dense", "nn.matmul", "nn.batch_matmul"), MatMul),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax"), Softmax),
    **dict.fromkeys(ReduceMean.KINDS, ReduceMean),
    **dict.fromkeys(("reshape", "reshape_like", "expand_dims"), Reshape),
    **dict.fromkeys(("broadcast_to", "broadcast_to_like"), Expand),
    **dict.fromkeys(("zeros", "zeros_like"), ConstantOfShapeZeros),
    **dict.fromkeys(("ones", "ones_like"), ConstantOfShapeOnes),
    "cast": Cast,
    "clip": Clip,
    "concatenate": Concat,
    "image.resize2d": Resize,
    "layout_transform": LayoutTransform,
    "nn.batch_flatten": Flatten,
    "nn.batch_norm": BatchNormalization,
    "nn.bias_add": BiasAdd,
    "nn.dropout": Dropout,
    "nn.lrn": LRN,
    "nn.pad": Pad,
    "split": Split,
    "squeeze": Squeeze,
    "strided_slice": Slice,
    "transpose": Transpose,
}
"""Converters by the operators that they write. A program may add its own."""
