"""Scripts written for TVM run on this package: imports, arguments, tracebacks, the debugger, tests, imported hooks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

IMPORTS = """
import sys
import tvm
import tvm.te
import tvm.tir.schedule
import tvm.contrib.graph_executor
from tvm import relay, te, tir, topi
from tvm.tir import transform as passes
from tvm.ir.transform import PassContext
from tvm.relay import frontend
import tvm.testing
import tvm.transform
import tvm.nd as nd
from tvm._ffi.registry import register_func
from tvm._ffi import get_global_func
import tilewright

assert tvm is tilewright and tvm.te is tilewright.te is te, "aliases are the same objects"
assert sys.modules["tvm.tir.schedule"] is sys.modules["tilewright.tir.schedule"]
assert register_func is tvm.register_func and get_global_func is tvm.get_global_func
assert tvm.transform is tilewright.ir.transform and nd is tilewright.runtime.ndarray
assert tvm.te.__spec__.name == "tilewright.te" and tvm.te.__name__ == "tilewright.te"
assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals()

n = te.var("n")
a = te.placeholder((n,), name="a")
b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
f = tvm.build(te.create_prim_func([a, b]), target="llvm")
x, y = tvm.nd.array([1.0, 2.0]), tvm.nd.array([0.0, 0.0])
x, y = tvm.nd.array(x.numpy().astype("float32")), tvm.nd.array(y.numpy().astype("float32"))
f(x, y)
tvm.testing.assert_allclose(y.numpy(), [2.0, 3.0])
print("ran", sys.argv[1:])
"""


def run_module(*arguments: str, text: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)


def test_workers_know_the_aliases(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from tvm import te\n"
        "from tvm.contrib.popen_pool import PopenWorker\n\n\n"
        "def name():\n    return te.__name__\n\n\n"
        'if __name__ == "__main__":\n'
        "    worker = PopenWorker()\n    worker.send(name)\n    print(worker.recv())\n"
    )
    done = run_module("-m", "tilewright.as_tvm", str(script))
    assert done.stdout == "tilewright.te\n", done.stderr


def test_functions_named_as_their_modules(tmp_path: Path) -> None:
    """Packages keep functions when modules of the same names are imported: files, modules without files, and those inside such."""
    script = tmp_path / "script.py"
    script.write_text(
        "import tvm.topi.einsum, tvm.topi.argwhere, tvm.topi.nn.conv2d, tvm.topi.sparse.csrmm, tvm.topi.vision.rcnn.proposal\n"
        "from tvm import topi\n"
        "from tvm.topi.nn.conv2d import conv2d_nchw\n"
        "from tvm.topi.sparse_reshape import sparse_reshape\n"
        "from tvm.topi.sparse.utils import convert_model_dense_to_sparse\n"
        "found = [topi.einsum, topi.argwhere, topi.nn.conv2d, topi.sparse.csrmm, topi.vision.rcnn.proposal]\n"
        "found += [topi.vision.proposal, conv2d_nchw, sparse_reshape, topi.sparse_reshape, convert_model_dense_to_sparse]\n"
        "assert [type(f).__name__ for f in found] == ['function'] * 10, found\n"
    )
    done = run_module("-m", "tilewright.as_tvm", str(script))
    assert done.returncode == 0, done.stderr


def test_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IMPORTS)
    (tmp_path / "beside.py").write_text("import tvm\n")
    done = run_module("-m", "tilewright.as_tvm", str(script), "--one", "two")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran ['--one', 'two']\n"


def test_modules_beside_the_script_are_found(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import beside\nprint(beside.tvm.__name__)\n")
    (tmp_path / "beside.py").write_text("import tvm\n")
    assert run_module("-m", "tilewright.as_tvm", str(tmp_path / "script.py")).stdout == "tilewright\n"


def test_traceback_begins_at_the_script(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text("import tvm\n\n\ndef f():\n    tvm.tir.const('x', 'float33')\n\n\nf()\n")
    done = run_module("-m", "tilewright.as_tvm", str(script))
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[0] == "Traceback (most recent call last):"
    assert f'File "{script}", line 8, in <module>' in lines[1] and lines[2].strip() == "f()"
    assert f'File "{script}", line 5, in f' in lines[3]
    assert "runpy" not in done.stderr and "as_tvm" not in done.stderr


def test_missing_modules_are_named_as_the_script_names_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import importlib.util\n"
        "assert importlib.util.find_spec('tvm.nowhere') is None\n"
        "try:\n    import tvm.nowhere\nexcept ModuleNotFoundError as e:\n    print(e)\n"
        "try:\n    from tvm import nothing\nexcept ImportError as e:\n    print(str(e)[:40])\n"
    )
    out = run_module("-m", "tilewright.as_tvm", str(script)).stdout
    assert out == "No module named 'tvm.nowhere'\ncannot import name 'nothing' from 'tilew\n"


def test_debugger(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import tvm\nx = 41\nbreakpoint()\nprint('x is', x)\n")
    done = run_module("-m", "tilewright.as_tvm", str(script), text="x = x + 1\nwhere\ncontinue\n")
    assert "x is 42" in done.stdout and f"{script}(4)<module>()" in done.stdout, done.stderr
    done = run_module(
        "-m", "tilewright.as_tvm", "-m", "pdb", str(script), text="break 4\ncontinue\ncontinue\np x\nquit\n"
    )
    assert f"Breakpoint 1 at {script}:4" in done.stdout, done.stderr


def test_errors_of_the_command_line(tmp_path: Path) -> None:
    done = run_module("-m", "tilewright.as_tvm", "nowhere.py", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("as_tvm: there is no file 'nowhere.py'\nusage: ")
    assert run_module("-m", "tilewright.as_tvm").returncode == 2
    assert "script.py" in run_module("-m", "tilewright.as_tvm", "--help").stdout


def test_hook_and_another_tvm(tmp_path: Path) -> None:
    (tmp_path / "hooked.py").write_text("import tilewright.as_tvm\nfrom tvm.tir import Var\nprint(Var.__module__)\n")
    assert run_module(str(tmp_path / "hooked.py")).stdout == "tilewright.tir.expr\n"
    (tmp_path / "tvm.py").write_text("")
    (tmp_path / "late.py").write_text("import tvm\nimport tilewright.as_tvm\n")
    late = run_module(str(tmp_path / "late.py"))
    assert "ImportError: tvm has been imported already, from " in late.stderr
    assert "import tilewright.as_tvm before it" in late.stderr


TESTS = """
import pytest
import tvm
import tvm.testing

