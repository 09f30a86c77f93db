"""Operators that move data more than they compute, beside ONNX Runtime and torch: each alone, at one and two threads.

python -m benchmarks memory_bound [--threads 1,2] [--cases softmax,transpose] [--prepare]

Contestants take turns in one process, on the same inputs, in bursts; times are medians of the bursts' fastest runs, ratios are to the
better peer. Each run of each contestant writes to a new tensor of torch's allocator, while the one of the run before it still stands.
Results are compared. --prepare only compiles, into the cache.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper

import tilewright as tvm
from benchmarks.options import takes_json, thread_counts, write_json
from tilewright import relay, runtime

OPSET, BURSTS, CALLS, REST = 21, 15, 12, 0.01
"""CALLS of a burst; before each, REST: seconds in which threads of the contestant before it stop to spin."""


class Case(NamedTuple):
    """An operator as ONNX nodes (from inputs x0, x1, .. and constants to y) and as a function of torch."""

    nodes: Sequence[Any]
    shapes: Sequence[Sequence[int]]
    torch: Callable[..., Any]
    constants: dict[str, np.ndarray] = {}
    ints: int = 0
    """Where positive: inputs are int64 indices below it."""


def node(kind: str, inputs: str = "x0", output: str = "y", **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), output.split(), **attributes)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(np.float32)


def reduction(kind: str, shape: Sequence[int], axes: Sequence[int], f: Callable[..., Any]) -> Case:
    return Case([node(kind, "x0 axes", keepdims=0)], [shape], lambda x: f(x, dim=tuple(axes)), {"axes": ints(*axes)})


def layer_norm(rows: int, size: int) -> Case:
    w, b = random(size), random(size + 1)[:size].copy()
    tw, tb = torch.from_numpy(w), torch.from_numpy(b)
    return Case(
        [node("LayerNormalization", "x0 w b")],
        [(rows, size)],
        lambda x: F.layer_norm(x, (size,), tw, tb),
        {"w": w, "b": b},
    )


def rms_norm(rows: int, size: int) -> Case:
    w = random(size)
    tw = torch.from_numpy(w)
    nodes = [
        node("Mul", "x0 x0", "s"), node("ReduceMean", "s axes", "m"), node("Add", "m eps", "e"), node("Sqrt", "e", "r"),
        node("Div", "x0 r", "d"), node("Mul", "d w"),
    ]  # fmt: skip
    constants = {"axes": ints(-1), "eps": np.array(1e-5, np.float32), "w": w}
    return Case(nodes, [(rows, size)], lambda x: F.rms_norm(x, (size,), tw, 1e-5), constants)


def group_norm(shape: Sequence[int], groups: int) -> Case:
    w, b = random(shape[1]), random(shape[1] + 1)[: shape[1]].copy()
    tw, tb = torch.from_numpy(w), torch.from_numpy(b)
    if groups == shape[1]:
        nodes = [node("InstanceNormalization", "x0 w b")]
        return Case(nodes, [shape], lambda x: F.instance_norm(x, weight=tw, bias=tb), {"w": w, "b": b})
    nodes = [node("GroupNormalization", "x0 w b", num_groups=groups)]
    return Case(nodes, [shape], lambda x: F.group_norm(x, groups, tw, tb), {"w": w, "b": b})


def transpose(shape: Sequence[int], perm: Sequence[int]) -> Case:
    return Case([node("Transpose", perm=list(perm))], [shape], lambda x: x.permute(*perm).contiguous())


def concat(shapes: Sequence[Sequence[int]], axis: int) -> Case:
    names = " ".join([f"x{k}" for k in range(len(shapes))])
    return Case([node("Concat", names, axis=axis)], shapes, lambda *x: torch.cat(x, axis))


def resize(shape: Sequence[int], mode: str) -> Case:
    scales = np.array([1, 1, 2, 2], np.float32)

    smooth = mode == "bilinear"
    transformation = "half_pixel" if smooth else "asymmetric"
    nodes = [
        helper.make_node(
            "Resize", ["x0", "", "scales"], ["y"], mode="linear" if smooth else mode, nearest_mode="floor",
            coordinate_transformation_mode=transformation)
    ]  # fmt: skip
    return Case(nodes, [shape], lambda x: F.interpolate(x, scale_factor=2, mode=mode), {"scales": scales})


def cases() -> dict[str, Case]:
    """All cases by name."""
    table = torch.from_numpy(random(30522, 768))
    return {
        "softmax 128x1000": Case([node("Softmax", axis=-1)], [(128, 1000)], lambda x: F.softmax(x, -1)),
        "softmax 12x128x128": Case([node("Softmax", axis=-1)], [(12, 128, 128)], lambda x: F.softmax(x, -1)),
        "softmax 197x197 odd": Case([node("Softmax", axis=-1)], [(12, 197, 197)], lambda x: F.softmax(x, -1)),
        "softmax axis 1": Case([node("Softmax", axis=1)], [(1, 21, 128, 128)], lambda x: F.softmax(x, 1)),
        "log_softmax 64x5003": Case([node("LogSoftmax", axis=-1)], [(64, 5003)], lambda x: F.log_softmax(x, -1)),
        "layer_norm 128x768": layer_norm(128, 768),
        "layer_norm 50x333 odd": layer_norm(50, 333),
        "rms_norm 128x2048": rms_norm(128, 2048),
        "group_norm 1x320x32x32": group_norm((1, 320, 32, 32), 32),
        "instance_norm 1x64x56x56": group_norm((1, 64, 56, 56), 64),
        "sum first 1024x512": reduction("ReduceSum", (1024, 512), (0,), torch.sum),
        "sum first 777x333 odd": reduction("ReduceSum", (777, 333), (0,), torch.sum),
        "sum middle 32x64x256": reduction("ReduceSum", (32, 64, 256), (1,), torch.sum),
        "sum last 1024x1000": reduction("ReduceSum", (1024, 1000), (1,), torch.sum),
        "sum last 4096x37 odd": reduction("ReduceSum", (4096, 37), (1,), torch.sum),
        "sum all 1024x1024": reduction("ReduceSum", (1024, 1024), (0, 1), torch.sum),
        "mean spatial 256x56x56": reduction("ReduceMean", (1, 256, 56, 56), (2, 3), torch.mean),
        "max last 1024x1000": reduction("ReduceMax", (1024, 1000), (1,), torch.amax),
        "argmax last 128x1000": Case([node("ArgMax", axis=-1, keepdims=0)], [(128, 1000)], lambda x: x.argmax(-1)),
        "argmax axis 1": Case([node("ArgMax", axis=1, keepdims=0)], [(1, 21, 128, 128)], lambda x: x.argmax(1)),
        "embedding 128 of 30522x768": Case(
            [node("Gather", "table x0")], [(128,)], lambda i: F.embedding(i, table), {"table": table.numpy()}, 30522
        ),
        "transpose 1024x1024": transpose((1024, 1024), (1, 0)),
        "transpose 333x517 odd": transpose((333, 517), (1, 0)),
        "transpose heads 128x12x64": transpose((1, 128, 12, 64), (0, 2, 1, 3)),
        "transpose heads to columns": transpose((1, 128, 12, 64), (0, 2, 3, 1)),
        "transpose NCHW to NHWC": transpose((1, 256, 56, 56), (0, 2, 3, 1)),
        "transpose NHWC to NCHW": transpose((1, 56, 56, 256), (0, 3, 1, 2)),
        "transpose 3 to 1": transpose((64, 96, 80), (2, 1, 0)),
        "concat channels": concat([(1, 64, 56, 56)] * 4, 1),
        "concat last 96+96+96": concat([(1024, 96)] * 3, 1),
        "concat last 7+33 odd": concat([(4096, 7), (4096, 33)], 1),
        "resize nearest": resize((1, 64, 64, 64), "nearest"),
        "resize bilinear": resize((1, 64, 64, 64), "bilinear"),
        "max_pool 3x3 s2": Case(
            [node("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])], [(1, 64, 112, 112)],
            lambda x: F.max_pool2d(x, 3, 2, 1)),
        "avg_pool 3x3 s1": Case(
            [node("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)], [(1, 64, 56, 56)],
            lambda x: F.avg_pool2d(x, 3, 1, 1)),
        "global_avg_pool 2048x7x7": Case([node("GlobalAveragePool")], [(1, 2048, 7, 7)], lambda x: F.adaptive_avg_pool2d(x, 1)),
        "lrn 64x56x56": Case(
            [node("LRN", size=5, alpha=1e-4, beta=0.75)], [(1, 64, 56, 56)],
            lambda x: F.local_response_norm(x, 5, 1e-4, 0.75, 1.0)),
        "gelu 128x3072": Case([node("Gelu")], [(128, 3072)], F.gelu),
        "gelu tanh 128x3072": Case(
            [node("Gelu", approximate="tanh")], [(128, 3072)], lambda x: F.gelu(x, approximate="tanh")),
        "silu 96x112x112": Case([node("Sigmoid", "x0", "s"), node("Mul", "x0 s")], [(1, 96, 112, 112)], F.silu),
        "hard_swish 96x112x112": Case([node("HardSwish")], [(1, 96, 112, 112)], F.hardswish),
        "softplus 128x3072": Case([node("Softplus")], [(128, 3072)], F.softplus),
        "add rows 128x3072": Case([node("Add", "x0 x1")], [(128, 3072), (3072,)], torch.add),
        "mul channels 256x56x56": Case([node("Mul", "x0 x1")], [(1, 256, 56, 56), (1, 256, 1, 1)], torch.mul),
        "add 1M": Case([node("Add", "x0 x1")], [(1024, 1024)] * 2, torch.add),
        "pad 64x56x56": Case(
            [node("Pad", "x0 pads")], [(1, 64, 56, 56)], lambda x: F.pad(x, (1, 1, 1, 1)), {"pads": ints(0, 0, 1, 1, 0, 0, 1, 1)}),
        "slice every 2nd": Case(
            [node("Slice", "x0 from to axes steps")], [(1, 128, 56, 56)], lambda x: x[:, :, ::2, ::2].contiguous(),
            {"from": ints(0, 0), "to": ints(56, 56), "axes": ints(2, 3), "steps": ints(2, 2)}),
    }  # fmt: skip


def model(case: Case) -> onnx.ModelProto:
    kind = TensorProto.INT64 if case.ints else TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info(f"x{k}", kind, list(s)) for k, s in enumerate(case.shapes)]
    constants = [numpy_helper.from_array(v, name) for name, v in case.constants.items()]
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(list(case.nodes), "case", inputs, [output], constants)
    opset = 20 if any([n.op_type == "Gelu" for n in case.nodes]) else OPSET
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(proto)


def compiled(proto: onnx.ModelProto) -> Any:
    mod, params = relay.frontend.from_onnx(proto)
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, "llvm", params=params)


class Contestant(NamedTuple):
    """A run, and what gives it the tensor of its output before, untimed; None where the run makes its own."""

    run: Callable[[], Any]
    bind: Callable[[torch.Tensor], Any] | None = None


class Contest:
    """One case: contestants by name, at a number of threads."""

    def __init__(self, case: Case, threads: int) -> None:
        rng = np.random.default_rng(0)
        draw = lambda s: rng.integers(0, case.ints, s) if case.ints else rng.standard_normal(s).astype("float32")  # noqa: E731
        self.inputs = [np.ascontiguousarray(draw(tuple(s))) for s in case.shapes]
        self.threads = threads
        proto = model(case)
        tensors = [torch.from_numpy(x) for x in self.inputs]
        wanted = case.torch(*tensors)
        self.contestants = {
            "ours": self._ours(proto),
            "onnxruntime": self._onnxruntime(proto),
            "torch": Contestant(lambda: case.torch(*tensors)),
        }
        self.outputs = dict.fromkeys(self.contestants, wanted)
        for name in self.contestants:
            self.run(name)
            np.testing.assert_allclose(self.outputs[name].numpy(), wanted.numpy(), rtol=2e-3, atol=2e-4, err_msg=name)
        self.times: dict[str, list[float]] = {name: [] for name in self.contestants}

    def _ours(self, proto: onnx.ModelProto) -> Contestant:
        executor = compiled(proto)["default"](tvm.cpu())
        for k, x in enumerate(self.inputs):
            executor["set_input"](f"x{k}", x)
        place = executor["set_output_zero_copy"]
        return Contestant(executor["run"], lambda out: place(0, tvm.nd.from_dlpack(out)))

    def _onnxruntime(self, proto: onnx.ModelProto) -> Contestant:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for k, x in enumerate(self.inputs):
            binding.bind_cpu_input(f"x{k}", x)

        def bind(out: torch.Tensor) -> None:
            binding.bind_output("y", "cpu", 0, out.numpy().dtype, tuple(out.shape), out.data_ptr())

        return Contestant(lambda: session.run_with_iobinding(binding), bind)

    def run(self, name: str) -> float:
        """The seconds of a run of a contestant, whose output is a new tensor."""
        run, bind = self.contestants[name]
        last = self.outputs[name]
        out = None
        if bind is not None:
            out = torch.empty(last.shape, dtype=last.dtype)
            bind(out)
        began = time.perf_counter()
        made = run()
        seconds = time.perf_counter() - began
        self.outputs[name] = made if out is None else out
        return seconds

    def burst(self) -> None:
        for name, found in self.times.items():
            if name == "ours":
                runtime.set_num_threads(self.threads)
            if name == "torch":
                torch.set_num_threads(self.threads)
            time.sleep(REST)
            found.append(min([self.run(name) for _ in range(CALLS)]))

    def medians(self) -> dict[str, float]:
        return {name: statistics.median(found) * 1e6 for name, found in self.times.items()}


def main(argv: list[str] | None = None) -> int:
    return compare(argv, "memory_bound", __doc__, cases())


def compare(argv: list[str] | None, name: str, description: str | None, cases: dict[str, Case]) -> int:
    """Prints the table of a benchmark's cases, by number of threads."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=description)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--cases", default="", help="parts of names, between commas")
    parser.add_argument("--prepare", action="store_true")
    takes_json(parser)
    args = parser.parse_args(argv)
    results = []
    wanted = {n: c for n, c in cases.items() if not args.cases or any([part in n for part in args.cases.split(",")])}
    if not wanted:
        parser.error(f"no case has a part of {args.cases!r} in its name; there are {', '.join(cases)}")
    counts = thread_counts(parser, args.threads)
    if args.prepare:
        for case in wanted.values():
            compiled(model(case))
        return 0
    for threads in counts:
        torch.set_num_threads(threads)
        print(f"\n{threads} threads, microseconds, medians of {BURSTS} bursts")
        print(f"{'operator':34}{'ours':>9}{'ORT':>9}{'torch':>9}{'/ best':>8}")
        ratios = []
        for operator, case in wanted.items():
            contest = Contest(case, threads)
            for _ in range(BURSTS):
                contest.burst()
            found = contest.medians()
            ratio = found["ours"] / min(found["onnxruntime"], found["torch"])
            ratios.append(ratio)
            results.append({"operator": operator, "threads": threads, "us": found, "ratio": ratio})
            print(
                f"{operator:34}{found['ours']:9.1f}{found['onnxruntime']:9.1f}{found['torch']:9.1f}{ratio:8.2f}",
                flush=True,
            )
        print(
            f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}, {sum(r > 1 for r in ratios)} of {len(ratios)} behind"
        )
    write_json(args, results)
    return 0
