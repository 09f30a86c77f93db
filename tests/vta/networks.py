"""Networks with random weights, from our own quantisation, from ONNX and from TFLite; on the accelerator and on the CPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import tilewright as tvm
from tests.vta.builders import Builder, Net, Shape, quantised
from tilewright import relay, rpc, vta
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.relay.functor import post_order
from tilewright.relay.rewriting import is_op
from tilewright.vta.testing import simulator
from tilewright.vta.top.partitioning import canonical, partitioned

Results = tuple[Any, ...]


def resnet(net: Builder, layers: int) -> Results:
    """ResNet-18, 34 or 50 (He et al. 2015)."""
    counts = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[layers]
    x = net.max_pool(net.conv(net.data, net.width(64), 7, 2), 3, 2, 1)
    for stage, count in enumerate(counts):
        for block in range(count):
            stride, inner = 2 if stage and not block else 1, net.width(64 << stage)
            outer = 4 * inner if layers == 50 else inner
            if layers == 50:
                y = net.conv(net.conv(x, inner, 1), inner, 3, stride)
                y = net.conv(y, outer, 1, act="")
            else:
                y = net.conv(net.conv(x, inner, 3, stride), outer, 3, act="")
            if stride != 1 or net.shape(x)[1] != outer:
                x = net.conv(x, outer, 1, stride, act="")
            x = net.add(y, x, "relu")
    return (net.head(x),)


def mobilenet_v1(net: Builder) -> Results:
    """MobileNetV1 (Howard et al. 2017)."""
    x = net.conv(net.data, net.width(32), 3, 2)
    for channels, stride in [
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
    ]:  # fmt: skip
        inner = net.shape(x)[1]
        x = net.conv(net.conv(x, inner, 3, stride, groups=inner), net.width(channels), 1)
    return (net.head(x),)


def mobilenet_v2(net: Builder) -> Results:
    """MobileNetV2 (Sandler et al. 2018)."""
    x = net.conv(net.data, net.width(32), 3, 2, act="relu6")
    for expand, channels, count, stride in [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ]:  # fmt: skip
        for n in range(count):
            inputs, outputs = net.shape(x)[1], net.width(channels)
            y = x if expand == 1 else net.conv(x, inputs * expand, 1, act="relu6")
            y = net.conv(y, inputs * expand, 3, stride if n == 0 else 1, groups=inputs * expand, act="relu6")
            y = net.conv(y, outputs, 1, act="")
            x = net.add(x, y) if inputs == outputs and (stride == 1 or n) else y
    return (net.head(net.conv(x, net.width(1280), 1, act="relu6")),)


def vgg16(net: Builder) -> Results:
    """VGG-16 (Simonyan and Zisserman 2014)."""
    x = net.data
    for channels, count in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        for _ in range(count):
            x = net.conv(x, net.width(channels), 3)
        x = net.max_pool(x, 2, 2)
    x = net.flatten(x)
    for _ in range(2):
        x = net.dense(x, net.width(4096), "relu")
    return (net.dense(x, 10),)


def squeezenet(net: Builder) -> Results:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""

    def fire(x: Any, squeezed: int, expanded: int) -> Any:
        x = net.conv(x, net.width(squeezed), 1)
        return net.concat([net.conv(x, net.width(expanded), 1), net.conv(x, net.width(expanded), 3)])

    x = net.max_pool(net.conv(net.data, net.width(64), 3, 2), 3, 2, ceil=True)
    x = net.max_pool(fire(fire(x, 16, 64), 16, 64), 3, 2, ceil=True)
    x = net.max_pool(fire(fire(x, 32, 128), 32, 128), 3, 2, ceil=True)
    for squeezed, expanded in [(48, 192), (48, 192), (64, 256), (64, 256)]:
        x = fire(x, squeezed, expanded)
    return (net.averaged(net.conv(x, 10, 1)),)


def inception_v1(net: Builder) -> Results:
    """Inception-v1, GoogLeNet (Szegedy et al. 2014)."""

    def mixed(x: Any, a: int, b: tuple[int, int], c: tuple[int, int], d: int) -> Any:
        branches = [net.conv(x, net.width(a), 1)]
        branches.append(net.conv(net.conv(x, net.width(b[0]), 1), net.width(b[1]), 3))
        branches.append(net.conv(net.conv(x, net.width(c[0]), 1), net.width(c[1]), 5))
        branches.append(net.conv(net.max_pool(x, 3, 1, 1), net.width(d), 1))
        return net.concat(branches)

    x = net.max_pool(net.conv(net.data, net.width(64), 7, 2), 3, 2, 1)
    x = net.max_pool(net.conv(net.conv(x, net.width(64), 1), net.width(192), 3), 3, 2, 1)
    x = net.max_pool(mixed(mixed(x, 64, (96, 128), (16, 32), 32), 128, (128, 192), (32, 96), 64), 3, 2, 1)
    for sizes in [
        (192, (96, 208), (16, 48), 64), (160, (112, 224), (24, 64), 64), (128, (128, 256), (24, 64), 64),
        (112, (144, 288), (32, 64), 64), (256, (160, 320), (32, 128), 128),
    ]:  # fmt: skip
        x = mixed(x, *sizes)
    x = net.max_pool(x, 3, 2, 1)
    for sizes in [(256, (160, 320), (32, 128), 128), (384, (192, 384), (48, 128), 128)]:
        x = mixed(x, *sizes)
    return (net.head(x),)


def detector(net: Builder) -> Results:
    """A detector like YOLO-tiny: pools between convolutions, and two maps of boxes, the finer one after an enlargement."""
    x, fine = net.data, None
    for channels in (16, 32, 64, 128, 256):
        x = net.conv(x, net.width(channels), 3)
        fine = x
        x = net.max_pool(x, 2, 2)
    x = net.conv(net.conv(x, net.width(512), 3), net.width(256), 1)
    coarse_boxes = net.conv(net.conv(x, net.width(512), 3), 24, 1, act="")
    enlarged = net.enlarge(net.conv(x, net.width(128), 1))
    y = net.conv(net.concat([enlarged, fine]), net.width(256), 3)
    return coarse_boxes, net.conv(y, 24, 1, act="")


def transformer_products(net: Builder, layers: int, inner: int) -> Results:
    """The dense layers of a transformer's blocks on the rows of a matrix: queries, keys and values, the projection, and the two of the
    feed-forward part, with residuals; then one for classes. A sum stands for the attention, so that a product reads what each one gives."""
    x = net.data
    hidden = net.shape(x)[1]
    for _ in range(layers):
        queries, keys = [net.dense(x, hidden) for _ in range(2)]
        values = net.dense(net.add(queries, keys), hidden)
        x = net.add(x, net.dense(values, hidden))
        x = net.add(x, net.dense(net.dense(x, inner, "relu"), hidden))
    return (net.dense(x, 10),)


class Network(NamedTuple):
    """How a network is made on a builder, the shape of its data, the factor of its channels."""

    make: Callable[..., Results]
    shape: Shape
    width: float = 1.0


def _pictures(
    make: Callable[..., Results], full: int, small: int, width: float
) -> tuple[Network, Callable[[int], Network]]:
    """A network for pictures, whose full size is for one."""
    return Network(make, (1, 3, full, full)), lambda batch: Network(make, (batch, 3, small, small), width)


NETWORKS: dict[str, tuple[Network, Callable[[int], Network]]] = {
    "ResNet-18": _pictures(partial(resnet, layers=18), 224, 32, 0.25),
    "ResNet-34": _pictures(partial(resnet, layers=34), 224, 32, 0.125),
    "ResNet-50": _pictures(partial(resnet, layers=50), 224, 32, 0.125),
    "MobileNetV1": _pictures(mobilenet_v1, 224, 32, 0.25),
    "MobileNetV2": _pictures(mobilenet_v2, 224, 32, 0.25),
    "VGG-16": _pictures(vgg16, 224, 32, 0.125),
    "SqueezeNet": _pictures(squeezenet, 224, 48, 0.25),
    "Inception-v1": _pictures(inception_v1, 224, 32, 0.125),
    "detector": _pictures(detector, 416, 64, 0.25),
    "ViT-Tiny": (
        Network(partial(transformer_products, layers=12, inner=768), (197, 192)),
        lambda batch: Network(partial(transformer_products, layers=1, inner=96), (8 * batch, 48)),
    ),
    "BERT-mini": (
        Network(partial(transformer_products, layers=4, inner=1024), (128, 256)),
        lambda batch: Network(partial(transformer_products, layers=2, inner=128), (4 * batch, 64)),
    ),
}
"""Networks in full, and small for a batch."""
FORMS = ("relay", "onnx", "tflite")


def network(name: str, form: str = "relay", batch: int = 1, full: bool = False, seed: int = 0) -> IRModule:
    """A network of integers. form: float32 that our own quantisation makes whole, a file of ONNX (QDQ), or one of TFLite."""
    whole, small = NETWORKS[name]
    made = whole if full else small(batch)
    if form == "relay":
        net = Net(made.shape, made.width, seed)
        return quantised(net.module(*made.make(net)))
    if form == "onnx":
        from tests.vta.onnx_builder import OnnxNet

        file: Builder = OnnxNet(made.shape, made.width, seed)
    else:
        from tests.vta.tflite_builder import TfliteNet

        file = TfliteNet(made.shape, made.width, seed)
    return file.module(*made.make(file))


class Reference(NamedTuple):
    """A module of integers, random inputs, and what the CPU makes of them."""

    mod: IRModule
    inputs: dict[str, Any]
    expected: list[Any]


class Outcome(NamedTuple):
    """kernels on the accelerator, and why other parts are not; whether all results are equal; seconds to partition and compile, and to
    run; steps of the array for convolutions, and cycles, which only the cycle-level simulator counts."""

    kernels: int
    refused: dict[str, int]
    equal: bool
    compile_seconds: float
    run_seconds: float
    steps: int
    cycles: int


def reference(mod: IRModule, seed: int = 0) -> Reference:
    """A module on the CPU, with random inputs."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for p in mod["main"].params:
        shape, dtype = [int(d) for d in p.type_annotation.shape], str(p.type_annotation.dtype)
        if dtype == "float32":
            inputs[p.name_hint] = rng.normal(0, 2, shape).astype(dtype)
        else:
            info = np.iinfo(dtype)
            inputs[p.name_hint] = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    expected, _ = _results(relay.build(mod, "llvm"), inputs, tvm.cpu(0))
    return Reference(mod, inputs, expected)


