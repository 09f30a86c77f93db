"""What classic test suites take from `tvm.testing`, `tvm.support` and `tvm.generic`."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, testing
from tilewright.contrib.popen_pool import PopenWorker


def test_functions_for_pools() -> None:
    worker = PopenWorker(testing.initializer, [1, 2, 3])
    worker.send(testing.after_initializer)
    assert tuple(worker.recv()) == (1, 2, 3)
    worker.kill()
    testing.register_ffi()
    assert testing.call_py_ffi(3) == testing.call_cpp_ffi(3) == testing.call_cpp_py_ffi(3) == 3
    assert testing.fast_summation(10) == testing.slow_summation(10) == 45


def test_times_of_a_module() -> None:
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1.0, name="y")
    built = tvm.build(te.create_schedule(y.op), [x, y], "llvm")
    config = tvm.meta_schedule.runner.EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)
    found = testing.local_run(built, "cpu", [np.zeros(8, "float32"), np.zeros(8, "float32")], config)
    assert len(found.results) == 2 and found.mean > 0


def test_spans_are_filled_inside() -> None:
    context = tvm.transform.PassContext
    with testing.enable_span_filling():
        assert context.current().config["relay.frontend.fill_span"]
        with testing.disable_span_filling():
            assert not context.current().config["relay.frontend.fill_span"]


def test_features_by_name() -> None:
    @testing.Feature.require("llvm", "optional")
    def case() -> None: ...

    assert [m.name for m in case.pytestmark] == ["llvm"]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="there is no feature 'lvm'"):
        testing.Feature.require("lvm")


def test_names_of_inner_modules() -> None:
    from tilewright.testing import auto_scheduler, utils

    assert utils.assert_allclose is testing.assert_allclose and utils.enable_span_filling is testing.enable_span_filling
    dag, state = auto_scheduler.get_tiled_matmul()
    s, args = dag.apply_steps_from_state(state)
    assert len(args) == 3 and len(tvm.lower(s, args).functions) == 1


def test_workspaces_are_asked_for() -> None:
    from tilewright.testing.usmp import is_tvm_backendallocworkspace_calls

    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1.0, name="y")
    assert not is_tvm_backendallocworkspace_calls(tvm.lower(te.create_schedule(y.op), [x, y]))
    call = tvm.tir.Evaluate(tvm.tir.call_extern("handle", "TVMBackendAllocWorkspace", 1, 0, 8, 0, 32))
    assert is_tvm_backendallocworkspace_calls(tvm.IRModule({"main": tvm.tir.PrimFunc([], call)}))


def test_arithmetic_by_name() -> None:
    n = te.var("n")
    assert str(tvm.generic.add(n, 1)) == str(n + 1) and str(tvm.generic.floordiv(lhs=n, rhs=2)) == str(n // 2)
    assert tvm.generic.cast(n, "int64").dtype == "int64"


def test_facts_about_the_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert tvm.support.libinfo()["USE_LLVM"] == "ON"
    tvm.support.describe()
    assert "LLVM_VERSION" in capsys.readouterr().out


def test_modules_of_python_functions() -> None:
    mod = tvm.support.FrontendTestModule()
    mod.add_function("main", lambda x: x + 1)
    assert mod(3) == 4 and mod["main"](4) == 5 and mod.implements_function("main")
    with pytest.raises(AttributeError, match="the module has no function 'other'; it has main"):
        mod.get_function("other")
