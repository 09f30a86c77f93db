"""A back end that sends patterns of a network to plain C kernels, and what is left to the compiler.

Copy it to bring a code generator of your own. There are three things to say: what a kernel looks like (a Python function that
writes C), which patterns of operators have one (a pattern table), and when a call is taken (checks). Everything else is the
same for all back ends: four passes take the parts out, `relay.build` asks the generator for their code, and exporting the
model compiles that into the library.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.backend.byoc.c_codegen import CSourceCodegen, CTensor, operator
from tilewright.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from tilewright.relay.op.contrib import get_pattern_table, register_pattern_table

NAME = "byoc_c"

# ---- kernels: the statements of a C function whose parameters have the names of the Python parameters


def conv2d(call: relay.Call, data: CTensor, weight: CTensor, bias: CTensor | None, out: CTensor, last: str) -> str:
    """A convolution with `bias` added and `last`, an expression of `sum`, applied to every element."""
    attrs = operator(call, "nn.conv2d").attrs
    (n, channels, height, width), (_, _, kh, kw) = data.shape, weight.shape
    _, filters, rows, columns = out.shape
    (sy, sx), (dy, dx), (top, left) = attrs.strides, attrs.dilation, attrs.padding[:2]
    return f"""
    for (int n = 0; n < {n}; ++n)
      for (int f = 0; f < {filters}; ++f)
        for (int y = 0; y < {rows}; ++y)
          for (int x = 0; x < {columns}; ++x) {{
            float sum = {"bias[f]" if bias else "0"};
            for (int c = 0; c < {channels}; ++c)
              for (int ky = 0; ky < {kh}; ++ky)
                for (int kx = 0; kx < {kw}; ++kx) {{
                  int row = y * {sy} + ky * {dy} - {top}, column = x * {sx} + kx * {dx} - {left};
                  if (row < 0 || row >= {height} || column < 0 || column >= {width}) continue;
                  sum += data[((n * {channels} + c) * {height} + row) * {width} + column]
                         * weight[((f * {channels} + c) * {kh} + ky) * {kw} + kx];
                }}
            out[((n * {filters} + f) * {rows} + y) * {columns} + x] = {last};
          }}
    """


def conv2d_bias_relu(call: relay.Call, data: CTensor, weight: CTensor, bias: CTensor, out: CTensor) -> str:
    return conv2d(call, data, weight, bias, out, "sum > 0 ? sum : 0")


def conv2d_bias(call: relay.Call, data: CTensor, weight: CTensor, bias: CTensor, out: CTensor) -> str:
    return conv2d(call, data, weight, bias, out, "sum")


def dense_bias(call: relay.Call, data: CTensor, weight: CTensor, bias: CTensor, out: CTensor) -> str:
    (rows, depth), columns = data.shape, out.shape[1]
    return f"""
    for (int i = 0; i < {rows}; ++i)
      for (int j = 0; j < {columns}; ++j) {{
        float sum = bias[j];
        for (int k = 0; k < {depth}; ++k) sum += data[i * {depth} + k] * weight[j * {depth} + k];
        out[i * {columns} + j] = sum;
      }}
    """


def max_pool2d(call: relay.Call, data: CTensor, out: CTensor) -> str:
    attrs = call.attrs
    planes, (height, width), (rows, columns) = data.shape[0] * data.shape[1], data.shape[2:], out.shape[2:]
    (ky, kx), (sy, sx) = attrs.pool_size, attrs.strides
    return f"""
    for (int p = 0; p < {planes}; ++p)
      for (int y = 0; y < {rows}; ++y)
        for (int x = 0; x < {columns}; ++x) {{
          float best = -INFINITY;
          for (int i = 0; i < {ky}; ++i)
            for (int j = 0; j < {kx}; ++j)
              best = fmaxf(best, data[(p * {height} + y * {sy} + i) * {width} + x * {sx} + j]);
          out[(p * {rows} + y) * {columns} + x] = best;
        }}
    """


def relu(call: relay.Call, data: CTensor, out: CTensor) -> str:
    return f"for (int i = 0; i < {out.size}; ++i) out[i] = data[i] > 0 ? data[i] : 0;"


KERNELS = {
    f"{NAME}.conv2d_bias_relu": conv2d_bias_relu,
    f"{NAME}.conv2d_bias": conv2d_bias,
    f"{NAME}.dense_bias": dense_bias,
    "nn.max_pool2d": max_pool2d,
    "nn.relu": relu,
}


# ---- what is taken


def biased(call: DFPattern) -> DFPattern:
    """The call with a bias, however it is added."""
    return is_op("nn.bias_add")(call, is_constant())


def simple_conv2d(e: relay.Expr) -> bool:
    """float32, the usual layouts, one group: what the kernel can do."""
    call = operator(e, "nn.conv2d")
    attrs = call.attrs
    plain = (attrs.data_layout, attrs.kernel_layout, attrs.groups) == ("NCHW", "OIHW", 1)
    return plain and str(call.checked_type.dtype) == "float32"


def floats(e: relay.Expr) -> bool:
    return str(e.checked_type.dtype) == "float32"


@register_pattern_table(NAME)
def pattern_table() -> list[tuple]:  # type: ignore[type-arg]
    """The larger patterns first: what one took, the next does not see."""
    conv = biased(is_op("nn.conv2d")(wildcard(), is_constant()))
    dense = biased(is_op("nn.dense")(wildcard(), is_constant()))
    return [
        (f"{NAME}.conv2d_bias_relu", is_op("nn.relu")(conv), simple_conv2d),
        (f"{NAME}.conv2d_bias", conv, simple_conv2d),
        (f"{NAME}.dense_bias", dense, floats),
    ]


def single_operators(call: relay.Call) -> bool:
    """Of operators outside of patterns: pooling without padding or dilation, of floats."""
    if not floats(call):
        return False
    if call.op.name == "nn.max_pool2d":
        attrs = call.attrs
        return attrs.layout == "NCHW" and not any(attrs.padding) and set(attrs.dilation) == {1} and not attrs.ceil_mode
    return True


CSourceCodegen(NAME, KERNELS).register(single_operators)


def partition(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with what is taken in functions of its own."""
    return tvm.transform.Sequential(
        [
            relay.transform.InferType(),
            relay.transform.MergeComposite(get_pattern_table(NAME)),
            relay.transform.AnnotateTarget(NAME),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
    )(mod)


# ---- a network, compiled with and without


def network(seed: int = 0) -> tvm.IRModule:
    """Two convolutions, pooling, a softmax over ten classes: a digit reader of random weights."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> relay.Constant:
        return relay.const((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32"))

    x = relay.var("x", shape=(1, 1, 28, 28))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weights(8, 1, 3, 3), padding=(1, 1)), weights(8)))
    y = relay.nn.max_pool2d(y, (2, 2), (2, 2))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(y, weights(16, 8, 3, 3), padding=(1, 1)), weights(16)))
    y = relay.nn.batch_flatten(relay.nn.max_pool2d(y, (2, 2), (2, 2)))
    y = relay.nn.softmax(relay.nn.bias_add(relay.nn.dense(y, weights(10, 16 * 49)), weights(10)))
    return tvm.IRModule.from_expr(relay.Function([x], y))


def run(lib: tvm.runtime.Module, image: np.ndarray, seconds: float) -> tuple[np.ndarray, float]:
    """(the classes' probabilities, milliseconds of one run)."""
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    executor.set_input("x", image)
    executor.run()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds or not count:
        executor.run()
        count += 1
    return executor.get_output(0).numpy(), (time.perf_counter() - begin) / count * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the partitioned program and the generated C")
    parser.add_argument("--seconds", type=float, default=0.2, help="how long each version is timed")
    args = parser.parse_args()

    mod = network()
    parts = partition(mod)
    taken = {g.name_hint: f for g, f in parts.functions.items() if "Compiler" in f.attrs}
    if args.show:
        print(parts)
        print(tvm.get_global_func(f"relay.ext.{NAME}")(next(iter(taken.values()))).get_source())
    image = np.random.default_rng(1).random((1, 1, 28, 28), "float32")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "digits.so")
        relay.build(parts, "llvm").export_library(path)
        kernels, kernel_ms = run(tvm.runtime.load_module(path), image, args.seconds)
    compiled, compiled_ms = run(relay.build(mod, "llvm"), image, args.seconds)
    np.testing.assert_allclose(kernels, compiled, rtol=1e-4)
    for name, f in taken.items():
        print(f"{name}: {', '.join(relay.analysis.list_op_freqs(tvm.IRModule.from_expr(f.replace(attrs={}))))}")
    print(f"with C kernels   {kernel_ms:8.3f} ms")
    print(f"compiled whole   {compiled_ms:8.3f} ms, the same probabilities")


if __name__ == "__main__":
    main()
