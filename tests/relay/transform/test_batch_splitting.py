"""SplitBatch: operators that work on each image alone (all samples of all cards), the layers for which a batch is split, and equal
results in less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay_op.test_cards import make_input
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule, TupleType
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.cards.card import cards
from tilewright.relay.functor import post_order
from tilewright.relay.transform.memory.batch_splitting import of_images
from tilewright.relay.typing.infer_type import infer_types
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import OpError, TVMError

SMALL = "llvm -num-cores=1 -l3-cache-bytes=2097152"
LARGE = "llvm -num-cores=1 -l3-cache-bytes=1073741824"
CONV = {"kernel_size": (3, 3), "padding": (1, 1)}
IMAGES = 3


def of_a_batch(given: Any, rng: np.random.Generator) -> Any:
    """An operand for several images, each different."""
    if isinstance(given, tuple):
        return tuple([of_a_batch(g, rng) for g in given])
    return np.concatenate([rng.permutation(given[:1].reshape(-1)).reshape(given[:1].shape) for _ in range(IMAGES)])


def piece(given: Any, i: int) -> Any:
    return tuple([piece(g, i) for g in given]) if isinstance(given, tuple) else given[i : i + 1]


def function_of(card: Any, arrays: list[Any], attrs: Any) -> relay.Function | None:
    """A primitive function of the call on such operands; None where there is none."""
    params = [
        relay.Tuple([relay.var(f"p{i}_{k}", shape=x.shape, dtype=x.dtype.name) for k, x in enumerate(a)])
        if isinstance(a, tuple)
        else relay.var(f"p{i}", shape=a.shape, dtype=a.dtype.name)
        for i, a in enumerate(arrays)
    ]
    try:
        call = card.call(params, attrs)
        flat = [v for p in params for v in (p.fields if isinstance(p, relay.Tuple) else [p])]
        func = relay.Function(flat, call, None, (), {"Primitive": 1})
        infer_types(func)
    except (OpError, TVMError, TypeError, ValueError):
        return None
    return func


def test_what_works_on_each_image_alone() -> None:
    """What is said to work on each image alone answers for one what it returns for it among others."""
    found: set[str] = set()
    for key, card in sorted(cards().items()):
        for inputs, attrs in card.samples:
            rng = np.random.default_rng(1)
            arrays = [make_input(s, rng) for s in inputs]
            for batched in ([i == 0 for i in range(len(arrays))], [True] * len(arrays)):
                first = [a if isinstance(a, tuple) else (a,) for a, b in zip(arrays, batched, strict=True) if b]
                if not first or any([np.ndim(x) == 0 or np.size(x) == 0 for a in first for x in a]):
                    continue
                given = [of_a_batch(a, rng) if b else a for a, b in zip(arrays, batched, strict=True)]
                func = function_of(card, given, attrs)
                flat = [b for a, b in zip(given, batched, strict=True) for _ in (a if isinstance(a, tuple) else (a,))]
                made = None if func is None else of_images(func, flat, 1)
                if func is None or made is None:
                    continue
                whole = func.body.attrs.ref(*given)
                for i in range(IMAGES):
                    alone = made.body.attrs.ref(*[piece(a, i) if b else a for a, b in zip(given, batched, strict=True)])
                    np.testing.assert_allclose(alone, whole[i : i + 1], 1e-5, 1e-5, err_msg=key)
                found.add(key)
    layers = {"nn.conv2d", "nn.contrib_conv2d_NCHWc", "nn.max_pool2d", "nn.global_avg_pool2d", "mean"}
    assert found >= layers | {
        "add",
        "nn.relu",
        "clip",
        "nn.bias_add",
        "concatenate",
        "layout_transform",
        "strided_slice",
    }
    assert not found & {
        "reverse",
        "cumsum",
        "nn.dense",
        "transpose",
        "reshape",
        "nn.correlation",
        "vision.roi_align",
    }


def network(batch: int, begin: Any = None, end: Any = None) -> tuple[IRModule, np.ndarray]:
    """Two convolutions of 256 KB an image, a residual and a pool, what comes before and after, and a dense layer, which is for all
    images at once."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(batch, 3, 32, 32))
    first = x if begin is None else begin(x)
    a = relay.nn.relu(relay.nn.conv2d(first, relay.const(rng.standard_normal((64, 3, 3, 3), "float32")), **CONV))
    b = relay.nn.conv2d(a, relay.const(rng.standard_normal((64, 64, 1, 1), "float32") / 8), kernel_size=(1, 1))
    c = relay.nn.max_pool2d(relay.add(a, relay.nn.relu(b)), (2, 2), (2, 2))
    d = c if end is None else end(c)
    e = relay.nn.dense(
        relay.nn.batch_flatten(relay.nn.global_avg_pool2d(d)), relay.const(rng.standard_normal((10, 64), "float32"))
    )
    return IRModule.from_expr(relay.Function([x], e)), rng.standard_normal((batch, 3, 32, 32), "float32")


def images_of(mod: IRModule) -> list[int]:
    """How many images each kernel works on, in order."""
    found = []
    for e in post_order(mod["main"].body, skip=lambda e: isinstance(e, relay.Function)):
        if isinstance(e, relay.Call):
            t = e.checked_type
            found.append((t.fields[0] if isinstance(t, TupleType) else t).concrete_shape[0])
    return found


