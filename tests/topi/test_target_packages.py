"""Computes and schedules of topi's packages for targets: what tables declare works, with and without records."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import autotvm, te, tir, topi
from tilewright.codegen import interp

RNG = np.random.default_rng(13)
CPU, GPU = "llvm", tvm.target.Target("cuda", host="llvm")
T = topi.testing


def r(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


def run(
    target: Any, form: Callable[..., Any], schedule: Callable[..., Any], *arrays: np.ndarray[Any, Any]
) -> list[np.ndarray[Any, Any]]:
    """What a compute of tensors makes of arrays, by a schedule: compiled for processors, by the interpreter's threads for GPUs."""
    tensors = [te.placeholder(a.shape, str(a.dtype), f"x{k}") for k, a in enumerate(arrays)]
    with tvm.target.Target(target):
        made = form(*tensors)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        s = schedule(made)
    outs = [np.zeros([int(d) for d in t.shape], str(t.dtype)) for t in made]
    if target is CPU:
        held = [tvm.nd.array(o) for o in outs]
        tvm.build(s, [*tensors, *made], target)(*[tvm.nd.array(a) for a in arrays], *held)
        return [o.numpy() for o in held]
    with target:
        mod = tvm.lower(s, [*tensors, *made])
    for p in (
        tir.transform.BindTarget(target),
        tir.transform.ThreadSync("shared"),
        tir.transform.LowerThreadAllreduce(),
    ):
        mod = p(mod)
    interp.run(mod, [*arrays, *outs], entry="main", check_races=True)
    return outs


X, W = r(1, 4, 6, 6), r(8, 4, 3, 3)
H, HW = X.transpose(0, 2, 3, 1).copy(), W.transpose(2, 3, 1, 0).copy()
B, BW = RNG.integers(0, 9, (1, 8, 5, 5)).astype("uint8"), RNG.integers(-9, 9, (8, 8, 3, 3)).astype("int8")
V, VW = r(1, 4, 8), r(6, 4, 3)
C, CW = r(1, 2, 4, 4, 4), r(4, 2, 3, 3, 3)
AT = (1, 1, 1)


def conv() -> np.ndarray[Any, Any]:
    return T.conv2d_nchw_python(X, W, 1, 1)


