"""Code generators and programs for tests of partitioning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import relay
from tilewright.ir import Op
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.runtime.container import ADT

OPERATORS = (
    "add", "multiply", "subtract", "tanh", "sigmoid", "exp", "nn.relu", "nn.conv2d", "nn.dense", "nn.bias_add", "nn.softmax",
    "nn.batch_norm", "nn.max_pool2d", "nn.global_avg_pool2d", "nn.pad", "concatenate", "reshape", "transpose", "cast", "mean",
    "split", "abs", "less", "zeros",
)  # fmt: skip


@contextmanager
def taking(compiler: str, operators: Sequence[str], check: Callable[[Any], bool] = lambda call: True) -> Iterator[None]:
    """A compiler takes these operators as long as this lasts."""
    for name in operators:
        tvm.ir.register_op_attr(name, f"target.{compiler}", check, level=20)
    try:
        yield
    finally:
        for name in operators:
            Op.get(name).set_attr(f"target.{compiler}", None)


@contextmanager
def registered(**functions: Callable[..., Any]) -> Iterator[None]:
    """Global functions `relay.ext.<name>`, with "__" for a dot in the name, as long as this lasts."""
    names = [f"relay.ext.{name.replace('__', '.')}" for name in functions]
    for name, function in zip(names, functions.values(), strict=True):
        tvm.register_func(name, function, override=True)
    try:
        yield
    finally:
        for name in names:
            tvm.runtime.remove_global_func(name)


def flat(value: Any) -> list[np.ndarray]:
    return [x for v in value for x in flat(v)] if isinstance(value, (tuple, list)) else [np.asarray(value)]


def count_tensors(t: Any) -> int:
    return sum(map(count_tensors, t.fields)) if isinstance(t, relay.TupleType) else 1


def nested(t: Any, tensors: Iterator[Any]) -> Any:
    return tuple([nested(f, tensors) for f in t.fields]) if isinstance(t, relay.TupleType) else next(tensors)


def interpreted(func: relay.Function) -> tvm.runtime.Module:
    """A code generator: the function is run by the interpreter, whenever it is called."""
    symbol = str(func.attrs["global_symbol"])
    types = [p.checked_type for p in func.params]
    count = sum(map(count_tensors, types))
    plain = func.replace(attrs={})

    def run(*tensors: Any) -> None:
        given = iter([t.numpy() for t in tensors[:count]])
        results = flat(run_function(plain, [nested(t, given) for t in types]))
        assert len(results) == len(tensors) - count
        for out, value in zip(tensors[count:], results, strict=True):
            out.copyfrom(value)

    return tvm.runtime.Module.from_functions({symbol: run}, "interpreted")


def partitioned(
    mod: relay.IRModule,
    compilers: Sequence[str],
    table: Sequence[Any] = (),
    merge: bool = True,
    non_call_ops: bool = True,
    bind_constants: bool = True,
) -> relay.IRModule:
    """A module after the passes that take regions out."""
    passes = [
        relay.transform.MergeComposite(table),
        relay.transform.AnnotateTarget(list(compilers), non_call_ops),
        *([relay.transform.MergeCompilerRegions()] if merge else []),
        relay.transform.PartitionGraph(bind_constants=bind_constants),
    ]
    return tvm.transform.Sequential(passes)(mod)


def external(mod: relay.IRModule) -> dict[str, relay.Function]:
    """The functions of a module that belong to other compilers."""
    return {g.name_hint: f for g, f in mod.functions.items() if "Compiler" in f.attrs}


def evaluate(mod: relay.IRModule, *args: Any, kind: str = "debug") -> list[np.ndarray]:
    """What main answers, tuples flattened."""
    result = relay.create_executor(kind, mod).evaluate()(*args)
    return unpacked(result)


def unpacked(result: Any) -> list[np.ndarray]:
    if isinstance(result, (list, tuple, ADT)):
        return [x for r in result for x in unpacked(r)]
    return [result.numpy()]


def assert_same(got: Sequence[np.ndarray], want: Sequence[np.ndarray], rtol: float = 2e-4) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol)


DATA = np.float32(np.arange(6).reshape(2, 3)) - 3
KINDS = ("graph", "aot", "vm")


def relu_exp() -> relay.IRModule:
    x = relay.var("x", shape=(2, 3))
    return relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.relu(x))))


def c_module(body: str, const_vars: Any = ()) -> Any:
    """A generator of C source, SYMBOL in it replaced."""

    def generate(func: relay.Function) -> tvm.runtime.Module:
        symbol = str(func.attrs["global_symbol"])
        text = "#include <tilewright/packed.h>\n" + body.replace("SYMBOL", symbol)
        return tvm.runtime.c_source_module(text, "c", [symbol], [c.replace("SYMBOL", symbol) for c in const_vars])

    return generate


RELU = """
TW_PACKED_FUNC(SYMBOL) {
  TW_EXPECT_ARGS(2);
  const float* x = TW_DATA(float, 0);
  float* y = TW_DATA(float, 1);
  for (int i = 0; i < 6; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  return 0;
}
"""


def relu_parts() -> relay.IRModule:
    with taking("a", ["nn.relu"]):
        return partitioned(relu_exp(), ["a"])


def saved(func: relay.Function) -> tvm.runtime.Module:
    """A module of Python that a library holds as relay text."""
    return held(func, tvm.ir.save_json(func).encode())


def held(func: relay.Function, data: bytes) -> tvm.runtime.Module:
    inner = interpreted(func)
    symbol = str(func.attrs["global_symbol"])
    return tvm.runtime.Module.from_functions({symbol: inner[symbol]}, "saved", save=lambda: data)


def load_saved(data: bytes) -> tvm.runtime.Module:
    func = tvm.ir.load_json(data.decode())
    mod = relay.transform.InferType()(relay.IRModule.from_expr(func.replace(attrs={})))
    return held(mod["main"].replace(attrs=func.attrs), data)
