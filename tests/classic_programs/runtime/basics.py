"""Arrays, functions across the border of languages, modules, devices and targets."""

import os
import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm._ffi.registry import list_global_func_names, remove_global_func
from tvm.contrib import cc

# Arrays.
x = tvm.nd.array(np.arange(6, dtype="float32").reshape(2, 3), tvm.cpu(0))
assert x.shape == (2, 3) and x.dtype == "float32" and x.device == tvm.cpu(0) == tvm.device("cpu", 0)
y = tvm.nd.empty((2, 3), "float32", device=tvm.cpu())
x.copyto(y)
np.testing.assert_array_equal(y.asnumpy(), x.numpy())
y[:] = np.ones((2, 3))
assert y.numpy().sum() == 6 and x.copyto(tvm.cpu(0)).numpy().sum() == 15
y[:] = x
shared = tvm.nd.from_dlpack(y.to_dlpack())
y[:] = 0.0
assert shared.numpy().sum() == 0 and np.from_dlpack(y).shape == (2, 3)
assert y._create_view((3, 2)).shape == (3, 2)
try:
    y[:] = np.ones((3, 3))
except ValueError as error:
    assert "(3, 3)" in str(error) and "(2, 3)" in str(error)
else:
    raise AssertionError("shapes differ")
blob = tvm.runtime.save_param_dict({"x": x, "n": tvm.nd.array(np.int64([4]))})
loaded = tvm.runtime.load_param_dict(blob)
assert sorted(loaded) == ["n", "x"] and loaded["n"].dtype == "int64"


# Functions.
@tvm.register_func
def add_them(a, b):
    return a + b


@tvm.register_func("demo.apply", override=True)
def apply(f, value):
    return f(value)


assert tvm.get_global_func("add_them")(1, 2) == 3 and tvm.get_global_func("add_them")("a", "b") == "ab"
assert tvm.get_global_func("demo.apply")(lambda v: v * 2.5, 4) == 10
packed = tvm.convert(lambda *values: sum(values))
assert isinstance(packed, tvm.runtime.PackedFunc) and packed(1, 2.5, 3) == 6.5
assert tvm.get_global_func("demo.apply")(packed, 3) == 3
assert tvm.get_global_func("no.such", allow_missing=True) is None
for attempt, words in (
    (lambda: tvm.get_global_func("no.such"), "no.such"),
    (lambda: tvm.register_func("demo.apply", print), "override=True"),
):
    try:
        attempt()
    except ValueError as error:
        assert words in str(error)
    else:
        raise AssertionError(words)


@tvm.register_func("demo.fails", override=True)
def fails(value):
    raise KeyError(f"nothing under {value}")


try:
    tvm.get_global_func("demo.fails")(7)
except KeyError as error:
    assert "nothing under 7" in str(error)
else:
    raise AssertionError("errors come through")
assert "demo.apply" in list_global_func_names()
remove_global_func("demo.apply")
assert "demo.apply" not in list_global_func_names()

# Modules.
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
mod = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="add_one")
assert mod.type_key == "llvm" and mod.imported_modules == [] and mod.implements_function("add_one")
assert not mod.implements_function("add_two") and "define" in mod.get_source() and "add_one" in mod.get_source("asm")
before, after = tvm.nd.array(np.zeros(5, "float32")), tvm.nd.array(np.zeros(5, "float32"))
for call in (mod, mod["add_one"], mod.get_function("add_one"), mod.entry_func):
    after[:] = 0.0
    call(before, after)
    assert after.numpy().tolist() == [1] * 5
try:
    mod["add_two"]
except AttributeError as error:
    assert "add_two" in str(error)
else:
    raise AssertionError("there is no such function")
result = mod.time_evaluator("add_one", tvm.cpu(), number=3, repeat=4, min_repeat_ms=0)(before, after)
assert len(result.results) == 4 and result.min <= result.median <= result.max and result.std >= 0 and result.mean > 0

with tempfile.TemporaryDirectory() as folder:

    def path(name):
        return os.path.join(folder, name)

    for name in ("m.o", "m.ll", "m.s"):
        mod.save(path(name))
        assert os.path.getsize(path(name)) > 100
    mod.export_library(path("m.so"))
    mod.export_library(path("m.tar"))
    mod.export_library(path("by_cc.so"), fcompile=cc.create_shared)
    for name in ("m.so", "m.tar", "by_cc.so"):
        again = tvm.runtime.load_module(path(name))
        again["add_one"](after, before)
        assert before.numpy().tolist() == [2] * 5
try:
    tvm.runtime.load_module("nowhere.so")
except (ValueError, OSError) as error:
    assert "nowhere.so" in str(error)
else:
    raise AssertionError("there is no such file")

# Devices and targets.
assert tvm.cpu().exist and not tvm.cuda(3).exist and str(tvm.cpu(0)) == "cpu(0)" and tvm.cpu().device_type == 1
assert tvm.runtime.enabled("llvm") and tvm.device("cuda:1") == tvm.cuda(1)
target = tvm.target.Target("llvm -mcpu=core-avx2", host="llvm")
assert target.kind.name == "llvm" and target.mcpu == "core-avx2" and target.host.kind.name == "llvm"
assert tvm.target.Target({"kind": "llvm", "mcpu": "skylake"}).mcpu == "skylake"
assert tvm.target.Target.current(allow_none=True) is None
with target:
    assert tvm.target.Target.current() is target or tvm.target.Target.current() == target
assert "-mcpu=core-avx2" in str(target) and tvm.target.cuda().kind.name == "cuda"
dtype = tvm.runtime.DataType("float32x4")
assert dtype.lanes == 4 and dtype.bits == 32
