"""Random matrix products and convolutions, each as an ONNX model of one node and as a call of torch; what all random cases share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log, prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
TorchCall = Callable[[dict[str, Any], Any], Callable[[], Any]]
"""Given tensors by name, and one for the result, the fastest call that torch has; it writes to the result where it can."""

MOST_FLOPS = 1.2e9
"""Work of a convolution beyond which another one is drawn, so that all of them take minutes."""
MOST_BYTES = 64 << 20
ALIGNMENT = 64
TOLERANCE = 2e-4
"""Largest difference from a peer, relative to the largest magnitude of the result."""


def aligned(values: Array) -> Array:
    """A copy at a boundary that all contestants can take as it is."""
    raw = np.empty(values.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    found: Array = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    found[...] = values
    return found


def log_uniform(rng: np.random.Generator, most: int) -> int:
    """1 to `most`, each doubling equally likely."""
    return min(most, int(np.exp(rng.uniform(0, log(most + 1)))))


@dataclass(frozen=True)
class Values:
    """What an input or a constant holds: normal numbers, or, with `high`, uniform ones from `low` to below it."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = 0
    high: float | None = None

    def draw(self, rng: np.random.Generator) -> Array:
        if self.high is None:
            return aligned(rng.standard_normal(self.shape, np.float32).astype(np.dtype(self.dtype)))
        if self.dtype == "float32":
            return aligned(rng.uniform(self.low, self.high, self.shape).astype(np.float32))
        return aligned(rng.integers(int(self.low), int(self.high), self.shape).astype(self.dtype))


@dataclass(frozen=True)
class Case:
    """ONNX nodes from inputs and constants to `results`, and torch's way to the first of these."""

    kind: str
    """The class that results are grouped by."""
    name: str
    nodes: Sequence[Any]
    inputs: dict[str, Values]
    torch_call: TorchCall | None
    constants: dict[str, Values | Array] = field(default_factory=dict)
    results: Sequence[str] = ("y",)
    flops: int = 0
    tolerance: float = TOLERANCE

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def arrays(case: Case, seed: int) -> dict[str, Array]:
    """What the inputs and constants hold."""
    rng = np.random.default_rng(seed)
    held = {**case.inputs, **case.constants}
    return {name: v.draw(rng) if isinstance(v, Values) else aligned(v) for name, v in held.items()}


