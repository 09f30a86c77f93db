from pathlib import Path

import pytest

SUITE = """
import numpy as np
import tvm
import tvm.testing
from tvm import te

shared = tvm.testing.parameter(1, 2)


class Base:
    factor = tvm.testing.parameter(2, 3)
    rows, columns = tvm.testing.parameters((1, 4), (2, 8), ids=["flat", "high"])

    @tvm.testing.fixture
    def table(self, rows, columns):
        assert isinstance(self, Base)
        return np.ones((rows, columns), "float32")

    @tvm.testing.fixture(cache_return_value=True)
    def reference(self, rows, columns, factor):
        return np.ones((rows, columns), "float32") * factor


class TestScaled(Base):
    def test_values(self, target, dev, table, factor, reference, shared):
        A = te.placeholder(table.shape, name="A")
        B = te.compute(table.shape, lambda i, j: A[i, j] * float(factor), name="B")
        s = te.create_schedule(B.op)
        f = tvm.build(s, [A, B], target)
        out = tvm.nd.empty(table.shape, device=dev)
        f(tvm.nd.array(table, dev), out)
        tvm.testing.assert_allclose(out.numpy(), reference)


class TestLarger(Base):
    factor = tvm.testing.parameter(10)

    @tvm.testing.parametrize_targets("llvm")
    def test_kind(self, target, factor):
        assert tvm.target.Target(target).kind.name == "llvm" and factor == 10
"""
Path("test_suite.py").write_text(SUITE)
Path("conftest.py").write_text('pytest_plugins = ["tvm.testing.plugin"]\n')


class Outcome:
    """Counts what passed."""

    def __init__(self):
        self.passed = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.passed.append(report.nodeid.partition("::")[2])


outcome = Outcome()
assert pytest.main(["-q", "-p", "no:cacheprovider", "test_suite.py"], plugins=[outcome]) == 0
scaled = [n for n in outcome.passed if n.startswith("TestScaled")]
assert len(scaled) >= 8 and len([n for n in outcome.passed if n.startswith("TestLarger")]) == 1, outcome.passed
assert any("flat" in n for n in scaled) and any("high" in n for n in scaled)
