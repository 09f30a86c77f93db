"""The compile cache under relay.build: what hits, what misses, damage, full disks, many processes; and constants laid out once."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright import relay, topi
from tilewright.codegen.backend import Code
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule, Op
from tilewright.relay.backend import te_compiler
from tilewright.relay.backend.kernels import machine_code
from tilewright.relay.backend.planning.constants import ConstantPool
from tilewright.relay.backend.planning.plan import Plan, make_plan
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.relay.op import op
from tilewright.relay.transform.layout.alter_layout import pack_dense
from tilewright.support import cache
from tilewright.target import Target

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
import numpy as np
from tests.relay.backend import test_compile_cache as t

compiled = t.count_compilations()
y = t.first_result()
print(len(compiled), float(np.abs(y).sum()))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache.default_cache(), "_warned", set())
    return tmp_path / "cache"


def network() -> IRModule:
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 16, 8, 8))
    y = relay.nn.conv2d(x, relay.const(rng.standard_normal((32, 16, 3, 3)).astype("float32")), padding=(1, 1))
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.nn.relu(y)))
    y = relay.nn.dense(y, relay.const(rng.standard_normal((64, 32)).astype("float32")))
    return IRModule.from_expr(relay.nn.softmax(y))


def first_result(target: str = "llvm") -> np.ndarray:
    library = relay.build(network(), target=target)
    executor = graph_executor.GraphModule(library["default"](tilewright.cpu()))
    executor.set_input("x", np.random.default_rng(1).standard_normal((1, 16, 8, 8)).astype("float32"))
    executor.run()
    return np.array(executor.get_output(0).numpy())


def count_compilations() -> list[str]:
    """A list that gets the text of all code that is compiled from now on."""
    texts: list[str] = []
    compile_code = machine_code.compile_code

    def counted(code: Code, target: Target) -> bytes:
        texts.append(code.text)
        return compile_code(code, target)

    machine_code.compile_code = counted
    return texts


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(machine_code, "compile_code", machine_code.compile_code)
    return count_compilations()


def test_second_build_compiles_nothing(compiled: list[str]) -> None:
    first = first_result()
    assert len(compiled) > 2
    compiled.clear()
    np.testing.assert_array_equal(first_result(), first)
    assert compiled == []


def in_process(seed: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )


def answer(process: subprocess.Popen[str]) -> tuple[int, float]:
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    count, total = text.split()
    return int(count), float(total)


def test_processes_share_entries_whatever_their_hash_seed(own_cache: Path) -> None:
    racing = [in_process(1), in_process(2)]
    (first, a), (second, b) = map(answer, racing)
    assert first or second
    third, c = answer(in_process(3))
    assert third == 0 and a == b == c
    assert not [p for p in own_cache.rglob("*") if p.name.startswith(".new")]


def test_damaged_entries_are_compiled_anew(own_cache: Path, compiled: list[str]) -> None:
    first = first_result()
    count = len(compiled)
    entries = [path for path in own_cache.rglob("*") if path.is_file()]
    for path in entries:
        path.write_bytes(path.read_bytes()[:-7])
    compiled.clear()
    with pytest.warns(UserWarning, match="is damaged; it is removed and compiled anew") as seen:
        np.testing.assert_array_equal(first_result(), first)
    assert len(compiled) == count and len(seen) == len(entries)
    compiled.clear()
    first_result()
    assert compiled == []


def test_full_disk_is_told_once_and_costs_only_time(monkeypatch: pytest.MonkeyPatch, compiled: list[str]) -> None:
    expected = first_result("llvm -num-cores=3")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(
        UserWarning, match="No space left on device.*Free some space, or set TILEWRIGHT_CACHE_DIR"
    ) as seen:
        got = first_result()
        count = len(compiled)
        first_result()
    assert len(seen) == 1 and len(compiled) > count
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def keys(target: str) -> list[str]:
    plan, compiler = planned(network(), target)
    return [machine_code.cache_key(k, Target(target)) for k in compiler.kernels.values()]


def planned(mod: IRModule, target: str = "llvm") -> tuple[Plan, TECompiler]:
    optimized, _ = relay.optimize(mod, target)
    compiler = TECompiler(Target(target))
    return make_plan(optimized, compiler), compiler


def test_keys_depend_on_target_options_and_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    base = keys("llvm")
    assert keys("llvm") == base
    threads = machine_code.Target("llvm").cpu.threads
    assert not set(base) & set(keys(f"llvm -num-cores={threads + 1}"))
    with tilewright.transform.PassContext(config={"tir.disable_vectorize": True}):
        assert not set(base) & set(keys("llvm"))
    monkeypatch.setattr(machine_code, "compiler_digest", lambda: "another")
    assert not set(base) & set(keys("llvm"))


def test_equal_constants_are_kept_once() -> None:
    values = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    other = values.copy()
    other[1, 1] += 1  # not among the values that are sampled
    x = relay.var("x", shape=(64, 64))
    y = relay.tanh(x) + relay.const(values)
    for a in (values.copy(), np.ascontiguousarray(values.T).T, other):
        y = relay.sort(y) * relay.const(a)
    plan, _ = planned(IRModule.from_expr(y))
    assert plan.constants.bytes == 2 * values.nbytes


def test_packed_weights_are_views_until_they_are_laid_out() -> None:
    rng = np.random.default_rng(0)
    for shape, make in [
        ((128, 48), lambda x, w: relay.nn.dense(x, w)),
        ((48, 128), lambda x, w: relay.nn.matmul(x, w)),
    ]:
        weight = rng.standard_normal(shape).astype("float32")
        with Target("llvm"):
            call = make(relay.var("x", shape=(5, 48)), relay.const(weight))
            relay.transform.infer_types(call)
            packed = pack_dense(call)
        assert packed is not None
        array = packed.args[1].value  # type: ignore[attr-defined]
        assert np.shares_memory(array, weight)
        pool = ConstantPool()
        pool.add(np.zeros(3, "float32"))
        assert pool.offsets[pool.add(array)] == 64
        laid = pool.blob()
        assert laid.ctypes.data % 64 == 0
        np.testing.assert_array_equal(
            laid[64 : 64 + array.nbytes].view("float32"), np.ascontiguousarray(array).reshape(-1)
        )


def test_large_constants_are_laid_out_by_threads() -> None:
    arrays = [np.full((1 << 20) + k, k, "float32") for k in range(6)]
    pool = ConstantPool()
    for a in arrays:
        pool.add(a)
    laid = pool.blob()
    for a, offset in zip(arrays, pool.offsets, strict=True):
        np.testing.assert_array_equal(laid[offset : offset + a.nbytes].view("float32"), a)


def test_known_kernels_are_not_composed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = first_result()
    library = relay.build(network(), target="llvm")
    texts = library.get_source("tir")
    facts = [
        (k.name, k.flops, k.products, k.traffic, k.in_place, k.digest) for k in (c.kernel for c in library.plan.calls)
    ]
    monkeypatch.setattr(te_compiler, "TensorGraph", None)
    again = relay.build(network(), target="llvm")
    assert [
        (k.name, k.flops, k.products, k.traffic, k.in_place, k.digest) for k in (c.kernel for c in again.plan.calls)
    ] == facts
    np.testing.assert_array_equal(first_result(), first)
    monkeypatch.undo()
    assert again.get_source("tir") == texts


def test_kernels_of_a_program_s_own_compute_are_composed_anew() -> None:
    x = relay.var("x", shape=(4,))
    results = []
    for factor in (None, 2.0, 3.0, None):
        if factor is not None:
            op.register_compute("tanh", lambda attrs, inputs, t, by=factor: [topi.multiply(inputs[0], by)], level=20)
        try:
            executor = graph_executor.GraphModule(
                relay.build(relay.Function([x], relay.tanh(x)), "llvm")["default"](tilewright.cpu())
            )
            executor.run(x=np.ones(4, "float32"))
            results.append(float(executor.get_output(0).numpy()[0]))
        finally:
            if factor is not None:
                Op.get("tanh").reset_attr("FTVMCompute")
    np.testing.assert_allclose(results, [np.tanh(1), 2, 3, np.tanh(1)], rtol=1e-6)


def test_constants_made_by_passes_move_into_the_blob() -> None:
    """What passes computed is freed once it is laid out; the program's own constants stay where they are."""
    own, made = np.ones((64, 32), "float32"), np.full((3, 3), 2, "float32")
    given, new = relay.const(own), relay.const(made)
    pool = ConstantPool()
    pool.add(own)
    pool.move(new, pool.add(made))
    digest = new.data.digest()
    blob = pool.blob()
    assert np.shares_memory(new.value, blob) and np.shares_memory(given.value, own)
    np.testing.assert_array_equal(new.value, made)
    assert new.data.digest() == digest and not new.data.flags.writeable


def test_build_leaves_the_constants_of_the_program() -> None:
    mod = network()
    first = relay.build(mod, "llvm")
    for value in first.get_params().values():
        value.copyfrom(np.zeros(value.shape, str(value.dtype)))
    np.testing.assert_array_equal(
        relay.build(mod, "llvm").constants().numpy(), relay.build(network(), "llvm").constants().numpy()
    )