def optimized(mod: IRModule, target: str) -> IRModule:
    with tvm.transform.PassContext(opt_level=3):
        return relay.optimize(mod, target)[0]


def test_layers_run_for_some_images_at_a_time() -> None:
    """As many images at a time as threads. The layers after the last large one run for the whole batch."""
    mod, _ = network(8)
    assert set(images_of(optimized(mod, LARGE))) == {8}
    after = optimized(mod, SMALL)
    found = images_of(after)
    split = found.count(1)
    assert split > 16 and found[:split] == [1] * split and set(found[split:]) == {8}
    assert list_op_freqs(after)["concatenate"] == 1 and "split" not in list_op_freqs(after)


@pytest.mark.parametrize("cores", [2, 4])
def test_images_of_threads(cores: int) -> None:
    """One for each of two threads; of four not all fit."""
    found = images_of(optimized(network(8)[0], f"llvm -num-cores={cores} -l3-cache-bytes=2097152"))
    assert found.count(2) > 8 and set(found) == {2, 8}


@pytest.mark.parametrize(
    ("batch", "begin"),
    [
        (1, lambda x: x),
        # The first layer reads other images.
        (8, lambda x: relay.reverse(x, 0)),
        (8, lambda x: relay.cumsum(x, 0)),
        (8, lambda x: relay.nn.softmax(x, 0)),
        (8, lambda x: relay.reshape(x, (8, 3, 32, 32)) + relay.const(np.ones((8, 1, 1, 1), "float32"))),
    ],
)
def test_batches_that_are_not_split(batch: int, begin: Any) -> None:
    mod, _ = network(batch, begin)
    assert set(images_of(optimized(mod, SMALL))) == {batch}


def test_small_images_with_large_weights_stay_whole() -> None:
    """Reading the weights again for every part of the batch would cost more than keeping the tensors in cache saves."""
    rng = np.random.default_rng(0)
    x: Any = relay.var("x", shape=(4, 256, 8, 8))
    body = x
    for _ in range(4):
        body = relay.nn.relu(
            relay.nn.conv2d(body, relay.const(rng.standard_normal((256, 256, 3, 3), "float32")), **CONV)
        )
    mod = IRModule.from_expr(relay.Function([x], body))
    assert set(images_of(optimized(mod, "llvm -num-cores=1 -l3-cache-bytes=1048576"))) == {4}


@pytest.mark.parametrize(
    "end",
    [
        None,
        lambda c: c + relay.sum(c, 0, keepdims=True),
        lambda c: relay.nn.pad(c, ((0, 0), (0, 0), (1, 1), (0, 0)), 2.0),
    ],
)
def test_same_results_in_less_memory(end: Any, tmp_path: Path) -> None:
    """In the graph executor, in a library and in the virtual machine."""
    mod, data = network(8, end=end)
    found: dict[str, np.ndarray[Any, Any]] = {}
    arenas, kernels = [], []
    for target in (SMALL, LARGE):
        with tvm.transform.PassContext(opt_level=3):
            library = relay.build(mod, target=target)
            machine = VirtualMachine(relay.vm.compile(mod, target=target), tvm.cpu())
        library.export_library(str(tmp_path / "library.so"))
        loaded = tvm.runtime.load_module(str(tmp_path / "library.so"))
        for name, made in (("graph", library["default"]), ("library", loaded["default"])):
            executor = graph_executor.GraphModule(made(tvm.cpu()))
            executor.set_input("x", data)
            executor.run()
            found[f"{name} {target}"] = executor.get_output(0).numpy()
        found[f"machine {target}"] = machine.run(data).numpy()
        arenas.append(library.plan.workspace_bytes)
        kernels.append([c.kernel.name for c in library.plan.calls])
    want = relay.create_executor("debug", mod).evaluate()(data).numpy()
    for name, value in found.items():
        np.testing.assert_allclose(value, want, 1e-4, 1e-4, err_msg=name)
    assert arenas[0] < 0.6 * arenas[1]
    assert len(kernels[0]) > 3 * len(kernels[1])


def test_programs_that_call_functions_of_their_own() -> None:
    """Types of such calls are known only together with the functions."""
    x, i = relay.var("x", shape=(4, 3, 8)), relay.var("i", shape=(), dtype="int32")
    loop = relay.GlobalVar("loop")
    again = loop(relay.tanh(x), relay.subtract(i, relay.const(1)))
    mod = IRModule({loop: relay.Function([x, i], relay.If(relay.less(i, relay.const(1)), x, again), x.type_annotation)})
    y = relay.var("y", shape=(4, 3, 8))
    mod["main"] = relay.Function([y], relay.nn.softmax(loop(y, relay.const(3))))
    data = np.random.default_rng(0).standard_normal((4, 3, 8), "float32")
    machine = VirtualMachine(relay.vm.compile(mod, target=SMALL), tvm.cpu())
    want = np.exp(np.tanh(np.tanh(np.tanh(data))))
    np.testing.assert_allclose(machine.run(data).numpy(), want / want.sum(-1, keepdims=True), 1e-5, 1e-6)
