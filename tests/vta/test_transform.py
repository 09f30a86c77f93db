"""The passes of `vta.transform`: what they make of small programs, and what kernels of it compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.vta.test_compiler import SMALL
from tilewright import nd, rpc, te, tir, vta
from tilewright.ir import IRModule
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.tir.stmt_functor import post_order_visit
from tilewright.vta import build_module, transform
from tilewright.vta.compiler.emitter import kernels_of
from tilewright.vta.environment import Environment


@pytest.fixture
def env() -> Iterator[Environment]:
    with Environment(SMALL) as found:
        vta.reconfig_runtime(rpc.LocalSession())
        yield found


def after(func: Any, *passes: Any) -> Any:
    """A function after passes."""
    mod = IRModule({"main": func})
    for p in passes:
        mod = p(mod)
    return mod["main"]


def calls(func: Any) -> list[Any]:
    """The calls of the driver, in their order: names and arguments, but for the queue and for addresses."""
    found = []

    def look(e: Any) -> None:
        if isinstance(e, tir.Call) and e.op.name == "tir.call_extern" and e.args[0].value != "VTATLSCommandHandle":
            found.append((e.args[0].value, *[int(a) for a in e.args[1:] if isinstance(a, tir.IntImm)]))

    post_order_visit(func.body, look)
    return found


@T.prim_func
def padded_load(a: T.Buffer((4, 6, 4), "int8"), out: T.Buffer((1,), "int8")) -> None:
    buf = T.allocate([6 * 8 * 4], "int8", "local.inp_buffer")
    held = T.Buffer((6 * 8 * 4,), "int8", data=buf, scope="local.inp_buffer")
    with T.attr(0, "pragma_dma_copy", 1):
        for i, j, k in T.grid(6, 8, 4):
            held[i * 32 + j * 4 + k] = T.if_then_else(
                i >= 1 and i < 5 and j >= 1 and j < 7, a[i - 1, j - 1, k], T.int8(0), dtype="int8"
            )
    out[0] = held[0]


def test_copies(env: Environment) -> None:
    """Offset, columns, rows, stride, padding (left, top, right, bottom), zeros, the memory."""
    assert calls(after(padded_load, transform.InjectDMAIntrin())) == [
        ("VTALoadBuffer2D", 0, 6, 4, 6, 1, 1, 1, 1, 0, env.dev.MEM_ID_INP)
    ]


def test_copies_that_are_none(env: Environment) -> None:
    @T.prim_func
    def in_dram(a: T.Buffer((8,), "int8"), b: T.Buffer((8,), "int8")) -> None:
        with T.attr(0, "pragma_dma_copy", 1):
            for i in range(8):
                b[i] = a[i]

    @T.prim_func
    def in_parts(a: T.Buffer((8,), "int8"), out: T.Buffer((1,), "int8")) -> None:
        buf = T.allocate([8], "int8", "local.inp_buffer")
        held = T.Buffer((8,), "int8", data=buf, scope="local.inp_buffer")
        with T.attr(0, "pragma_dma_copy", 1):
            for i in range(4):
                held[i] = a[i * 2]
        out[0] = held[0]

    with pytest.raises(TVMError, match="a copy is between DRAM and the accelerator, but `a` is in 'global' and `b`"):
        after(in_dram, transform.InjectDMAIntrin())
    with pytest.raises(TVMError, match="a copy is of whole elements, 4 numbers that lie behind each other"):
        after(in_parts, transform.InjectDMAIntrin())


@T.prim_func
def arithmetic(out: T.Buffer((1,), "int32")) -> None:
    buf = T.allocate([48], "int32", "local.acc_buffer")
    acc = T.Buffer((48,), "int32", data=buf, scope="local.acc_buffer")
    with T.attr(0, "pragma_alu", 1):
        for i, j, k in T.grid(2, 3, 4):
            acc[i * 12 + j * 4 + k] = T.max(acc[i * 12 + j * 4 + k] + acc[24 + i * 12 + j * 4 + k], 7)
    out[0] = acc[0]


def test_arithmetic(env: Environment) -> None:
    annotated = after(arithmetic, transform.AnnotateALUCoProcScope())
    assert '"coproc_uop_scope"' in annotated.script() and '"coproc_scope"' in annotated.script()
    add, larger = env.dev.ALU_OPCODE_ADD, env.dev.ALU_OPCODE_MAX
    steps = after(annotated, transform.InjectALUIntrin())
    # mode, reset, (addresses), wgt, operation, whether there is a constant, the constant
    pushes = [("VTAUopPush", 1, 0, 0, add, 0, 0), ("VTAUopPush", 1, 0, 0, larger, 1, 7)]
    assert calls(steps) == pushes
    loops = [("VTAUopLoopBegin", 2, 3, 3, 0), ("VTAUopLoopBegin", 3, 1, 1, 0)]
    ends = [("VTAUopLoopEnd",)] * 2
    assert calls(after(steps, transform.FoldUopLoop())) == [*loops, pushes[0], *ends, *loops, pushes[1], *ends]
    with pytest.raises(TVMError, match="the ALU of the accelerator cannot compute"):
        after(divided, transform.AnnotateALUCoProcScope(), transform.InjectALUIntrin())


@T.prim_func
def divided(out: T.Buffer((1,), "int32")) -> None:
    buf = T.allocate([4], "int32", "local.acc_buffer")
    acc = T.Buffer((4,), "int32", data=buf, scope="local.acc_buffer")
    with T.attr(0, "pragma_alu", 1):
        for k in range(4):
            acc[k] = acc[k] // 3
    out[0] = acc[0]


def test_what_is_left_out(env: Environment) -> None:
    @T.prim_func
    def marked(a: T.Buffer((8,), "int32")) -> None:
        with T.attr(0, "pragma_skip_dma_copy", 1):
            a[0] = 1
        with T.attr(0, "pragma_skip_alu", 1):
            a[1] = 2
        with T.attr(0, "pragma_trim_loop", 1):
            for i in range(8):
                a[i] = 3
        with T.attr(0, "pragma_coproc_sync", 1):
            a[2] = 4

    made = after(
        marked, transform.InjectSkipCopy(), transform.AnnotateALUCoProcScope(), transform.InjectCoProcSync()
    ).script()
    assert "= 1" not in made and "= 2" not in made and "range(2)" in made and made.count("coproc_sync") == 1


def test_allocations_at_the_start(env: Environment) -> None:
    @T.prim_func
    def late(a: T.Buffer((8,), "int32")) -> None:
        for i in range(8):
            buf = T.allocate([4], "int32", "local.acc_buffer")
            held = T.Buffer((4,), "int32", data=buf, scope="local.acc_buffer")
            held[0] = a[i]
            a[i] = held[0] + 1

    assert isinstance(late.body, tir.For)
    assert isinstance(after(late, transform.LiftAllocToScopeBegin()).body, tir.Allocate)


def test_addresses_for_the_cpu(env: Environment) -> None:
    @T.prim_func
    def both(a: T.Buffer((8,), "int32"), b: T.Buffer((8,), "int32")) -> None:
        a[0] = a[1]
        with T.attr(0, "coproc_scope", 2):
            b[0] = b[1]

    made = after(both, transform.CPUAccessRewrite())
    assert [name for name, *_ in calls(made)] == ["VTABufferCPUPtr"] and isinstance(made.body, tir.LetStmt)
    assert made.body.body.seq[0].buffer.data is made.body.var


def test_other_names_of_building(env: Environment) -> None:
    """Memories in bits; tokens and waits as calls of the classic driver."""
    wgt = build_module.mem_info_wgt_buffer()
    assert (wgt.unit_bits, wgt.max_num_bits) == (16 * 8, 8 << SMALL["LOG_WGT_BUFF_SIZE"])
    assert build_module.mem_info_inp_buffer().unit_bits == 32 and build_module.mem_info_acc_buffer().unit_bits == 128
    token = tir.Call("int32", "tir.vta.coproc_dep_push", (1, 2))
    for make, name in (
        (build_module.coproc_sync, "VTASynchronize"),
        (build_module.coproc_dep_push, "VTADepPush"),
        (build_module.coproc_dep_pop, "VTADepPop"),
    ):
        assert make(token).args[0].value == name


def test_a_loop_of_an_instruction_without_its_end(env: Environment) -> None:
    @T.prim_func
    def open_loop(a: T.Buffer((8,), "int32")) -> None:
        T.func_attr({"global_symbol": "open_loop"})
        T.evaluate(T.call_extern("int32", "VTAUopLoopBegin", 3, 1, 1, 0))

    with pytest.raises(TVMError, match="a loop of an instruction, VTAUopLoopBegin of 3 trips, has no VTAUopLoopEnd"):
        kernels_of([open_loop], env.configuration)


def test_added_passes_of_all_phases(env: Environment) -> None:
    """Kernels are lowered to loops only; passes that are added behind these run all the same."""
    seen = []

    def note(phase: int) -> Any:
        return lambda func, mod, ctx: seen.append(phase) or func

    x = te.placeholder((2, 1, 4), "int32", "x")
    held = te.compute(x.shape, lambda *i: x(*i), "held")
    res = te.compute(x.shape, lambda *i: held(*i).astype("int8"), "res")
    s = te.create_schedule(res.op)
    s[held].set_scope(env.acc_scope)
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(n, note(n)) for n in (3, 1, 2, 0)]}):
        vta.build(s, [x, res], env.target)
    assert seen == [0, 1, 3, 2]


def test_products_of_zeros_are_left_out(env: Environment) -> None:
    """A transposed convolution whose data has zeros between its rows: a step of the array where there is none."""
    size, stride, kernel = 3, 2, 3
    rows = (size - 1) * stride + 1
    data = te.placeholder((1, 2, size, size, 1, 4), "int8", "data")
    weight = te.placeholder((2, 2, kernel, kernel, 4, 4), "int8", "weight")
    data_buf, weight_buf = (te.compute(t.shape, lambda *i, t=t: t(*i), f"{t.op.name}_buf") for t in (data, weight))
    ko, dy, dx, ki = (te.reduce_axis((0, n), name) for n, name in ((2, "ko"), (3, "dy"), (3, "dx"), (4, "ki")))

    def term(b: Any, o: Any, y: Any, x: Any, r: Any, c: Any) -> Any:
        down, right = y + dy - 1, x + dx - 1
        inside = tir.all(down >= 0, down < rows, right >= 0, right < rows)
        there = tir.all(inside, down % stride == 0, right % stride == 0)
        value = tir.Select(there, data_buf[b, ko, down // stride, right // stride, r, ki], tir.const(0, "int8"))
        return te.sum(value.astype("int32") * weight_buf[o, ko, dy, dx, c, ki].astype("int32"), axis=[ko, dy, dx, ki])

    sums = te.compute((1, 2, rows, rows, 1, 4), term, "sums")
    res = te.compute(sums.shape, lambda *i: sums(*i).astype("int8"), "res")
    s = te.create_schedule(res.op)
    s[data_buf].set_scope(env.inp_scope)
    s[weight_buf].set_scope(env.wgt_scope)
    s[sums].set_scope(env.acc_scope)
    b, o, y, x, r, c = s[sums].op.axis
    s[sums].reorder(b, ko, dy, dx, o, y, x, r, c, ki)
    s[sums].pragma(r, "conv2d_transpose_gemm")
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, transform.InjectConv2DTransposeSkip())]}):
        f = vta.build(s, [data, weight, res], env.target)
    rng = np.random.default_rng(0)
    w = rng.integers(-5, 6, (2, 2, kernel, kernel, 4, 4)).astype("int8")
    v = rng.integers(-5, 6, (1, 2, size, size, 1, 4)).astype("int8")
    device = tvm.ext_dev(0)
    out = nd.empty((1, 2, rows, rows, 1, 4), "int8", device)
    vta.testing.simulator.clear_stats()
    f(nd.array(v, device), nd.array(w, device), out)
    wide = np.zeros((1, 2, rows + 2, rows + 2, 1, 4), "int64")
    wide[:, :, 1:-1:stride, 1:-1:stride] = v
    expected = sum(
        [
            np.einsum("bkyxri,okci->boyxrc", wide[:, :, i : i + rows, j : j + rows], w[:, :, i, j].astype("int64"))
            for i in range(kernel)
            for j in range(kernel)
        ]
    )
    np.testing.assert_array_equal(out.numpy(), expected.astype("int8"))
    # Of 25 results nine kernel offsets each: those of 9 rows of data, and the reset.
    assert vta.testing.simulator.stats()["gemm_counter"] < 25 * 9 * 4 / 2
