"""A user's own suite in a directory of its own: marks, features, tests of passes, with nothing but the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tilewright as tvm
from tilewright import testing

SUITE = """
import os

import numpy as np
import pytest
import tilewright as tvm
import tilewright.testing
from tilewright import te
from tilewright.script import ir as I
from tilewright.script import tir as T
from tilewright.testing import CompareBeforeAfter

shape = tvm.testing.parameter((4,), (3, 5), ids=["flat", "square"])
dtype = tvm.testing.parameter("float32", "int32")


@tvm.testing.fixture(cache_return_value=True)
def reference(shape, dtype):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@tvm.testing.parametrize_targets("llvm", "llvm -mcpu=generic")
def test_doubled(target, dev, reference, shape, dtype):
    a = te.placeholder(shape, dtype, name="a")
    b = te.compute(shape, lambda *i: a(*i) + a(*i), name="b")
    f = tvm.build(te.create_schedule(b.op), [a, b], target)
    out = tvm.nd.array(np.zeros(shape, dtype), dev)
    f(tvm.nd.array(reference, dev), out)
    tvm.testing.assert_allclose(out, reference * 2)


class TestSimplifies(CompareBeforeAfter):
    transform = tvm.tir.transform.Simplify()

    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i + 0] = i * 1

    def expected(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i


class TestModules(CompareBeforeAfter):
    def transform(self):
        return tvm.tir.transform.RemoveNoOp()

    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[0] = 1
            for i in range(4):
                T.evaluate(0)

    @I.ir_module
    class expected:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[0] = 1


class TestFails(CompareBeforeAfter):
    def transform(self, mod):
        raise ValueError("cannot")

    def before(A: T.Buffer((4,), "int32")):
        A[0] = 1

    expected = ValueError


class TestDiffers(CompareBeforeAfter):
    transform = tvm.tir.transform.Simplify()

    def before(A: T.Buffer((4,), "int32")):
        A[0] = 1 + 1

    def expected(A: T.Buffer((4,), "int32")):
        A[0] = 3


class TestOfAClass:
    size = tvm.testing.parameter(1, 4)
    low, high = tvm.testing.parameters((1, 2), (3, 4))
    target = tvm.testing.parameter("llvm", "llvm -mcpu=generic")
    made = []

    @tvm.testing.fixture
    def data(self, size):
        return np.ones(size)

    @tvm.testing.fixture(cache_return_value=True)
    def shared(self, size):
        self.made.append(size)
        return [size]

    def test_sizes(self, data, shared, size):
        assert data.shape == (size,) and shared == [size]

    def test_pairs(self, low, high):
        assert high == low + 1

    def test_targets(self, target, dev, shared, size):
        assert target.startswith("llvm") and dev == tvm.cpu() and self.made.count(size) == 1


class TestOfADerivedClass(TestOfAClass):
    size = tvm.testing.parameter(7)


@tvm.testing.parametrize_targets({"kind": "llvm", "mcpu": "generic"}, tvm.target.Target("llvm"))
def test_targets_as_values(target):
    assert tvm.target.Target(target).kind.name == "llvm"


@tvm.testing.uses_gpu
def test_optional():
    assert True


@tvm.testing.requires_llvm(support_required="compile-only")
def test_compiles():
    assert True


@tvm.testing.requires_tensorcore
def test_tensor_cores():
    assert False


@tvm.testing.requires_llvm_minimum_version(15)
def test_new_enough():
    assert True


@tvm.testing.requires_llvm_minimum_version(1000)
def test_far_too_old():
    assert False


@tvm.testing.requires_nvcc_version(11, 4)
def test_nvcc():
    assert False


@tvm.testing.skip_if_32bit(reason="wide")
def test_wide():
    assert True


@tvm.testing.skip_if_wheel_test
def test_in_the_checkout():
    assert False


def test_gradients():
    x = np.array([0.5, 1.5])
    tvm.testing.check_numerical_grads(lambda v: float((v**3).sum()), [x], [3 * x**2])
    with pytest.raises(AssertionError, match="the gradient of 0 lies"):
        tvm.testing.check_numerical_grads(lambda v: float((v**3).sum()), [x], [2 * x**2])


def test_helpers():
    assert tvm.testing.identity_cpp(7) == 7 and tvm.testing.echo("x") == "x"
    assert tvm.testing.get_dtype_range("uint8") == (0, 255)
    tvm.testing.assert_prim_expr_equal(te.var("n") * 0, tvm.tir.const(0))
    assert tvm.testing.device_enabled("llvm") and ("llvm", tvm.cpu()) in tvm.testing.enabled_targets()


if __name__ == "__main__":
    tvm.testing.main()
"""


@pytest.mark.parametrize("as_script", [False, True])
def test_suite(tmp_path: Path, as_script: bool) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    options = ["-q", "-rA", "-p", "no:cacheprovider", "--strict-markers"]
    if not as_script:
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["tilewright.testing.plugin"]\n')
    command = [sys.executable, *(["test_mine.py"] if as_script else ["-m", "pytest"]), *options]
    env = {k: v for k, v in os.environ.items() if not k.startswith("TVM_")} | {"WHEEL_TEST": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=300, check=False)
    failed = re.findall(r"^FAILED test_mine.py::(\S+)", done.stdout, re.M)
    assert failed == ["TestDiffers::test_compare"], done.stdout + done.stderr
    passed = re.findall(r"^PASSED test_mine.py::(.+)$", done.stdout, re.M)
    assert len([p for p in passed if p.startswith("test_doubled")]) == 8
    assert len([p for p in passed if p.startswith("TestOfAClass::")]) == 8
    assert len([p for p in passed if p.startswith("TestOfADerivedClass::")]) == 5
    assert len([p for p in passed if p.startswith("test_targets_as_values")]) == 2
    several = ("test_doubled", "TestOfA", "test_targets_as_values")
    assert {p for p in passed if not p.startswith(several)} == {
        "TestSimplifies::test_compare", "TestModules::test_compare", "TestFails::test_compare",
        "test_optional", "test_compiles", "test_new_enough", "test_wide", "test_gradients", "test_helpers",
    }  # fmt: skip
    skipped = re.findall(r"^SKIPPED \[\d+\] (?:test_mine.py:\d+|.*): (.+)$", done.stdout, re.M)
    assert len(skipped) == 4 and "WHEEL_TEST is set" in skipped, skipped
    assert any(re.fullmatch(r"LLVM is of version \d+, the test needs 1000", reason) for reason in skipped)
    # The failure shows what was made beside what was expected.
    assert "A[0] = 2" in done.stdout and "A[0] = 3" in done.stdout


def test_words_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, value in {"1": True, "True": True, " on ": True, "0": False, "": False, "no": False}.items():
        monkeypatch.setenv("MINE", text)
        assert testing.strtobool_env("MINE") is value
    monkeypatch.delenv("MINE")
    assert testing.strtobool_env("MINE") is False and testing.strtobool_env("MINE", "yes") is True
    monkeypatch.setenv("MINE", "perhaps")
    with pytest.raises(ValueError, match=r"MINE: 'perhaps' is neither yes \(1, true, on\) nor no"):
        testing.strtobool_env("MINE")
    assert testing.strtobool("On") == 1 and testing.strtobool("f") == 0


def test_a_value_after_a_while() -> None:
    start = time.perf_counter()
    assert testing.identity_after("late", 0.05) == "late" and time.perf_counter() - start >= 0.05


@testing.parametrize(("base", "square"), [(2, 4), (3, 9)], ids=["two", "three"])
def test_pytests_parametrize(base: int, square: int) -> None:
    assert base * base == square


def test_features() -> None:
    assert repr(testing.requires_cutlass).startswith("<feature cutlass: ")
    assert testing.requires_cudnn.names() == ["cudnn", "cuda", "gpu"]
    assert testing.requires_llvm.missing() is None and testing.requires_aot_executor.missing() is None
    with pytest.raises(ValueError, match='support_required is "compile-and-run", "compile-only" or "optional"'):
        testing.requires_gpu(support_required="maybe")(lambda: None)
    with pytest.raises(ValueError, match="device_enabled takes a target or its text, but was given int"):
        testing.device_enabled(3)


def test_transformed_constraints() -> None:
    x, y, z = tvm.te.var("x"), tvm.te.var("y"), tvm.te.var("z")
    whole = tvm.arith.IntConstraints([x, y], {x: tvm.ir.Range(0, 8), y: tvm.ir.Range(0, 8)}, [x + y == 7])
    half = tvm.arith.IntConstraints([z], {z: tvm.ir.Range(0, 8)}, [])
    right = tvm.arith.IntConstraintsTransform(whole, half, {x: z, y: 7 - z}, {z: x})
    testing.check_int_constraints_trans_consistency(right)
    wrong = tvm.arith.IntConstraintsTransform(whole, half, {x: z, y: 6 - z}, {z: x})
    with pytest.raises(AssertionError, match="is not true at x = "):
        testing.check_int_constraints_trans_consistency(wrong)


def test_a_process_ends_itself() -> None:
    done = subprocess.run([sys.executable, "-c", "import tilewright.testing as t; t.terminate_self()"], check=False)
    assert done.returncode == 255
    assert tvm.get_global_func("testing.nop")(1, "a", None) is None