def last(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.transpose(0, 2, 3, 1)


def bytes_in_blocks(block: int) -> np.ndarray[Any, Any]:
    y = T.conv2d_nchw_python(B.astype("int32"), BW.astype("int32"), 1, 1)
    return y.reshape(1, 8 // block, block, 5, 5).transpose(0, 1, 3, 4, 2)


CUDA: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], Callable[[], Any]]] = {
    "conv2d_nchw": ((X, W), (*AT, "float32"), conv),
    "conv2d_nchw_winograd": ((X, W), (*AT, "float32"), conv),
    "conv2d_nhwc_winograd_direct": ((H, HW), (*AT, "float32"), lambda: last(conv())),
    "conv2d_nhwc_tensorcore": ((H, HW), (*AT, "float32"), lambda: last(conv())),
    "conv2d_hwcn": ((X.transpose(2, 3, 1, 0).copy(), HW), (*AT, "float32"), lambda: conv().transpose(2, 3, 1, 0)),
    "conv2d_cudnn": ((X, W), (*AT, 1, "NCHW", "float32"), conv),
    "conv2d_NCHWc_int8": ((B, BW), (*AT, "NCHW", "int32"), lambda: bytes_in_blocks(4)),
    "conv1d_ncw": ((V, VW), (1, 1, 1, "float32"), lambda: T.conv1d_ncw_python(V, VW, 1, 1)),
    "conv3d_ncdhw": ((C, CW), (1, 1, 1, 1, "float32"), lambda: T.conv3d_ncdhw_python(C, CW, 1, 1)),
    "conv3d_ncdhw_winograd": ((C, CW), (1, 1, 1, 1, "float32"), lambda: T.conv3d_ncdhw_python(C, CW, 1, 1)),
    "group_conv2d_NCHWc_int8": (
        (B, BW[:, :4].copy()), (*AT, 2, "int32"),
        lambda: T.conv2d_nchw_python(B.astype("int32"), BW[:, :4].astype("int32"), 1, 1, 2).reshape(1, 2, 4, 5, 5).transpose(0, 1, 3, 4, 2),
    ),
    "conv2d_transpose_nchw": (
        (X, w := r(4, 3, 3, 3)), (2, 1, "float32", (1, 1)), lambda: T.conv2d_transpose_nchw_python(X, w, 2, 1, (1, 1)),
    ),
    "depthwise_conv2d_nchw": ((X, d := r(4, 1, 3, 3)), (*AT, "float32"), lambda: T.depthwise_conv2d_python_nchw(X, d, 1, 1)),
    "batch_matmul": ((b := r(2, 40, 16), c := r(2, 64, 16)), (), lambda: b @ c.transpose(0, 2, 1)),
    "dense_tensorcore": ((e := r(32, 16), f := r(64, 16)), (), lambda: e @ f.T),
    "correlation_nchw": ((X, y := r(1, 4, 6, 6)), (1, 1, 1, 1, 1, True), lambda: T.correlation_nchw_python(X, y, 1, 1, 1, 1, 1)),
    "scatter_via_sort": (
        (np.zeros((4, 3), np.float32), np.array([[1, 3, 1]], np.int32), np.ones((1, 3), np.float32)), (0, "add"),
        lambda: np.array([[0, 0, 0], [1, 0, 1], [0, 0, 0], [0, 1, 0]], np.float32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CUDA)
def test_templates_for_gpus(name: str) -> None:
    arrays, arguments, wanted = CUDA[name]
    schedule = getattr(topi.cuda, f"schedule_{name}")
    (found,) = run(GPU, lambda *t: getattr(topi.cuda, name)(*t, *arguments), schedule, *arrays)
    np.testing.assert_allclose(found, wanted(), rtol=1e-3, atol=1e-3)


S = np.array([[3, 1, 2, 1], [0, 5, 4, 9]], np.float32)
PROGRAMS: dict[str, tuple[tuple[Any, ...], dict[str, Any], Callable[[], Any]]] = {
    "sort": ((S,), {"axis": 1}, lambda: np.sort(S, 1)),
    "argsort": ((S,), {"axis": 1, "dtype": "int32"}, lambda: np.argsort(S, 1, kind="stable")),
    "sort_by_key": ((S, 10 * S), {"axis": 1}, lambda: [np.sort(S, 1), 10 * np.sort(S, 1)]),
    "topk": ((S,), {"k": 2, "axis": 1, "ret_type": "values"}, lambda: -np.sort(-S, 1)[:, :2]),
    "cumsum": ((S,), {"axis": 1}, lambda: np.cumsum(S, 1)),
    "exclusive_scan": ((S,), {"return_reduction": True}, lambda: [np.cumsum(S, 1) - S, S.sum(1)]),
    "inclusive_scan": ((S,), {}, lambda: np.cumsum(S, 1)),
    "searchsorted": (
        (np.sort(S, 1), S), {"right": True, "out_dtype": "int32"}, lambda: T.searchsorted_ref(np.sort(S, 1), S, True, "int32"),
    ),
    "scatter_elements": (
        (np.zeros((4, 3), np.float32), np.array([[1, 3, 1]], np.int32), np.ones((1, 3), np.float32)), {"axis": 0, "reduction": "update"},
        lambda: np.array([[0, 0, 0], [1, 0, 1], [0, 0, 0], [0, 1, 0]], np.float32),
    ),
    "invert_permutation": ((np.array([2, 0, 1], np.int32),), {}, lambda: np.array([1, 2, 0], np.int32)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_for_gpus(name: str) -> None:
    arrays, arguments, wanted = PROGRAMS[name]
    found = run(GPU, lambda *t: getattr(topi.cuda, name)(*t, **arguments), topi.cuda.schedule_injective, *arrays)
    for a, b in zip(found, wanted() if isinstance(wanted(), list) else [wanted()], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


X86: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], Callable[[], Any]]] = {
    "conv2d_NCHWc_int8": ((B, BW), (*AT, "NCHW", "NCHW", "int32"), lambda: bytes_in_blocks(8)),
    "conv2d_nchw_dnnl": ((X, W), (*AT, "float32"), conv),
    "conv3d_ndhwc": (
        (C.transpose(0, 2, 3, 4, 1).copy(), CW.transpose(2, 3, 4, 1, 0).copy()), (1, 1, 1, 1, "float32"),
        lambda: T.conv3d_ncdhw_python(C, CW, 1, 1).transpose(0, 2, 3, 4, 1),
    ),
    "dense_mkl": ((e, f), (None, "float32"), lambda: e @ f.T),
    "matmul_cblas": ((e, f.T.copy()), (), lambda: e @ f.T),
    "batch_matmul_mkl": ((b, c), (), lambda: b @ c.transpose(0, 2, 1)),
    "spconv2d_3x3_nchw": (
        (X, np.array([2, 3, 1], np.float32), np.array([4, 9, 13], np.int32), np.array([0, 1, 3], np.int32)), (),
        lambda: T.conv2d_nchw_python(X, sparse_kernel().reshape(2, 4, 3, 3), 1, 1),
    ),
    "spconv2d_3x3_nhwc": (
        (H, np.array([2, 3, 1], np.float32), np.array([4, 9, 13], np.int32), np.array([0, 1, 3], np.int32)), (),
        lambda: last(T.conv2d_nchw_python(X, sparse_kernel().reshape(2, 3, 3, 4).transpose(0, 3, 1, 2), 1, 1)),
    ),
}  # fmt: skip


def sparse_kernel() -> np.ndarray[Any, Any]:
    w = np.zeros((2, 36), np.float32)
    w[0, 4], w[1, 9], w[1, 13] = 2, 3, 1
    return w


@pytest.mark.parametrize("name", X86)
def test_templates_for_processors(name: str) -> None:
    arrays, arguments, wanted = X86[name]
    schedule = getattr(topi.x86, f"schedule_{name}")
    (found,) = run(CPU, lambda *t: getattr(topi.x86, name)(*t, *arguments), schedule, *arrays)
    np.testing.assert_allclose(found, wanted(), rtol=1e-4, atol=1e-4)


def test_winograd_of_weights_that_are_transformed() -> None:
    tensors = X, W

    def form(x: te.Tensor, w: te.Tensor) -> Any:
        weights = topi.nn.conv2d_winograd_nnpack_weight_transform(w, 3, "float32")
        return topi.arm_cpu.conv2d_nchw_winograd_nnpack_without_weight_transform(x, weights, None, *AT, "float32")

    schedule = topi.arm_cpu.schedule_conv2d_nchw_winograd_nnpack_without_weight_transform
    (found,) = run(CPU, form, schedule, *tensors)
    np.testing.assert_allclose(found, conv(), rtol=1e-2, atol=1e-2)


def test_a_record_chooses_the_loops() -> None:
    task = autotvm.task.create(
        "dense_small_batch.gpu",
        args=(("TENSOR", (64, 32), "float32"), ("TENSOR", (64, 32), "float32"), None, "float32"),
        target=GPU,
    )
    assert {"threads", "own", "deep"} == set(task.config_space.space_map)
    texts = set()
    for index in (0, len(task.config_space) - 1):
        with GPU:
            s, args = task.instantiate(task.config_space.get(index))
            texts.add(tvm.lower(s, args).script())
    assert len(texts) == 2


@pytest.mark.parametrize("package", ["cuda", "gpu", "x86", "arm_cpu", "generic"])
def test_every_name_says_what_it_takes(package: str) -> None:
    module = getattr(topi, package)
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value):
            assert value.__doc__, name
            assert inspect.signature(value).parameters, name


def test_generic_schedules_are_for_processors() -> None:
    x = te.placeholder((4, 4))
    made = topi.nn.relu(x)
    with GPU, pytest.raises(RuntimeError, match="topi.generic has schedules for processors, but the target is cuda"):
        topi.generic.schedule_injective([made])
    s = topi.generic.schedule_injective([topi.exp(made)])
    assert len(s[s.outputs[0]].leaf_iter_vars) == 1


def test_schedules_by_target() -> None:
    assert T.get_injective_schedule("cuda") is topi.cuda.schedule_injective
    assert T.get_reduce_schedule("llvm") is topi.x86.schedule_reduce
    T.compare_numpy_tvm([X], np.maximum(X, 0), "llvm", tvm.cpu(), topi.nn.relu, T.get_elemwise_schedule)
    compute, schedule = T.get_conv2d_nchw_implement("llvm")
    T.compare_numpy_tvm(
        [X, W], conv(), "llvm", tvm.cpu(), lambda x, w: compute(x, w, *AT, "float32"), lambda _: schedule
    )


def test_instructions_for_bytes() -> None:
    with tvm.target.Target("llvm -mcpu=skylake-avx512"):
        assert topi.x86.is_int8_hw_support("uint8", "int8") and not topi.x86.is_int8_hw_support("float32", "int8")
        x, y = te.placeholder((4, 64), "uint8"), te.placeholder((1, 32, 64), "int8")
        assert topi.x86.check_int8_applicable(x, y)


CLASSIC_IMPORTS = """
from tilewright.topi.nn.conv2d import conv2d_nchw, Workload
from tilewright.topi.nn.utils import get_pad_tuple
from tilewright.topi.nn.winograd_util import winograd_transform_matrices
from tilewright.topi.vision.ssd import multibox_prior
from tilewright.topi.vision.rcnn.proposal import proposal
from tilewright.topi.cuda.dense import dense_int8, schedule_dense_int8
from tilewright.topi.generic.injective import schedule_injective_from_existing
from tilewright.topi.x86.conv2d import schedule_conv2d_nhwc
from tilewright.topi.testing.conv2d_nchw_python import conv2d_nchw_python
from tilewright.topi.transform import one_hot, take
from tilewright.topi.argwhere import hybrid_argwhere_1d
from tilewright.topi.utils import get_const_tuple, traverse_inline
"""


@pytest.mark.parametrize("line", CLASSIC_IMPORTS.strip().splitlines())
def test_classic_imports(line: str) -> None:
    """Each is the first import of a program."""
    subprocess.run([sys.executable, "-c", line], check=True)
    subprocess.run([sys.executable, "-c", f"import tilewright.as_tvm\n{line.replace('tilewright', 'tvm')}"], check=True)
