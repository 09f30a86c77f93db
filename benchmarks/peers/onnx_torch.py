"""An ONNX file as a PyTorch module, for the models that PyTorch did not make. The operators of those models only.

Shapes are those of given inputs: what a file computes of shapes is evaluated once, while the steps are written down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F

from benchmarks.peers import Unavailable

Function = Callable[..., Any]


def padded(x: Any, pads: list[int], value: float) -> tuple[Any, list[int]]:
    """The tensor with what of its padding is not the same at both ends, and the rest for the operator itself."""
    half = len(pads) // 2
    if pads[:half] == pads[half:]:
        return x, pads[:half]
    order = [p for i in reversed(range(half)) for p in (pads[i], pads[half + i])]
    return F.pad(x, order, value=value), [0] * half


def conv(at: dict[str, Any]) -> Function:
    """Convolution of two axes, or its transposition."""
    options = {"stride": at.get("strides", 1), "dilation": at.get("dilations", 1), "groups": at.get("group", 1)}

    def run(x: Any, w: Any, b: Any = None) -> Any:
        x, pads = padded(x, at.get("pads", [0, 0, 0, 0]), 0.0)
        return F.conv2d(x, w, b, padding=pads, **options)

    return run


def conv_transpose(at: dict[str, Any]) -> Function:
    pads = at.get("pads", [0, 0, 0, 0])
    if pads[:2] != pads[2:]:
        raise Unavailable(f"a transposed convolution pads {pads}, unlike at both ends; torch cannot")
    return lambda x, w, b=None: F.conv_transpose2d(x, w, b, at.get("strides", 1), pads[:2], groups=at.get("group", 1))


def pool(at: dict[str, Any], average: bool) -> Function:
    kernel, stride, up = at["kernel_shape"], at.get("strides", [1, 1]), bool(at.get("ceil_mode", 0))
    pads, counted = at.get("pads", [0, 0, 0, 0]), bool(at.get("count_include_pad", 0))

    def averaged(x: Any) -> Any:
        if pads[:2] == pads[2:]:
            return F.avg_pool2d(x, kernel, stride, pads[:2], up, counted)
        left, _ = padded(x, pads, 0.0)
        result = F.avg_pool2d(left, kernel, stride, 0, up)
        if counted:
            return result
        share, _ = padded(torch.ones_like(x[:1, :1]), pads, 0.0)
        return result / F.avg_pool2d(share, kernel, stride, 0, up)

    def largest(x: Any) -> Any:
        x, rest = padded(x, pads, float("-inf"))
        return F.max_pool2d(x, kernel, stride, rest, 1, up)

    return averaged if average else largest


def resize(at: dict[str, Any]) -> Function:
    if at.get("mode", b"nearest") != b"nearest":
        raise Unavailable("only nearest-neighbour resizing is written for torch")

    def run(x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
        if sizes is not None and len(sizes):
            return F.interpolate(x, size=[int(s) for s in sizes[2:]])
        return F.interpolate(x, scale_factor=[float(s) for s in scales[2:]])

    return run


def cut(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Slice, of a tensor or of an array of sizes."""
    places = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = 1 if steps is None else int(steps[i])
        places[i if axes is None else int(axes[i])] = slice(int(start), int(min(end, 2**31 - 1)), step)
    return x[tuple(places)]


def squeezed(at: dict[str, Any]) -> Function:
    def run(x: Any, axes: Any = None) -> Any:
        dims = tuple(int(a) for a in (at.get("axes") if axes is None else axes))
        return x.squeeze(dims)

    return run


def unsqueezed(at: dict[str, Any]) -> Function:
    def run(x: Any, axes: Any = None) -> Any:
        for a in sorted(int(a) for a in (at["axes"] if axes is None else axes)):
            x = x.unsqueeze(a) if isinstance(x, torch.Tensor) else np.expand_dims(x, a)
        return x

    return run