def onnx_model(case: Case, given: dict[str, Array]) -> Any:
    """The ONNX model; what is constant is in it."""
    from onnx import helper, numpy_helper, shape_inference

    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(given[n].dtype), given[n].shape)
        for n in case.inputs
    ]
    held = [numpy_helper.from_array(given[n], n) for n in case.constants]
    outputs = [helper.make_empty_tensor_value_info(n) for n in case.results]
    graph = helper.make_graph(list(case.nodes), "one", inputs, outputs, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    return shape_inference.infer_shapes(model, data_prop=True)


@dataclass(frozen=True)
class Gemm:
    """(M, K) by (K, N), each possibly stored transposed; B a constant of the model or an input of it; possibly a bias."""

    m: int
    n: int
    k: int
    constant: bool
    transpose_a: bool
    transpose_b: bool
    bias: bool

    @staticmethod
    def draw(rng: np.random.Generator) -> Gemm:
        """M, N, K log-uniform in 1 to 1024."""
        m, n, k = (log_uniform(rng, 1024) for _ in range(3))
        return Gemm(m, n, k, *[bool(rng.random() < p) for p in (0.5, 0.15, 0.4, 0.3)])

    @property
    def kind(self) -> str:
        """The class that results are grouped by."""
        if self.m == 1 or self.n == 1:
            return "gemv, constant" if self.constant else "gemv, variable"
        return "gemm, constant" if self.constant else "gemm, variable"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def name(self) -> str:
        marks = "".join([" A^T" * self.transpose_a, " B^T" * self.transpose_b, " +bias" * self.bias])
        return f"{self.m}x{self.n}x{self.k} {'constant' if self.constant else 'variable'} B{marks}"

    def case(self) -> Case:
        from onnx import helper

        data = Values((self.k, self.m) if self.transpose_a else (self.m, self.k))
        weight = {"w": Values((self.n, self.k) if self.transpose_b else (self.k, self.n))}
        bias = {"b": Values((self.n,))} if self.bias else {}
        names = ["x", "w", *bias]
        if self.transpose_a or self.transpose_b or self.bias:
            node = helper.make_node("Gemm", names, ["y"], transA=int(self.transpose_a), transB=int(self.transpose_b))
        else:
            node = helper.make_node("MatMul", names, ["y"])
        inputs, constants = ({}, weight) if self.constant else (weight, {})
        return Case(
            self.kind,
            self.name,
            [node],
            {"x": data, **inputs},
            self.torch_call,
            {**constants, **bias},
            flops=self.flops,
        )

    def torch_call(self, given: dict[str, Any], out: Any) -> Callable[[], Any]:
        import torch

        a = given["x"].t() if self.transpose_a else given["x"]
        right = given["w"].t() if self.transpose_b else given["w"]
        if self.bias:
            bias = given["b"]
            return lambda: torch.addmm(bias, a, right, out=out)
        return lambda: torch.mm(a, right, out=out)


@dataclass(frozen=True)
class Conv:
    """A convolution of (batch, channels_in, *image) over one to three axes, or a transposed one."""

    batch: int
    channels_in: int
    channels: int
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int
    padding: tuple[int, ...]
    dilation: int
    groups: int
    transposed: bool
    constant: bool
    bias: bool

    @staticmethod
    def draw(rng: np.random.Generator, axes: int = 2, extent: int = 224, kernels: str = "small") -> Conv:
        """Draws until one fits the bounds.

        `kernels`: up to 7 wide ("small"), 8 to 31 ("large"), or as first layers of models have them ("first").
        """
        while True:
            found = Conv._draw(rng, axes, extent, kernels)
            places = prod(found.result_shape[2:]) if min(found.result_shape) > 0 else 0
            size = 4 * max(prod(found.data_shape), prod(found.weight_shape), prod(found.result_shape))
            if places and found.flops <= MOST_FLOPS and size <= MOST_BYTES:
                return found

    @staticmethod
    def _draw(rng: np.random.Generator, axes: int, extent: int, kernels: str) -> Conv:
        def channels() -> int:
            c = log_uniform(rng, 1024)
            return -(-c // 8) * 8 if c > 8 and rng.random() < 0.5 else c

        def width() -> int:
            if kernels == "large":
                return int(rng.integers(8, 32))
            if kernels == "first":
                return int(rng.choice([3, 4, 5, 7, 8, 11, 14, 16]))
            return int(rng.choice([1, 2, 3, 4, 5, 6, 7], p=[0.3, 0.05, 0.35, 0.05, 0.12, 0.03, 0.1]))

        shares = {"small": [0.6, 0.12, 0.13, 0.15], "large": [0.35, 0.1, 0.5, 0.05], "first": [1, 0, 0, 0]}[kernels]
        form = rng.choice(["plain", "grouped", "depthwise", "transposed"], p=shares)
        i, o = channels(), channels()
        if kernels == "first":
            i, o = int(rng.choice([1, 2, 3, 4], p=[0.15, 0.05, 0.7, 0.1])), min(o, 256)
        groups = 1
        if form == "grouped":
            groups = log_uniform(rng, 32)
            i, o = [max(1, c // groups) * groups for c in (i, o)]
        elif form == "depthwise":
            groups, o = i, i * (2 if rng.random() < 0.1 else 1)
        image = [log_uniform(rng, extent)]
        image += [image[0] if rng.random() < 0.7 else log_uniform(rng, extent) for _ in range(axes - 1)]
        square = rng.random() < 0.85
        kernel = [width() for _ in range(axes)]
        kernel = kernel[:1] * axes if square else kernel
        stride = int(rng.choice([1, 2, 3], p=[0.65, 0.3, 0.05]))
        if kernels == "first":
            stride = int(rng.choice([1, 2, 4, kernel[0]]))
        dilation = int(rng.choice([1, 2, 3], p=[0.85, 0.1, 0.05]))
        pads = [int(rng.integers(0, (k - 1) * dilation // 2 + 1)) if rng.random() < 0.3 else (k - 1) * dilation // 2
                for k in kernel]  # fmt: skip
        return Conv(
            int(rng.choice([1, 2, 3, 8], p=[0.85, 0.05, 0.05, 0.05])), i, o, tuple(image), tuple(kernel), stride,
            tuple(pads), dilation, groups, form == "transposed",
            bool(rng.random() < 0.85), bool(rng.random() < 0.5),
        )  # fmt: skip

    @property
    def kind(self) -> str:
        """The class that results are grouped by."""
        axes = f"conv {len(self.image)}-D" if len(self.image) != 2 else "conv"
        if not self.constant:
            return f"{axes}, variable weights"
        if self.transposed:
            return f"{axes}, transposed"
        if self.groups > 1 and self.groups == self.channels_in:
            return f"{axes}, depthwise"
        if self.groups > 1:
            return f"{axes}, grouped"
        if max(self.kernel) > 7:
            return f"{axes}, large"
        return f"{axes}, 1x1" if max(self.kernel) == 1 else axes

    @property
    def flops(self) -> int:
        places = prod(self.data_shape[2:]) if self.transposed else prod(self.result_shape[2:])
        return 2 * self.batch * places * self.channels_in * self.channels // self.groups * prod(self.kernel)

    @property
    def name(self) -> str:
        def joined(v: tuple[int, ...]) -> str:
            return "x".join(map(str, v))

        marks = [f"g{self.groups}"] if self.groups > 1 else []
        marks += [f"s{self.stride}"] if self.stride != 1 else []
        marks += (
            [f"p{joined(self.padding if len(set(self.padding)) > 1 else self.padding[:1])}"]
            if any(self.padding)
            else []
        )
        marks += [f"d{self.dilation}"] if self.dilation != 1 else []
        marks += [m for m, is_so in (("transposed", self.transposed), ("variable", not self.constant)) if is_so]
        return " ".join([f"{joined(self.data_shape)} to {self.channels}", f"k{joined(self.kernel)}", *marks])

    @property
    def data_shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels_in, *self.image)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        if self.transposed:
            return (self.channels_in, self.channels // self.groups, *self.kernel)
        return (self.channels, self.channels_in // self.groups, *self.kernel)

    @property
    def result_shape(self) -> tuple[int, ...]:
        s = self.stride
        reach = [(k - 1) * self.dilation + 1 for k in self.kernel]
        each = zip(self.image, reach, self.padding, strict=True)
        if self.transposed:
            return (self.batch, self.channels, *[(e - 1) * s + r - 2 * p for e, r, p in each])
        return (self.batch, self.channels, *[(e + 2 * p - r) // s + 1 if e + 2 * p >= r else 0 for e, r, p in each])

    def case(self) -> Case:
        from onnx import helper

        weight = {"w": Values(self.weight_shape)}
        bias = {"b": Values((self.channels,))} if self.bias else {}
        n = len(self.image)
        node = helper.make_node(
            "ConvTranspose" if self.transposed else "Conv", ["x", "w", *bias], ["y"], kernel_shape=self.kernel,
            strides=[self.stride] * n, dilations=[self.dilation] * n, group=self.groups, pads=self.padding * 2,
        )  # fmt: skip
        inputs, constants = ({}, weight) if self.constant else (weight, {})
        return Case(
            self.kind, self.name, [node], {"x": Values(self.data_shape), **inputs}, self.torch_call,
            {**constants, **bias}, flops=self.flops,
        )  # fmt: skip

    def torch_call(self, given: dict[str, Any], _: Any) -> Callable[[], Any]:
        from torch.nn import functional

        n = len(self.image)
        x, w, b = given["x"], given["w"], given.get("b")
        if self.transposed:
            transposed = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[n - 1]
            rest: tuple[Any, ...] = (b, self.stride, self.padding, 0, self.groups, self.dilation)
            return lambda: transposed(x, w, *rest)
        plain = (functional.conv1d, functional.conv2d, functional.conv3d)[n - 1]
        rest = (b, self.stride, self.padding, self.dilation, self.groups)
        return lambda: plain(x, w, *rest)