def _results(library: Any, inputs: dict[str, Any], *devices: Any) -> tuple[list[Any], float]:
    """The results, and seconds of a run."""
    module = graph_executor.GraphModule(library["default"](*devices))
    for name, value in inputs.items():
        module.set_input(name, value)
    begin = time.perf_counter()
    module.run()
    seconds = time.perf_counter() - begin
    return [module.get_output(n).numpy() for n in range(module.get_num_outputs())], seconds


def array_steps(parts: IRModule) -> int:
    """Steps of the array that the convolutions of a partitioned module are."""
    found = 0
    for e in post_order(parts["main"].body):
        if is_op(e, "nn.conv2d") and len(e.args[1].checked_type.shape) == 6:
            results, weights = ([int(n) for n in t.checked_type.shape] for t in (e, e.args[1]))
            found += math.prod([*results[:4], *weights[1:4]])
    return found


def compared_with(known: Reference, env: Any) -> Outcome:
    """Runs a module on the accelerator of an environment, and compares its results with the CPU's."""
    with env:
        vta.reconfig_runtime(rpc.LocalSession())
        begin = time.perf_counter()
        parts, work = partitioned(canonical(known.mod), None)
        targets: dict[Any, Any] = {tvm.cpu(0): "llvm", tvm.ext_dev(0): env.target}
        library = relay.build(parts, targets)
        compiling = time.perf_counter() - begin
        simulator.clear_stats()
        found, running = _results(library, known.inputs, tvm.cpu(0), tvm.ext_dev(0))
        cycles = int(simulator.stats().get("cycle_count", 0))
    equal = all([np.array_equal(a, b) for a, b in zip(found, known.expected, strict=True)])
    return Outcome(work.kernels, work.refused, equal, compiling, running, array_steps(parts), cycles)


def compared(mod: IRModule, env: Any, seed: int = 0) -> Outcome:
    """Runs a module of integers on the accelerator of an environment and on the CPU, with random inputs."""
    return compared_with(reference(mod, seed), env)