def gemm(at: dict[str, Any]) -> Function:
    a_t, b_t, alpha, beta = at.get("transA", 0), at.get("transB", 0), at.get("alpha", 1.0), at.get("beta", 1.0)
    if (alpha, beta) != (1.0, 1.0):
        raise Unavailable("Gemm with alpha or beta is not written for torch")
    return lambda a, b, c: torch.addmm(c, a.t() if a_t else a, b.t() if b_t else b)


def joined(at: dict[str, Any]) -> Function:
    def run(*parts: Any) -> Any:
        if all(isinstance(p, np.ndarray) for p in parts):
            return np.concatenate(parts, at["axis"])
        return torch.cat(parts, at["axis"])

    return run


def reshaped(x: Any, to: Any) -> Any:
    return x.reshape([x.shape[i] if d == 0 else int(d) for i, d in enumerate(to)])


def cast(at: dict[str, Any]) -> Function:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(at["to"])
    return lambda x: x.astype(dtype) if isinstance(x, np.ndarray) else x.to(getattr(torch, dtype.name))


def batch_norm(at: dict[str, Any]) -> Function:
    return lambda x, s, b, mean, var: F.batch_norm(x, mean, var, s, b, eps=at.get("epsilon", 1e-5))


def softmax(at: dict[str, Any], opset: int) -> Function:
    if opset >= 13:
        return lambda x: F.softmax(x, at.get("axis", -1))

    def run(x: Any) -> Any:
        axis = at.get("axis", 1) % x.ndim
        return F.softmax(x.flatten(axis), -1).reshape(x.shape)

    return run


def clip(at: dict[str, Any]) -> Function:
    def bound(v: Any, name: str) -> Any:
        return at.get(name) if v is None else float(v)

    return lambda x, low=None, high=None: torch.clamp(x, bound(low, "min"), bound(high, "max"))


PLAIN: dict[str, Function] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "Pow": lambda a, b: a**b,
    "Sum": lambda *v: sum(v[1:], v[0]),
    "MatMul": torch.matmul,
    "Relu": F.relu,
    "Sigmoid": torch.sigmoid,
    "Sqrt": torch.sqrt,
    "Dropout": lambda x, *_: x,
    "Identity": lambda x: x,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
    "Shape": lambda x: np.array(x.shape, np.int64),
    "Slice": cut,
    "Reshape": reshaped,
}
WITH_ATTRIBUTES: dict[str, Callable[[dict[str, Any]], Function]] = {
    "AveragePool": lambda at: pool(at, True),
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "Clip": clip,
    "Concat": joined,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "HardSigmoid": lambda at: lambda x: torch.clamp(x * at.get("alpha", 0.2) + at.get("beta", 0.5), 0.0, 1.0),
    "MaxPool": lambda at: pool(at, False),
    "ReduceMean": lambda at: lambda x: x.mean(at["axes"], keepdim=bool(at.get("keepdims", 1))),
    "Resize": resize,
    "Squeeze": squeezed,
    "Transpose": lambda at: lambda x: x.permute(at["perm"]),
    "Unsqueeze": unsqueezed,
}
SIZES = {
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Resize": (1, 2, 3),
    "Clip": (1, 2),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
}
"""Inputs that must be numbers, not tensors, by operator."""


def function_of(node: Any, at: dict[str, Any], opset: int) -> Function:
    if node.op_type == "Softmax":
        return softmax(at, opset)
    if node.op_type in PLAIN:
        return PLAIN[node.op_type]
    if node.op_type in WITH_ATTRIBUTES:
        return WITH_ATTRIBUTES[node.op_type](at)
    raise Unavailable(f"the operator {node.op_type} is not written for torch (benchmarks/peers/onnx_torch.py)")


class Steps(torch.nn.Module):
    """Operators in order, each on values by name; weights are buffers."""

    def __init__(self, steps: list[tuple[Function, list[Any], str]], names: list[str], results: list[str]) -> None:
        super().__init__()
        self.steps, self.names, self.results = steps, names, results
        self.buffers_of: dict[str, str] = {}

    def keep(self, name: str, value: np.ndarray) -> None:
        key = f"weight_{len(self.buffers_of)}"
        self.register_buffer(key, torch.from_numpy(value.copy()))
        self.buffers_of[name] = key

    def forward(self, *given: Any) -> tuple[Any, ...]:
        values = dict(zip(self.names, given, strict=True))
        for name, key in self.buffers_of.items():
            values[name] = getattr(self, key)
        for function, taken, made in self.steps:
            values[made] = function(*[values[t] if isinstance(t, str) else t for t in taken])
        return tuple(values[r] for r in self.results)


