"""Convolutions of plain layouts in each of their forms, of sizes that fill no vector, on several targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te
from tilewright.codegen import interp
from tilewright.contrib import graph_executor
from tilewright.relay.op.convolution.windows import np_conv, np_conv_transpose
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target
from tilewright.topi import nn

TARGETS = {
    "avx512": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2",
    "avx2": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -num-cores=2",
}
# data, weights, strides, padding, dilation, groups
CASES: list[tuple[Any, ...]] = [
    ((1, 3, 5, 7), (5, 3, 3, 3), 1, (1, 1, 1, 1), 1, 1),
    ((2, 4, 6, 5), (6, 2, 3, 2), 2, (1, 0, 0, 1), 1, 2),
    ((1, 5, 3, 3), (7, 5, 1, 1), 1, (0, 0, 0, 0), 1, 1),
    ((1, 5, 7, 6), (3, 5, 1, 1), 2, (0, 0, 0, 0), 1, 1),
    ((1, 6, 9, 9), (6, 1, 3, 3), 2, (1, 1, 1, 1), 1, 6),
    ((1, 20, 3, 2), (9, 20, 2, 2), 1, (1, 1, 1, 1), 1, 1),
    ((1, 2, 8, 19), (4, 2, 3, 3), 3, (2, 2, 2, 2), 2, 1),
    ((1, 8, 4, 7), (8, 1, 1, 3), 3, (0, 1, 0, 1), 3, 8),
]


def close(x: np.ndarray, y: np.ndarray) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def arrays(case: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s, np.float32) for s in case[:2])
    (top, left, bottom, right), s, d = case[3], case[2], case[4]
    return x, w, np_conv(x, w, (s, s), ((top, left), (bottom, right)), (d, d), case[5])


@pytest.mark.parametrize("form", ["rows", "flat", "dots"])
@pytest.mark.parametrize("name", TARGETS)
def test_interpreted_in_each_form(name: str, form: str) -> None:
    for case in CASES:
        x, w, expected = arrays(case)
        kind = "conv2d_nchw" if case[5] == 1 else "DepthwiseConv2d" if case[1][1] == 1 else "group_conv2d_nchw"
        plan = KernelPlan(TARGETS[name], {f"{kind}.form": form})
        with plan:
            p, q = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
            made = nn.group_conv2d_nchw(p, q, case[2], case[3], case[4], case[5])
        f = schedule_kernel(te.create_prim_func([p, q, made]), plan.target, plan)
        assert not plan.unfit()
        y = np.zeros(expected.shape, np.float32)
        interp.run(f, [x, w, y])
        close(y, expected)


@pytest.mark.parametrize("shape, filters", [((8, 1, 35, 1), 358), ((1, 2, 20, 20), 45)])
@pytest.mark.parametrize("name", TARGETS)
def test_rows_of_images_fill_no_vector(name: str, shape: tuple[int, ...], filters: int) -> None:
    """The rows of a tile fill no vector where they are written, though they are what is contiguous there; nor are whole tiles
    of places whole vectors of each row."""
    x, w, expected = arrays((shape, (filters, shape[1], 1, 1), 1, (0, 0, 0, 0), 1, 1))
    kind = "DepthwiseConv2d" if shape[1] == 1 else "conv2d_nchw"
    plan = KernelPlan(TARGETS[name], {f"{kind}.form": "flat"})
    with plan:
        p, q = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
        made = te.create_prim_func([p, q, nn.conv2d_nchw(p, q, 1, 0, 1)])
    f = schedule_kernel(made, plan.target, plan)
    assert not plan.unfit()
    y = np.zeros(expected.shape, np.float32)
    interp.run(f, [x, w, y])
    close(y, expected)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
def test_compiled_on_random_sizes(target: str) -> None:
    rng = np.random.default_rng(11)
    functions, expected = {}, {}
    with Target(target) as t, KernelPlan(t):
        for number in range(30):
            groups = int(rng.choice([1, 1, 1, 2, 5]))
            i, o = (groups * int(rng.integers(1, 30)) for _ in range(2))
            if number % 6 == 5:
                groups = o = i
            k, pads = rng.integers(1, 5, 2), tuple(rng.integers(0, 3, 4).tolist())
            h, wd = (int(v) for v in rng.integers(8, 40, 2))
            case = (1, i, h, wd), (o, i // groups, *k), int(rng.integers(1, 4)), pads, int(rng.integers(1, 3)), groups
            p, q = te.placeholder(case[0], name="x"), te.placeholder(case[1], name="w")
            made = nn.relu(nn.group_conv2d_nchw(p, q, case[2], case[3], case[4], groups))
            f = te.create_prim_func([p, q, made]).with_attr("global_symbol", f"f{number}")
            functions[f"f{number}"] = schedule_kernel(f, t)
            expected[f"f{number}"] = arrays(case)
    library = tvm.build(tvm.IRModule(functions), target=target)
    for name, (x, w, y) in expected.items():
        got = tvm.nd.empty(y.shape)
        library[name](tvm.nd.array(x), tvm.nd.array(w), got)
        close(got.numpy(), np.maximum(y, 0))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("shape", "weight", "stride", "pads", "dilation", "extra", "groups"),
    [
        ((1, 3, 4, 5), (3, 2, 3, 3), 2, (1, 1, 1, 1), 1, 1, 1),
        ((2, 4, 5, 4), (4, 3, 2, 4), 1, (0, 1, 0, 1), 2, 0, 2),
        ((1, 3, 4, 4), (3, 5, 2, 2), 3, (0, 0, 0, 0), 1, 0, 1),
        ((1, 2, 5, 3), (2, 4, 3, 2), 2, (2, 0, 1, 0), 2, 0, 1),
        ((1, 2, 5), (2, 3, 4), 3, (1, 2), 1, 2, 1),
        ((2, 4, 3, 5), (4, 3, 1, 1), 2, (0, 0, 0, 0), 1, 1, 2),
        ((1, 2, 5, 3), (2, 4, 3, 3), 2, (3, 2, 2, 3), 4, 1, 1),
        ((1, 2, 5, 3), (2, 4, 2, 3), 3, (2, 0, 1, 0), 2, 2, 1),
        ((1, 2, 3, 2, 3), (2, 2, 3, 1, 2), 2, (1, 0, 0, 0, 0, 1), 1, 0, 1),
        ((1, 2, 3, 3, 9), (2, 1, 2, 2, 2), 4, (0, 1, 1, 0, 0, 0), 1, 1, 2),
        ((1, 3, 2, 9), (3, 2, 2, 3), 5, (0, 1, 0, 0), 3, 2, 1),
        ((1, 2, 7), (2, 2, 4), 4, (1, 1), 6, 3, 2),
        ((1, 2, 4, 19), (2, 3, 2, 2), 2, (2, 2, 2, 1), 1, 0, 1),
        ((1, 1, 3, 3), (1, 20, 2, 2), 1, (0, 0, 0, 0), 2, 1, 1),
        ((1, 2, 20), (2, 1, 9), 70, (3, 2), 1, 5, 1),
        ((1, 2, 1), (2, 3, 3), 3, (1, 6), 3, 2, 1),
    ],
)
def test_transposed_convolutions_become_convolutions(
    shape: Any, weight: Any, stride: int, pads: Any, dilation: int, extra: int, groups: int, constant: bool
) -> None:
    n = len(shape) - 2
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s, np.float32) for s in (shape, weight))
    ends = list(pads[:n]), list(pads[n:])
    expected = np_conv_transpose(x, w, [stride] * n, ends, [dilation] * n, [extra] * n, groups)
    p = relay.var("x", shape=shape)
    q = relay.const(w) if constant else relay.var("w", shape=weight)
    make = getattr(relay.nn, f"conv{n}d_transpose")
    call = make(
        p, q, strides=(stride,) * n, padding=pads, dilation=(dilation,) * n, output_padding=(extra,) * n, groups=groups,
        channels=weight[1] * groups, kernel_size=weight[2:],
    )  # fmt: skip
    mod = tvm.IRModule.from_expr(relay.Function([p] if constant else [p, q], call))
    assert "_transpose" not in str(relay.transform.TransposedConvolutions()(mod))
    executor = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    executor.run(x=x, **({} if constant else {"w": w}))
    close(executor.get_output(0).numpy(), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float64", "float16"])
def test_transposed_convolutions_of_other_types(dtype: str) -> None:
    rng = np.random.default_rng(9)
    x, w = (rng.integers(0, 9, s).astype(dtype) for s in ((1, 4, 5, 7), (4, 3, 2, 3)))
    wide = "int32" if "int" in dtype else dtype
    call = relay.nn.conv2d_transpose(
        relay.var("x", shape=x.shape, dtype=dtype), relay.const(w), strides=(3, 2), padding=(0, 1), dilation=(2, 3),
        output_padding=(1, 0), channels=6, groups=2, kernel_size=(2, 3), out_dtype=wide,
    )  # fmt: skip
    mod = tvm.IRModule.from_expr(call)
    assert "_transpose" not in str(relay.transform.TransposedConvolutions()(mod))
    executor = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    executor.run(x=x)
    expected = np_conv_transpose(x.astype(wide), w.astype(wide), (3, 2), ((0, 1), (0, 1)), (2, 3), (1, 0), 2)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), expected)


def test_phases_that_no_kernel_offset_meets_are_not_made() -> None:
    """Kernel offsets three places apart under windows that move by three; each group makes its own data, on its own thread."""
    with Target(TARGETS["avx512"]) as target, KernelPlan(target):
        x, w = te.placeholder((1, 928, 40, 10), name="x"), te.placeholder((16, 58, 1, 3), name="w")
        made = nn.group_conv2d_nchw(x, w, 3, (0, 1), 3, 16)
        script = schedule_kernel(te.create_prim_func([x, w, made]), target).script()
    assert "pad_phases = T.alloc_buffer((1, 928, 1, 1, 17, 4))" in script and "T.parallel(16)" in script


def test_windows_of_even_extents_are_read_in_vectors() -> None:
    """What is counted along channels and kernel offsets, and taken apart again, is one place in memory for each lane."""
    with Target(TARGETS["avx512"]) as target, KernelPlan(target):
        x, w = te.placeholder((1, 26, 3, 2), name="x"), te.placeholder((24, 26, 3, 2), name="w")
        f = schedule_kernel(te.create_prim_func([x, w, nn.conv2d_nchw(x, w, 1, 0, 1)]), target)
        script = tvm.lower(tvm.IRModule({"main": f})).script()
    assert "w_1.vload([T.Ramp(" in script and "T.Broadcast(3, 16)" not in script


def test_rows_without_gaps_are_the_result_as_it_lies() -> None:
    """An image of windows of one place is one row: no vector is cut off at the end of each."""
    with Target(TARGETS["avx512"]) as target, KernelPlan(target):
        x, w = te.placeholder((1, 4, 180, 180), name="x"), te.placeholder((1, 4, 1, 1), name="w")
        f = schedule_kernel(te.create_prim_func([x, w, nn.conv2d_nchw(x, w, 1, 0, 1)]), target)
        script = tvm.lower(tvm.IRModule({"main": f})).script()
    assert not [line for line in script.splitlines() if "predicate" in line and "T_places" not in line]


@pytest.mark.parametrize("groups", [1, 2])
def test_images_that_begin_within_vectors_are_copied(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = ((2, 64, 9, 9), (50 * groups, 64 // groups, 1, 1), 1, (0, 0, 0, 0), 1, groups)
    x, w, expected = arrays(case)
    with Target(TARGETS["avx512"]) as target, KernelPlan(target):
        monkeypatch.setattr(target.cpu, "core", target.cpu.core._replace(misplaced=1 << 13))
        p, q = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
        f = schedule_kernel(te.create_prim_func([p, q, nn.group_conv2d_nchw(p, q, 1, 0, 1, groups)]), target)
    assert "T_panels" in f.script()
    y = np.zeros(expected.shape, np.float32)
    interp.run(f, [x, w, y])
    close(y, expected)


def test_images_of_one_row_are_no_panels() -> None:
    """Planes and columns follow each other in memory, since there is one row between them."""
    x, w = relay.var("x", shape=(1, 24, 20, 2, 5)), np.ones((24, 1, 6, 1, 2), "float32")
    attributes = {"strides": (1, 2, 3), "padding": (5, 0, 0, 5, 0, 2), "dilation": (1, 2, 2)}
    call = relay.nn.conv3d(x, relay.const(w), groups=24, channels=24, kernel_size=(6, 1, 2), **attributes)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(call), "llvm -mcpu=x86-64")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    data = np.random.default_rng(0).integers(-9, 9, (1, 24, 20, 2, 5)).astype("float32")
    module.set_input("x", data)
    module.run()
    expected = np_conv(data, w, (1, 2, 3), ((5, 0, 0), (5, 0, 2)), (1, 2, 2), 24)
    np.testing.assert_array_equal(module.get_output(0).numpy(), expected)


def test_a_reduction_that_reads_nothing() -> None:
    k = te.reduce_axis((0, 3), name="k")
    made = te.compute((8, 16), lambda i, j: te.max(i * 16 + j - 7 * k.var, axis=k), name="top")
    out = tvm.nd.array(np.zeros((8, 16), "int32"))
    tvm.build(schedule_kernel(te.create_prim_func([made]), Target("llvm")), target="llvm")(out)
    np.testing.assert_array_equal(out.numpy(), np.arange(128).reshape(8, 16))
