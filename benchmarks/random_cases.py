"""Random matrix products and convolutions, each as an ONNX model of one node and as a call of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import log, prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MOST_FLOPS = 1.2e9
"""Work of a convolution beyond which another one is drawn, so that all of them take minutes."""
MOST_BYTES = 64 << 20
ALIGNMENT = 64


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

    def __str__(self) -> str:
        marks = "".join([" A^T" * self.transpose_a, " B^T" * self.transpose_b, " +bias" * self.bias])
        return f"{self.m}x{self.n}x{self.k} {'constant' if self.constant else 'variable'} B{marks}"

    @property
    def data_shape(self) -> tuple[int, ...]:
        return (self.k, self.m) if self.transpose_a else (self.m, self.k)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.n, self.k) if self.transpose_b else (self.k, self.n)

    @property
    def channels(self) -> int:
        return self.n

    @property
    def result_shape(self) -> tuple[int, ...]:
        return (self.m, self.n)

    def node(self, inputs: list[str]) -> Any:
        """The ONNX node."""
        from onnx import helper

        if not (self.transpose_a or self.transpose_b or self.bias):
            return helper.make_node("MatMul", inputs, ["y"])
        return helper.make_node("Gemm", inputs, ["y"], transA=int(self.transpose_a), transB=int(self.transpose_b))

    def torch_call(self, x: Any, w: Any, b: Any, out: Any) -> Callable[[], Any]:
        """The fastest call that torch has for it; writes to `out` where it can."""
        import torch

        a = x.t() if self.transpose_a else x
        right = w.t() if self.transpose_b else w
        if b is not None:
            return lambda: torch.addmm(b, a, right, out=out)
        return lambda: torch.mm(a, right, out=out)


@dataclass(frozen=True)
class Conv:
    """A convolution of (batch, channels_in, height, width), or a transposed one."""

    batch: int
    channels_in: int
    channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    transposed: bool
    constant: bool
    bias: bool

    @staticmethod
    def draw(rng: np.random.Generator) -> Conv:
        """Draws until one fits the bounds."""
        while True:
            found = Conv._draw(rng)
            places = prod(found.result_shape[2:]) if min(found.result_shape) > 0 else 0
            size = 4 * max(prod(found.data_shape), prod(found.weight_shape), prod(found.result_shape))
            if places and found.flops <= MOST_FLOPS and size <= MOST_BYTES:
                return found

    @staticmethod
    def _draw(rng: np.random.Generator) -> Conv:
        def channels() -> int:
            c = log_uniform(rng, 1024)
            return -(-c // 8) * 8 if c > 8 and rng.random() < 0.5 else c

        form = rng.choice(["plain", "grouped", "depthwise", "transposed"], p=[0.6, 0.12, 0.13, 0.15])
        i, o = channels(), channels()
        groups = 1
        if form == "grouped":
            groups = log_uniform(rng, 32)
            i, o = [max(1, c // groups) * groups for c in (i, o)]
        elif form == "depthwise":
            groups, o = i, i * (2 if rng.random() < 0.1 else 1)
        height = log_uniform(rng, 224)
        width = height if rng.random() < 0.7 else log_uniform(rng, 224)
        square = rng.random() < 0.85
        kernel = [int(rng.choice([1, 2, 3, 4, 5, 6, 7], p=[0.3, 0.05, 0.35, 0.05, 0.12, 0.03, 0.1])) for _ in range(2)]
        kernel = kernel[:1] * 2 if square else kernel
        stride = int(rng.choice([1, 2, 3], p=[0.65, 0.3, 0.05]))
        dilation = int(rng.choice([1, 2, 3], p=[0.85, 0.1, 0.05]))
        pads = [int(rng.integers(0, (k - 1) * dilation // 2 + 1)) if rng.random() < 0.3 else (k - 1) * dilation // 2
                for k in kernel]  # fmt: skip
        return Conv(
            int(rng.choice([1, 2, 3, 8], p=[0.85, 0.05, 0.05, 0.05])), i, o, height, width, (kernel[0], kernel[1]),
            (stride, stride), (pads[0], pads[1]), (dilation, dilation), groups, form == "transposed",
            bool(rng.random() < 0.85), bool(rng.random() < 0.5),
        )  # fmt: skip

    @property
    def kind(self) -> str:
        """The class that results are grouped by."""
        if not self.constant:
            return "conv, variable weights"
        if self.transposed:
            return "conv, transposed"
        if self.groups > 1 and self.groups == self.channels_in:
            return "conv, depthwise"
        if self.groups > 1:
            return "conv, grouped"
        return "conv, 1x1" if self.kernel == (1, 1) else "conv"

    @property
    def flops(self) -> int:
        places = prod(self.data_shape[2:]) if self.transposed else prod(self.result_shape[2:])
        return 2 * self.batch * places * self.channels_in * self.channels // self.groups * prod(self.kernel)

    def __str__(self) -> str:
        def pair(v: tuple[int, int]) -> str:
            return str(v[0]) if v[0] == v[1] else f"{v[0]}x{v[1]}"

        marks = [f"g{self.groups}"] if self.groups > 1 else []
        marks += [f"{n}{pair(v)}" for n, v, d in (("s", self.stride, 1), ("p", self.padding, 0), ("d", self.dilation, 1))
                  if v != (d, d)]  # fmt: skip
        marks += [m for m, is_so in (("transposed", self.transposed), ("variable", not self.constant)) if is_so]
        sizes = f"{self.batch}x{self.channels_in}x{self.height}x{self.width} to {self.channels}"
        return " ".join([sizes, f"k{self.kernel[0]}x{self.kernel[1]}", *marks])

    @property
    def data_shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels_in, self.height, self.width)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        if self.transposed:
            return (self.channels_in, self.channels // self.groups, *self.kernel)
        return (self.channels, self.channels_in // self.groups, *self.kernel)

    @property
    def result_shape(self) -> tuple[int, ...]:
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        each = zip((self.height, self.width), reach, self.stride, self.padding, strict=True)
        if self.transposed:
            return (self.batch, self.channels, *[(e - 1) * s + r - 2 * p for e, r, s, p in each])
        return (self.batch, self.channels, *[(e + 2 * p - r) // s + 1 if e + 2 * p >= r else 0 for e, r, s, p in each])

    def node(self, inputs: list[str]) -> Any:
        """The ONNX node."""
        from onnx import helper

        attrs = {"kernel_shape": self.kernel, "strides": self.stride, "dilations": self.dilation, "group": self.groups}
        name = "ConvTranspose" if self.transposed else "Conv"
        return helper.make_node(name, inputs, ["y"], pads=[*self.padding, *self.padding], **attrs)

    def torch_call(self, x: Any, w: Any, b: Any, out: Any) -> Callable[[], Any]:
        """The fastest call that torch has for it."""
        from torch.nn import functional

        if self.transposed:
            rest: tuple[Any, ...] = (b, self.stride, self.padding, 0, self.groups, self.dilation)
            return lambda: functional.conv_transpose2d(x, w, *rest)
        rest = (b, self.stride, self.padding, self.dilation, self.groups)
        return lambda: functional.conv2d(x, w, *rest)


Case = Gemm | Conv


def draw(kind: str, seed: int, index: int) -> Case:
    """The case with this number; it does not depend on how many others are drawn."""
    rng = np.random.default_rng([seed, index, {"gemm": 0, "conv": 1}[kind]])
    return Gemm.draw(rng) if kind == "gemm" else Conv.draw(rng)


def arrays(case: Case, seed: int) -> dict[str, Array]:
    """Data x, weights w and bias b of a case."""
    rng = np.random.default_rng(seed)

    def normal(shape: tuple[int, ...]) -> Array:
        return aligned(rng.standard_normal(shape, np.float32))

    found = {"x": normal(case.data_shape), "w": normal(case.weight_shape)}
    return {**found, "b": normal((case.channels,))} if case.bias else found


def onnx_model(case: Case, given: dict[str, Array]) -> Any:
    """The ONNX model of one node; what is constant is in it."""
    from onnx import TensorProto, helper, numpy_helper

    constants = [n for n in given if n == "b" or (n == "w" and case.constant)]
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in given.items() if n not in constants
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, case.result_shape)
    held = [numpy_helper.from_array(given[n], n) for n in constants]
    graph = helper.make_graph([case.node(list(given))], "one", inputs, [result], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def as_record(case: Case) -> dict[str, Any]:
    """What a table of results says of a case."""
    return {"kind": case.kind, "name": str(case), "flops": case.flops, **asdict(case)}
