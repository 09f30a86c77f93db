"""A back end that sends a subset of operators to NumPy: parts of a network become Python functions over arrays.

Copy it for a library that is called from Python. The generator writes a function of Python source for each part, which gets
the tensors of the program as arrays over the same memory, reads the first and writes the last. A library that is exported
with such parts holds their source and constants as data, and makes them again when it is loaded (`load`).
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import relay

NAME = "byoc_numpy"

# ---- operators: a call and the names of its operands to an expression of NumPy


def dense(call: relay.Call, x: str, w: str) -> str:
    return f"np.matmul({x}, {w}.T)"


def softmax(call: relay.Call, x: str) -> str:
    return f"(lambda e: e / e.sum(axis={call.attrs.axis}, keepdims=True))(np.exp({x} - {x}.max(axis={call.attrs.axis}, keepdims=True)))"


def bias_add(call: relay.Call, x: str, b: str) -> str:
    ndim = len(call.args[0].checked_type.shape)
    trailing = ndim - call.attrs.axis % ndim - 1
    return f"{x} + {b}.reshape({(-1, *[1] * trailing)})"


def split(call: relay.Call, x: str) -> str:
    parts = call.attrs.indices_or_sections
    return f"np.split({x}, {parts if isinstance(parts, int) else tuple(parts)}, axis={call.attrs.axis})"


def elementwise(function: str) -> Callable[..., str]:
    return lambda call, *operands: f"{function}({', '.join(operands)})"


OPERATORS: dict[str, Callable[..., str]] = {
    "add": elementwise("np.add"),
    "subtract": elementwise("np.subtract"),
    "multiply": elementwise("np.multiply"),
    "divide": elementwise("np.divide"),
    "maximum": elementwise("np.maximum"),
    "minimum": elementwise("np.minimum"),
    "exp": elementwise("np.exp"),
    "tanh": elementwise("np.tanh"),
    "sqrt": elementwise("np.sqrt"),
    "nn.relu": lambda call, x: f"np.maximum({x}, 0)",
    "nn.dense": dense,
    "nn.bias_add": bias_add,
    "nn.softmax": softmax,
    "split": split,
    "transpose": lambda call, x: f"np.transpose({x}, {tuple(call.attrs.axes) if call.attrs.axes else None})",
    "concatenate": lambda call, *xs: f"np.concatenate([{', '.join(xs)}], axis={call.attrs.axis})",
}


def floats(call: relay.Call) -> bool:
    return all(
        [str(a.checked_type.dtype) == "float32" for a in call.args if isinstance(a.checked_type, relay.TensorType)]
    )


for _name in OPERATORS:
    tvm.ir.register_op_attr(_name, f"target.{NAME}", floats)


# ---- the generator


class Writer(relay.ExprVisitor):
    """Writes one function; a visit answers the name of a value, or names in a list for a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[str] = []

    def parameter(self, t: relay.Type) -> Any:
        if isinstance(t, relay.TupleType):
            return [self.parameter(f) for f in t.fields]
        self.inputs.append(f"in{len(self.inputs)}")
        return self.inputs[-1]

    def visit_constant(self, const: relay.Constant) -> str:
        name = f"const{len(self.constants)}"
        self.constants[name] = const.data.numpy()
        return name

    def visit_tuple(self, tup: relay.Tuple) -> list[Any]:
        return [self.visit(f) for f in tup.fields]

    def visit_tuple_getitem(self, t: relay.TupleGetItem) -> Any:
        return self.visit(t.tuple_value)[t.index]

    def visit_call(self, call: relay.Call) -> Any:
        operands = flat([self.visit(a) for a in call.args])
        expression = OPERATORS[call.op.name](call, *operands)
        if isinstance(call.checked_type, relay.TupleType):
            names = [f"v{len(self.lines)}_{i}" for i in range(len(call.checked_type.fields))]
            self.lines.append(f"{', '.join(names)} = {expression}")
            return names
        self.lines.append(f"v{len(self.lines)} = {expression}")
        return f"v{len(self.lines) - 1}"


def flat(value: Any) -> list[Any]:
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