def fold_transposed(graph: Any, arrays: dict[str, np.ndarray]) -> None:
    """What follows a transposed convolution by its filters (a constant added, a batch normalised) goes into its filters and bias.

    The freezing of torch 2.13 would do so along the filters' inputs: wrong numbers where these are as many as the filters, an error
    ("expected bias to be 1-dimensional") where there is one filter.
    """
    readers = Counter(name for node in graph.node for name in node.input) + Counter(o.name for o in graph.output)
    open_sums: dict[str, Any] = {}
    for node in list(graph.node):
        if node.op_type == "ConvTranspose":
            open_sums[node.output[0]] = node
            continue
        sums = next((name for name in node.input if name in open_sums and readers[name] == 1), None)
        if sums is None or node.op_type not in ("Add", "BatchNormalization"):
            continue
        made = open_sums[sums]
        filters = arrays[made.input[1]]
        bias = arrays[made.input[2]] if len(made.input) > 2 else np.zeros(filters.shape[1], filters.dtype)
        if node.op_type == "Add":
            added = next((arrays[name] for name in node.input if name in arrays), None)
            if added is None or added.size != bias.size or added.shape[-3:] != (bias.size, 1, 1):
                continue
            bias = bias + added.reshape(-1)
        else:
            scale, offset, mean, variance = (arrays[name] for name in node.input[1:5])
            epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
            by = (scale / np.sqrt(variance + epsilon)).astype(filters.dtype)
            filters, bias = filters * by[:, None, None], (bias - mean) * by + offset
        names = [f"{made.output[0]}/{part}" for part in ("filters", "bias")]
        arrays.update(zip(names, (filters, bias), strict=True))
        made.input[1:] = names
        made.output[0] = node.output[0]
        open_sums[node.output[0]] = made
        graph.node.remove(node)


def as_module(path: Path, inputs: dict[str, np.ndarray]) -> tuple[Any, list[str]]:
    """The module, and the names of its inputs in order."""
    model = onnx.load(path)
    graph, opset = model.graph, model.opset_import[0].version
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "Constant"]:
        arrays[node.output[0]] = onnx.numpy_helper.to_array(onnx.helper.get_attribute_value(node.attribute[0]))
        graph.node.remove(node)
    fold_transposed(graph, arrays)
    names = [i.name for i in graph.input if i.name not in arrays]
    values: dict[str, Any] = {**arrays, **{n: torch.from_numpy(inputs[n]) for n in names}}
    steps: list[tuple[Function, list[Any], str]] = []
    module = Steps(steps, names, [o.name for o in graph.output])
    for node in graph.node:
        at = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        function = function_of(node, at, opset)
        taken: list[Any] = []
        for i, name in enumerate(node.input):
            value = values[name] if name else None
            if isinstance(value, np.ndarray) and (value.dtype == np.float32) and i not in SIZES.get(node.op_type, ()):
                if name not in module.buffers_of:
                    module.keep(name, value)
                taken.append(name)
            else:
                taken.append(name if isinstance(value, torch.Tensor) else value)
        concrete = [
            torch.from_numpy(arrays[t].copy())
            if isinstance(t, str) and t in arrays
            else values[t]
            if isinstance(t, str)
            else t
            for t in taken
        ]
        with torch.no_grad():
            result = function(*concrete)
        values[node.output[0]] = result
        if isinstance(result, torch.Tensor):
            # Numbers as Python's: torch.compile follows no arrays of NumPy that a program holds.
            steps.append((function, [t.tolist() if isinstance(t, np.ndarray) else t for t in taken], node.output[0]))
    return module, names