calls = []
size = tvm.testing.parameter(1, 3)
kind = tvm.testing.parameter(by_dict={"ints": "int32", "floats": "float32"})
x, y = tvm.testing.parameters((1, 2), (3, 4), (5, 6))


@tvm.testing.fixture(cache_return_value=True)
def table(size):
    calls.append(size)
    return [0] * size


@tvm.testing.fixture
def plain():
    return 7


def test_combinations(size, kind, plain):
    assert kind in ("int32", "float32") and plain == 7


def test_together(x, y):
    assert y == x + 1


def test_only_one(y):
    assert y in (2, 4, 6)


def test_cached(table, size):
    assert table == [0] * size
    table.append(1)


def test_cached_again(table, size):
    assert table == [0] * size and len(calls) == len(set(calls))


def test_every_target(target, dev):
    assert target == "llvm" and dev == tvm.cpu(0)


@tvm.testing.parametrize_targets("llvm -mcpu=generic", "cuda")
def test_chosen_targets(target):
    assert target == "llvm -mcpu=generic"


@tvm.testing.exclude_targets("llvm")
def test_excluded(target):
    assert False


@tvm.testing.known_failing_targets("llvm")
def test_known(target):
    assert False


@tvm.testing.xfail_parameterizations("1", reason="not yet")
@tvm.testing.skip_parameterizations("3", reason="not at all")
def test_single_cases(size):
    assert False


@tvm.testing.requires_llvm
def test_llvm():
    pass


@tvm.testing.requires_cuda()
def test_cuda():
    assert False


@tvm.testing.requires_package("no_such_package")
def test_package():
    assert False


if __name__ == "__main__":
    tvm.testing.main()
"""


@pytest.mark.parametrize("with_main", [True, False])
def test_suite_written_for_tvm(tmp_path: Path, with_main: bool) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-p", "no:cacheprovider", "-q", "-rA", "--strict-markers"]
    if with_main:
        done = run_module("-m", "tilewright.as_tvm", "test_it.py", *options, cwd=tmp_path)
    else:
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["tvm.testing.plugin"]\n')
        done = run_module("-m", "tilewright.as_tvm", "-m", "pytest", *options, cwd=tmp_path)
    passed = sorted(line.split("::")[1] for line in done.stdout.splitlines() if line.startswith("PASSED"))
    assert passed == sorted(
        [f"test_combinations[{size}-{kind}]" for size in (1, 3) for kind in ("ints", "floats")]
        + ["test_together[1-2]", "test_together[3-4]", "test_together[5-6]"]
        + [f"test_only_one[{y}]" for y in (2, 4, 6)]
        + [f"{name}[{size}]" for name in ("test_cached", "test_cached_again") for size in (1, 3)]
        + ["test_every_target[llvm]", "test_chosen_targets[llvm -mcpu=generic]", "test_llvm"]
    ), done.stdout + done.stderr
    tail = done.stdout.splitlines()[-1]
    assert tail.startswith("17 passed, 25 skipped, 2 xfailed"), done.stdout
    assert "no code is generated for CUDA targets" in done.stdout or "no code is generated for GPUs" in done.stdout