def write(func: relay.Function) -> tuple[str, dict[str, np.ndarray]]:
    """(source, constants) of a function."""
    writer = Writer()
    for p in func.params:
        writer.memo_map[p] = writer.parameter(p.checked_type)
    results = flat(writer.visit(func.body))
    outputs = [f"out{i}" for i in range(len(results))]
    lines = [*writer.lines, *[f"{o}[...] = {r}" for o, r in zip(outputs, results, strict=True)]]
    params = ", ".join([*writer.inputs, *outputs])
    head = f"def {func.attrs['global_symbol']}({params}):"
    return "\n".join([head, *[f"    {line}" for line in lines], ""]), writer.constants


def module(source: str, constants: Mapping[str, np.ndarray]) -> tvm.runtime.Module:
    """The runtime module of a function's source."""
    space: dict[str, Any] = {"np": np, **constants}
    exec(compile(source, f"<{NAME}>", "exec"), space)
    symbol = source.removeprefix("def ").partition("(")[0]

    def run(*tensors: tvm.nd.NDArray) -> None:
        # The arrays are those of the program: DLPack hands over the memory, not a copy.
        space[symbol](*[np.from_dlpack(t) for t in tensors])

    def save() -> bytes:
        data = io.BytesIO()
        np.savez(data, source=np.array(source), **constants)
        return data.getvalue()

    texts = tvm.runtime.ModuleSource(texts={"py": lambda: source})
    return tvm.runtime.Module.from_functions({symbol: run}, NAME, texts, save)


@tvm.register_func(f"relay.ext.{NAME}")
def generate(func: relay.Function) -> tvm.runtime.Module:
    """The code generator: PartitionGraph's functions come here, one at a time."""
    return module(*write(func))


@tvm.register_func(f"runtime.module.loadbinary_{NAME}")
def load(data: bytes) -> tvm.runtime.Module:
    """What makes the module again when a library that holds it is loaded."""
    held = dict(np.load(io.BytesIO(data)))
    return module(str(held.pop("source")), held)


def partition(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with what NumPy takes in functions of its own."""
    return tvm.transform.Sequential(
        [
            relay.transform.InferType(),
            relay.transform.AnnotateTarget(NAME),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
    )(mod)


# ---- a network, compiled with and without


def network(seed: int = 0) -> tvm.IRModule:
    """A gated layer and a classifier; its sigmoid is nothing that the subset has."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> relay.Constant:
        return relay.const((rng.standard_normal(shape) / np.sqrt(shape[-1])).astype("float32"))

    x = relay.var("x", shape=(4, 64))
    value, gate = relay.split(relay.nn.bias_add(relay.nn.dense(x, weights(128, 64)), weights(128)), 2, axis=1)
    y = relay.multiply(relay.tanh(value), relay.sigmoid(gate))
    y = relay.nn.softmax(relay.nn.dense(relay.concatenate([y, x], axis=1), weights(10, 128)))
    return tvm.IRModule.from_expr(relay.Function([x], y))


def run(vm: tvm.runtime.vm.VirtualMachine, x: np.ndarray, seconds: float) -> tuple[np.ndarray, float]:
    """(the result, milliseconds of one run)."""
    result = vm.run(x).numpy()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds or not count:
        vm.run(x)
        count += 1
    return result, (time.perf_counter() - begin) / count * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the partitioned program and the generated Python")
    parser.add_argument("--seconds", type=float, default=0.2, help="how long each version is timed")
    args = parser.parse_args()

    mod = network()
    parts = partition(mod)
    executable = relay.vm.compile(parts, "llvm")
    if args.show:
        print(parts)
    for part in executable.lib.imported_modules:
        source = part.get_source("py")
        print(source if args.show else source.partition("(")[0].removeprefix("def "))
    x = np.random.default_rng(1).random((4, 64), "float32")
    with tempfile.TemporaryDirectory() as folder:
        path = executable.export_library(str(Path(folder) / "gated.so"))
        loaded = tvm.runtime.vm.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
        parted, parted_ms = run(loaded, x, args.seconds)
    whole = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    compiled, compiled_ms = run(whole, x, args.seconds)
    np.testing.assert_allclose(parted, compiled, rtol=1e-4)
    print(f"with NumPy       {parted_ms:8.3f} ms")
    print(f"compiled whole   {compiled_ms:8.3f} ms, the same probabilities")


if __name__ == "__main__":
    main()
