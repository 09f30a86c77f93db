"""Programs for the accelerator from tensor expressions: classic programs as written, random layers, and what cannot be compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.vta import layers
from tilewright import nd, rpc, te, vta
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.vta.compiler.listing import kernels_of, listing
from tilewright.vta.environment import Environment

PROGRAMS = Path(__file__).parent / "programs"
CONFIGURATIONS = {
    "default": {"TARGET": "sim"},
    "cycles": {"TARGET": "tsim"},
    "wide": {"LOG_BLOCK_IN": 5, "LOG_BLOCK_OUT": 4, "LOG_WGT_BUFF_SIZE": 19},
    "tall": {"LOG_BLOCK_IN": 3, "LOG_BLOCK_OUT": 5, "COHERENT": 0, "ACC_BUFF_SIZE": 128 * 900},
    "batch": {"LOG_BATCH": 1, "INP_BUFF_SIZE": 32 * 1000},
}


NETWORK = "residual_network"
"""The program of a network: it takes seconds, and as many inputs as outputs of the array."""


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (p.stem, name)
        for p in sorted(PROGRAMS.glob("*.py"))
        for name in CONFIGURATIONS
        if p.stem != NETWORK or name in ("default", "batch")
    ],
)
def test_classic_programs(program: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "vta_config.json").write_text(json.dumps(CONFIGURATIONS[name]))
    command = [sys.executable, "-m", "tilewright.as_tvm", str(PROGRAMS / f"{program}.py")]
    environment = {**os.environ, "VTA_HW_PATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0


@pytest.mark.parametrize("seed", range(12))
def test_random_layers(seed: int) -> None:
    found = layers.one(300 + seed, whole=seed % 4 == 0)
    assert found == ["does not fit"] or found[:2] == ["functional", "by cycles"]


SMALL = {
    "LOG_BLOCK": 2,
    "LOG_UOP_BUFF_SIZE": 8,
    "LOG_INP_BUFF_SIZE": 10,
    "LOG_WGT_BUFF_SIZE": 10,
    "LOG_ACC_BUFF_SIZE": 12,
}
SHAPE = (6, 1, 4)


@pytest.fixture
def env() -> Iterator[Environment]:
    with Environment(SMALL) as found:
        vta.reconfig_runtime(rpc.LocalSession())
        yield found


def computed(
    make: Any, env: Environment, count: int = 1, shape: tuple[int, ...] = SHAPE, dtype: str = "int32"
) -> tuple[Any, list[Any]]:
    """A kernel that computes make(accumulators...) and its arguments."""
    given = [te.placeholder(shape, dtype, f"a{n}") for n in range(count)]
    loaded = [te.compute(shape, lambda *i, x=x: x(*i), f"{x.op.name}_buf") for x in given]
    value = te.compute(shape, lambda *i: make(*[x(*i) for x in loaded]), "value")
    res = te.compute(shape, lambda *i: value(*i).astype(env.out_dtype), "res")
    s = te.create_schedule(res.op)
    for stage in (*loaded, value):
        s[stage].set_scope(env.acc_scope)
    return s, [*given, res]


def build(s: Any, args: list[Any]) -> Any:
    return vta.build(s, args, tvm.target.Target("ext_dev", host="llvm"), name="f")


def text_of(module: Any) -> str:
    return str(module.imported_modules[0].get_source("vta"))


def check(s: Any, args: list[Any], expected: Any) -> None:
    """Builds and runs a kernel of one input."""
    x = np.random.default_rng(3).integers(-9, 9, SHAPE).astype("int32")
    out = nd.empty(SHAPE, "int8", tvm.ext_dev(0))
    build(s, args)(nd.array(x, tvm.ext_dev(0)), out)
    np.testing.assert_array_equal(out.numpy(), expected(x).astype("int8"))


OPERATIONS = {
    "add": (lambda x, y: x + y, 2, ["add"]),
    "subtract": (lambda x, y: x - y, 2, None),
    "multiply": (lambda x, y: x * y, 2, ["mul"]),
    "larger": (lambda x, y: te.max(x, y), 2, ["max"]),
    "smaller": (lambda x, y: te.min(x, y), 2, ["min"]),
    "constant": (lambda x: x - 7, 1, ["add"]),
    "constant first": (lambda x: 9 - x, 1, None),
    "shift": (lambda x: (x * 3) >> 2, 1, ["mul", "shr"]),
    "shift left": (lambda x: x << 2, 1, ["mul"]),
    "quotient": (lambda x: te.floordiv(x, 8), 1, ["shr"]),
    "range": (lambda x: te.max(te.min(x, 127), -128), 1, ["clip"]),
    "bounds": (lambda x: te.min(te.max(x, 0), 100), 1, ["max", "min"]),
    "chain": (lambda x, y: te.max((x * 5 >> 1) + y, 3), 2, ["mul", "shr", "add", "max"]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str, env: Environment) -> None:
    make, count, used = OPERATIONS[name]
    module = build(*computed(make, env, count))
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-300, 300, SHAPE).astype("int32") for _ in range(count)]
    out = nd.empty(SHAPE, "int8", tvm.ext_dev(0))
    module(*[nd.array(x, tvm.ext_dev(0)) for x in inputs], out)
    # The interpreter computes the same program.
    args = [te.placeholder(SHAPE, "int32", f"a{n}") for n in range(count)]
    res = te.compute(SHAPE, lambda *i: make(*[x(*i) for x in args]).astype("int8"), "res")
    expected = nd.empty(SHAPE, "int8")
    tvm.build(te.create_prim_func([*args, res]), target="interp")(*[nd.array(x) for x in inputs], expected)
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    if used is not None:
        assert [line.split()[0][4:] for line in text_of(module).splitlines() if line.startswith("alu.")] == used


def test_results_replace_operands_that_are_read_no_more(env: Environment) -> None:
    text = text_of(build(*computed(lambda x, y: x + y, env, 2)))
    assert "reset" not in text and text.count("alu") == 1
    s, args = computed(lambda x: (x + 1) * x, env)
    assert "reset" in text_of(build(s, args))
    check(s, args, lambda x: (x + 1) * x)


def test_accumulators_that_no_step_has_written(env: Environment) -> None:
    a = te.placeholder(SHAPE, "int32", "a")
    loaded = te.compute(SHAPE, lambda *i: a(*i), "loaded")
    res = te.compute(SHAPE, lambda *i: loaded(*i).astype("int8"), "res")
    s = te.create_schedule(res.op)
    s[loaded].set_scope(env.acc_scope)
    module = build(s, [a, res])
    x = np.arange(24, dtype="int32").reshape(SHAPE)
    out = nd.empty(SHAPE, "int8", tvm.ext_dev(0))
    module(nd.array(x, tvm.ext_dev(0)), out)
    np.testing.assert_array_equal(out.numpy(), x)
    assert "alu.add uop_end=1 iter_out=1 iter_in=6 dst_factor_in=1 use_imm push_next" in text_of(module)


def test_constants_of_accumulators(env: Environment) -> None:
    for value in (0, 5, -3, 40000, -40000, 2**31 - 1, -(2**31), 0x7FFF8000):
        filled = te.compute(SHAPE, lambda *i, v=value: te.const(v, "int32"), "filled")
        high = te.compute(SHAPE, lambda *i, x=filled: x(*i) >> 24, "high")
        res = te.compute(SHAPE, lambda *i, x=high: x(*i).astype("int8"), "res")
        s = te.create_schedule(res.op)
        s[filled].set_scope(env.acc_scope)
        s[high].set_scope(env.acc_scope)
        out = nd.empty(SHAPE, "int8", tvm.ext_dev(0))
        build(s, [res])(out)
        assert set(out.numpy().ravel()) == {value >> 24}


def test_maxima_over_a_window(env: Environment) -> None:
    """A reduction of the ALU, with the smallest number around the data."""
    data = te.placeholder((5, 5, 1, 4), "int32", "data")
    lowest = -(2**31)
    padded = te.compute(
        (7, 7, 1, 4),
        lambda y, x, b, c: te.if_then_else(
            te.all(y >= 1, y < 6, x >= 1, x < 6), data[y - 1, x - 1, b, c], te.const(lowest, "int32")
        ),
        "padded",
    )
    v, u = te.reduce_axis((0, 3), "v"), te.reduce_axis((0, 3), "u")
    pooled = te.compute((5, 5, 1, 4), lambda y, x, b, c: te.max(padded[y + v, x + u, b, c], axis=[v, u]), "pooled")
    res = te.compute((5, 5, 1, 4), lambda *i: pooled(*i).astype("int8"), "res")
    s = te.create_schedule(res.op)
    s[padded].set_scope(env.acc_scope)
    s[pooled].set_scope(env.acc_scope)
    y, x, b, c = s[pooled].op.axis
    s[pooled].reorder(v, u, y, x, b, c)
    module = build(s, [data, res])
    values = np.random.default_rng(2).integers(-100, 100, (5, 5, 1, 4)).astype("int32")
    out = nd.empty((5, 5, 1, 4), "int8", tvm.ext_dev(0))
    module(nd.array(values, tvm.ext_dev(0)), out)
    around = np.pad(values, [(1, 1), (1, 1), (0, 0), (0, 0)], constant_values=lowest)
    windows = np.stack([around[v : v + 5, u : u + 5] for v in range(3) for u in range(3)])
    np.testing.assert_array_equal(out.numpy(), windows.max(axis=0))
    assert "y_pad_top=1 y_pad_bottom=1 x_pad_left=1 x_pad_right=1 pad_min" in text_of(module)


def test_loops_that_do_not_begin_at_zero(env: Environment) -> None:
    """Of a nest in a loop that runs, each trip has other first values; only at zero are a loop's numbers those of an element."""

    @T.prim_func
    def copied(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int8")) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        a = T.alloc_buffer((16,), "int32", scope="local.acc_buffer")
        for b in T.serial(4):
            for j in T.serial(b * 4, b * 4 + 4):
                a[j] = A[j]
        for b in T.serial(4):
            for j in T.serial(4):
                C[b * 4 + j] = T.Cast("int8", a[b * 4 + j])

    x, out = np.arange(16, dtype="int32"), nd.empty((16,), "int8", tvm.ext_dev(0))
    module = vta.build(copied, target=tvm.target.Target("ext_dev", host="llvm"), name="main")
    module(nd.array(x, tvm.ext_dev(0)), out)
    np.testing.assert_array_equal(out.numpy(), x)


def test_listings_come_back(env: Environment) -> None:
    text = text_of(build(*computed(lambda x, y: te.max((x * 5 >> 1) + y, 3), env, 2)))
    assert listing(kernels_of(text)) == text


def test_dumps(env: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    with vta.build_config(debug_flag=env.DEBUG_DUMP_INSN):
        build(*computed(lambda x: x + 1, env))
    assert "alu.add" in capsys.readouterr().out
    with vta.build_config(debug_flag=env.DEBUG_DUMP_UOP):
        build(*computed(lambda x: x + 1, env))
    assert capsys.readouterr().out == ".kernel f_kernel 2\nuop\n"


def refused(message: str, s: Any, args: list[Any]) -> None:
    with pytest.raises(TVMError) as error:
        build(s, args)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "make", [lambda x: x * x, lambda x: (x + 1) * x, lambda x: x - x * 3, lambda x: x * 2 + x, lambda x: 5 - x]
)
def test_values_that_use_an_operand_twice(make: Any, env: Environment) -> None:
    check(*computed(make, env), make)


def test_what_does_not_fit(env: Environment) -> None:
    shape = (300, 1, 4)
    refused(
        "`a0_buf` needs 4800 bytes of acc, but of its 4096 bytes 0 are in use: 704 are missing; use smaller tiles",
        *computed(lambda x: x + 1, env, shape=shape),
    )


def test_a_scope_that_is_missing(env: Environment) -> None:
    s, args = computed(lambda x: x + 1, env)
    s[next(stage.op for stage in s.stages if stage.op.name == "value")].set_scope("global")
    refused(
        "`value` is in the scope 'global'; the accelerator has 'local.inp_buffer', 'local.wgt_buffer', 'local.acc_buffer'",
        s,
        args,
    )


@pytest.mark.parametrize(
    ("make", "count", "message"),
    [
        (
            lambda x, y: (x + 1) * (y + 1),
            2,
            "with one operand that is computed; make a step of its own for the other one",
        ),
        (lambda x: te.floormod(x, 3), 1, "the ALU of the accelerator cannot compute"),
        (lambda x: x + 100000, 1, "the ALU takes constants of 16 bits, but is to add 100000; keep it in accumulators"),
        (
            lambda x: x.astype("int8").astype("int32") + 1,
            1,
            "accumulators keep all bits until they are stored, so they cannot be cast to int8",
        ),
    ],
)
def test_arithmetic_that_the_alu_has_not(make: Any, count: int, message: str, env: Environment) -> None:
    refused(message, *computed(make, env, count))


def test_elements_that_are_cut(env: Environment) -> None:
    refused(
        "a step works on whole elements, their numbers innermost, but not this one",
        *computed(lambda x: x + 1, env, shape=(3, 3)),
    )


def test_types_that_memories_do_not_hold(env: Environment) -> None:
    refused("acc holds int32, but `a0` has int8", *computed(lambda x: x.astype("int32") + 1, env, dtype="int8"))
    s, args = computed(lambda x: x + 1.0, env, dtype="float32")
    refused("acc holds int32, but `a0` has float32", s, args)


def test_shapes_that_are_not_known(env: Environment) -> None:
    n = te.var("n")
    refused("static shapes", *computed(lambda x: x + 1, env, shape=(n, 1, 4)))


def test_threads_that_are_not_virtual(env: Environment) -> None:
    s, args = computed(lambda x: x + 1, env)
    for stage in s.stages[1:-1]:
        if stage.op.name != "a0":
            stage.compute_at(s[args[-1]], s[args[-1]].op.axis[0])
    s[args[-1]].bind(s[args[-1]].op.axis[0], te.thread_axis("threadIdx.x"))
    refused("the accelerator has no threads; loops may be bound to virtual threads (cthread, vthread) only", s, args)


def test_a_target_of_another_environment(env: Environment) -> None:
    s, args = computed(lambda x: x + 1, env)
    with pytest.raises(
        TVMError,
        match="the target is the accelerator sim_1x16_i8w8a32_15_15_18_17, but the current environment is sim_1x4_i8w8a32_8_10_10_12",
    ):
        vta.build(s, args, tvm.target.vta(model="sim_1x16_i8w8a32_15_15_18_17"))
    assert vta.build(s, args, env.target) is not None


def test_the_mock_of_an_environment(env: Environment) -> None:
    assert env.mock is env.mock and env.mock.mock is env.mock and env.mock.BATCH == env.BATCH
    assert "VTAGemm" in str(env.gemm.reduce_update) and "VTAGemm" not in str(env.mock.gemm.reduce_update)
