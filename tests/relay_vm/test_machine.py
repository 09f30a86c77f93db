"""The machine as a host sees it: arguments, results, states, errors, threads; damaged bytecode."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, runtime
from tilewright.relay.backend.vm import Executable, VMCompiler, compile
from tilewright.relay.backend.vm.code import Instruction, Label, checksum
from tilewright.runtime.container import ADT, tuple_object
from tilewright.runtime.vm import VirtualMachine

TEXT = """
def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(2, 3), float32]) { (%x + %y, %x - %y) }
def @scale(%x: Tensor[(4), float32], %k: float32) { %x * %k }
def @pair(%p: (Tensor[(2), float32], Tensor[(2), float32])) { %p.0 + %p.1 }
"""
X, Y = np.arange(6, dtype="float32").reshape(2, 3), np.full((2, 3), 2, "float32")


@pytest.fixture(scope="module")
def exe() -> Executable:
    return compile(relay.parse(TEXT), "llvm")


@pytest.fixture
def vm(exe: Executable) -> VirtualMachine:
    return VirtualMachine(exe, tvm.cpu())


def test_results_and_arguments(vm: VirtualMachine) -> None:
    total, rest = vm.run(X, Y)
    np.testing.assert_array_equal(total.numpy(), X + Y)
    np.testing.assert_array_equal(rest.numpy(), X - Y)
    np.testing.assert_array_equal(vm.run(y=Y, x=tvm.nd.array(X))[1].numpy(), X - Y)
    np.testing.assert_array_equal(vm.invoke("scale", np.ones(4, "float32"), 2.5).numpy(), np.full(4, 2.5))
    np.testing.assert_array_equal(vm.invoke("scale", np.arange(8, dtype="float32")[::2], 1).numpy(), [0, 2, 4, 6])
    a, b = np.ones(2, "float32"), np.arange(2, dtype="float32")
    for pair in ([a, b], tuple_object([tvm.nd.array(a), tvm.nd.array(b)])):
        np.testing.assert_array_equal(vm.invoke("pair", pair).numpy(), a + b)


def test_tuples_as_python_sees_them(vm: VirtualMachine) -> None:
    result = vm.run(X, Y)
    assert isinstance(result, ADT) and result.tag == 0 and len(result) == 2
    assert len(list(result)) == 2 and len(result[:1]) == 1
    np.testing.assert_array_equal(result[-1].numpy(), X - Y)
    with pytest.raises(IndexError, match="field 2 of a value with 2 was asked for"):
        result[2]


def test_arguments_are_not_written_and_results_stay(vm: VirtualMachine) -> None:
    first = vm.run(X, Y)[0]
    vm.run(Y, Y)
    np.testing.assert_array_equal(first.numpy(), X + Y)


def test_stateful_runs(vm: VirtualMachine) -> None:
    vm.set_input("main", X, Y)
    vm.invoke_stateful("main")
    total, rest = vm.get_outputs()
    np.testing.assert_array_equal(total.numpy(), X + Y)
    vm.set_one_input("main", "y", X)
    vm.set_one_input("main", x=Y)
    out = [tvm.nd.empty((2, 3)), tvm.nd.empty((2, 3))]
    vm.set_outputs("main", *out)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(out[1].numpy(), Y - X)
    np.testing.assert_array_equal(rest.numpy(), X - Y)
    assert vm.get_input_index("y") == 1 and vm.get_input_index("k", "scale") == 1
    assert vm.benchmark(tvm.cpu(), X, Y, number=2, repeat=2).mean > 0
    assert vm.benchmark(tvm.cpu(), X, Y, number=2, repeat=2, end_to_end=True).mean > 0


def test_inputs_that_were_set(vm: VirtualMachine) -> None:
    vm.set_input("main", y=Y, other=X, x=X)
    np.testing.assert_array_equal(vm.run()[0].numpy(), X + Y)
    np.testing.assert_array_equal(vm.invoke("main")[1].numpy(), X - Y)
    vm.invoke_stateful("main", Y, y=X)
    np.testing.assert_array_equal(vm.get_outputs()[1].numpy(), Y - X)


def test_outputs_of_a_program(vm: VirtualMachine) -> None:
    for given in ([X, Y], {"y": Y, "x": X}, None):
        out = [tvm.nd.empty((2, 3)), tvm.nd.empty((2, 3))]
        vm.invoke_with_outputs("main", given, out)
        np.testing.assert_array_equal(out[0].numpy(), X + Y)
        np.testing.assert_array_equal(out[1].numpy(), X - Y)
    vm.invoke_stateful("main", Y, Y)
    np.testing.assert_array_equal(out[1].numpy(), X - Y)


def test_a_program_for_another_machine(tmp_path: Path) -> None:
    target = "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72"
    exe = relay.vm.compile(relay.parse("def @main(%x: Tensor[(2), float32]) { tanh(%x) }"), target)
    _, lib = exe.save()
    lib.export_library(str(tmp_path / "lib.tar"))
    assert (tmp_path / "lib.tar").stat().st_size > 1000
    with pytest.raises(tvm.TVMError, match="which is not this machine, so it cannot run here"):
        VirtualMachine(exe)


def test_saved_and_loaded(exe: Executable, tmp_path: Path) -> None:
    exe.export_library(str(tmp_path / "p.so"))
    loaded = VirtualMachine(runtime.load_module(tmp_path / "p.so"), tvm.cpu())
    np.testing.assert_array_equal(loaded.run(X, Y)[0].numpy(), X + Y)
    code, lib = exe.save()
    lib.export_library(str(tmp_path / "lib.so"))
    (tmp_path / "code.ro").write_bytes(code)
    apart = Executable.load_exec(
        bytearray((tmp_path / "code.ro").read_bytes()), runtime.load_module(tmp_path / "lib.so")
    )
    np.testing.assert_array_equal(VirtualMachine(apart, tvm.cpu()).run(X, Y)[1].numpy(), X - Y)


def test_facts(exe: Executable) -> None:
    assert exe.globals == ["main", "scale", "pair"]
    assert exe.get_function_params("scale") == ["x", "k"]
    assert len(exe.primitive_ops) == 4 and "kernel fused_add" in exe.bytecode
    assert "functions: main, scale, pair" in exe.stats


def test_compiler_object() -> None:
    mod = relay.parse("def @main(%x: Tensor[(2), float32], %w: Tensor[(2), float32]) { %x * %w }")
    compiler = VMCompiler()
    with pytest.raises(tvm.TVMError, match="nothing was lowered yet"):
        compiler.get_exec()
    compiler.set_params({"w": np.array([2, 3], "float32")})
    compiler.lower(mod, "llvm")
    compiler.codegen()
    vm = VirtualMachine(compiler.get_exec(), tvm.cpu())
    np.testing.assert_array_equal(vm.run(np.ones(2, "float32")).numpy(), [2, 3])


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda vm: vm.run(X), TypeError, "main takes 2 arguments, but 1 were given"),
        (lambda vm: vm.run(X, z=Y), TypeError, "main takes x, y; not given: y; unknown names: z"),
        (lambda vm: vm.run(x=X), TypeError, "main takes x, y; not given: y"),
        (
            lambda vm: vm.run(X, Y.astype("float64")),
            TypeError,
            "argument `y` of main must be a tensor (2, 3) float32, but is (2, 3) float64",
        ),
        (
            lambda vm: vm.run(X, Y[:1]),
            ValueError,
            "argument `y` of main must be a tensor (2, 3) float32, but is (1, 3) float32",
        ),
        (
            lambda vm: vm.run(X, "y"),
            TypeError,
            "argument `y` of main must be a tensor (2, 3) float32, but a string was given",
        ),
        (lambda vm: vm.invoke("f", X), ValueError, "the program has no function `f`; it has main, scale, pair"),
        (lambda vm: vm.invoke("pair", X), TypeError, "pair: a tuple or a value of a data type was expected, but"),
        (lambda vm: vm.invoke_stateful("scale"), ValueError, "the input `x` of scale was not set; call set_input first"),
        (lambda vm: vm.get_input_index("z"), ValueError, "main has no parameter `z`; it has x, y"),
        (lambda vm: VirtualMachine(relay.build(relay.parse("def @main(%x: Tensor[(2), float32]) { tanh(%x) }"), "llvm")),
         ValueError, "this library holds a model for the AotExecutor, which is not a program of the virtual machine"),
    ],
)  # fmt: skip
def test_wrong_calls(vm: VirtualMachine, call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call(vm)
    assert str(caught.value).startswith(text)


def test_arguments_that_were_set_before(vm: VirtualMachine) -> None:
    vm.set_input("main", y=Y, x=X)
    np.testing.assert_array_equal(vm.run()[1].numpy(), X - Y)
    vm.set_one_input("main", "x", Y)
    np.testing.assert_array_equal(vm.invoke("main")[0].numpy(), Y + Y)
    with pytest.raises(ValueError, match="the input `x` of scale was not set; call set_input first"):
        vm.invoke("scale")


def test_as_classic_programs_open_it(exe: Executable) -> None:
    machine = exe["vm_load_executable"]()
    with pytest.raises(
        RuntimeError, match="has no devices yet, so that it has no function `invoke`; call `init` first"
    ):
        machine["invoke"]
    with pytest.raises(TypeError, match="init takes the type, the number and the kind of allocator of each device"):
        machine["init"](1, 0)
    for others in ([], [1, 0, 1]):  # the CPU once more, as for programs of another device
        machine["init"](1, 0, VirtualMachine.POOLED_ALLOCATOR, *others)
        machine["set_input"]("main", tvm.nd.array(X), tvm.nd.array(Y))
        np.testing.assert_array_equal(machine["invoke"]("main")[0].numpy(), X + Y)
    assert not machine.implements_function("no_such")
    ahead = relay.build(relay.parse("def @main(%x: Tensor[(2), float32]) { tanh(%x) }"), "llvm").lib
    assert not ahead.implements_function("vm_load_executable")


def test_recursion_without_base_case() -> None:
    mod = relay.parse("def @main(%n: int32) -> int32 { @main(%n + 1) * 2 }")
    vm = VirtualMachine(compile(mod, "llvm"), tvm.cpu(), depth_limit=5000)
    for _ in range(2):
        with pytest.raises(RecursionError) as caught:
            vm.run(np.int32(0))
        assert str(caught.value) == (
            "calls nest deeper than 5000; the last one is of main. Does its recursion have a base case?"
        )


def test_loops_take_no_depth() -> None:
    mod = relay.parse("def @main(%n: int32, %s: int32) -> int32 { if (%n == 0) { %s } else { @main(%n - 1, %s + 1) } }")
    vm = VirtualMachine(compile(mod, "llvm"), tvm.cpu(), depth_limit=10)
    assert int(vm.run(np.int32(20_000), np.int32(0)).numpy()) == 20_000


def test_long_lists_are_dropped_without_recursion() -> None:
    base = relay.IRModule()
    relay.Prelude(base)
    mod = relay.parse(
        """
        def @grow(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @grow(%n - 1, Cons(%n, %l)) } }
        def @main(%n: int32) { @grow(%n, Nil()) }""",
        init_module=base,
    )
    vm = VirtualMachine(compile(mod, "llvm"), tvm.cpu())
    value = vm.run(np.int32(200_000))
    assert value.tag == mod.get_type("List")[1].tag
    del value


def test_unmatched_value() -> None:
    mod = relay.parse("""
    type Shape { Dot, Line(int32), Box(int32, int32) }
    def @main(%s: Shape) { match? (%s) { Line(%x) => %x, Box(%x, _) => %x } }""")
    vm = VirtualMachine(compile(mod, "llvm"), tvm.cpu())
    _, dot, _, box = mod.get_type("Shape")
    assert int(vm.run(ADT(box.tag, [tvm.nd.array(np.int32(7)), tvm.nd.array(np.int32(8))])).numpy()) == 7
    with pytest.raises(RuntimeError) as caught:
        vm.run(ADT(dot.tag))
    assert "no clause of the match fits the value; its clauses are Line(%x), Box(%x, _)." in str(caught.value)


def test_threads_share_a_machine() -> None:
    mod = relay.parse("""
    def @main(%n: int32, %x: Tensor[(64), float32]) -> Tensor[(64), float32] {
      if (%n == 0) { %x } else { @main(%n - 1, %x + 1f) }
    }""")
    vm = VirtualMachine(compile(mod, "llvm"), tvm.cpu())
    wrong: list[Any] = []

    def work(k: int) -> None:
        for n in range(30):
            got = vm.run(np.int32(n), np.full(64, k, "float32")).numpy()
            if not (got == k + n).all():
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_damaged_bytecode_is_refused(exe: Executable) -> None:
    """Every cut and every flipped bit: a clear error before anything runs."""
    code, lib = exe.save()
    for size in range(0, len(code), 8):
        with pytest.raises(ValueError, match="the bytecode is damaged|is not a program"):
            Executable.load_exec(code[:size], lib)
    rng = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(code)
        bad[rng.integers(0, len(code))] ^= 1 << int(rng.integers(0, 8))
        with pytest.raises(ValueError, match="the bytecode is damaged"):
            Executable.load_exec(bad, lib)


def test_code_that_is_wrong_by_itself_is_refused(exe: Executable) -> None:
    """Words changed at random under a right checksum: refused when it names what is not there, and never a crash."""
    code, lib = exe.save()
    words = np.frombuffer(bytes(code), "<i8")
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        bad = words.copy()
        bad[rng.integers(2, len(bad))] = rng.choice([-1, 0, 1, 7, 1 << 20, 1 << 40, -(1 << 62)])
        bad.view("<u8")[1] = checksum(bad[2:].tobytes())
        try:
            Executable.load_exec(bad.tobytes(), lib)
        except (ValueError, MemoryError):
            refused += 1
    assert refused > 200


@pytest.mark.parametrize("name", ["goto", "if_tag"])
def test_a_loop_without_an_end_is_interrupted(name: str) -> None:
    """Code that jumps to itself, as no compiler makes it."""
    exe = compile(relay.parse("def @main(%p: (float32, float32)) { %p.0 + %p.1 }"), "llvm")
    back = Label()
    operands = (back,) if name == "goto" else (0, 1, back)
    exe.program.functions[0].code[:0] = [back, Instruction(name, *operands)]
    code = exe.program.to_bytes(lambda dtype: runtime.parse_dtype(str(dtype)))
    loop = VirtualMachine(Executable.load_exec(code, exe.lib), tvm.cpu())
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(tuple_object([runtime.array(np.float32(1)), runtime.array(np.float32(2))]))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, previous)


def test_ill_typed_programs_name_the_place() -> None:
    with pytest.raises(tvm.TVMError, match="a.relay:1:"):
        compile(relay.parse("def @main(%x: Tensor[(2), float32]) { %x + zeros(shape=[3]) }", "a.relay"), "llvm")
    with pytest.raises(tvm.TVMError, match="no relay function to call"):
        compile(relay.IRModule(), "llvm")


def test_tensors_at_once() -> None:
    """What runs took at the most since it was last asked; a library says what its main takes and answers."""
    x = relay.var("x", shape=(relay.Any(), 64))
    main = relay.Function([x], relay.nn.softmax(relay.nn.relu(x)))
    executable = relay.vm.compile(tvm.IRModule.from_expr(main), "llvm")
    facts = json.loads(executable["get_metadata"]())
    assert [i["name"] for i in facts["inputs"]] == ["x"] and facts["inputs"][0]["shape"][1] == 64
    machine = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu())
    peak = machine.module["peak_memory"]
    for rows in (64, 8):
        machine.run(tvm.nd.array(np.zeros((rows, 64), "float32")))
        assert rows * 64 * 4 <= peak() <= 4 * rows * 64 * 4


def test_a_constant_as_result_outlives_the_machine() -> None:
    """Of 4 MB, which the allocator gives back to the system at once."""
    expected = np.arange(1 << 20, dtype="float32")
    mod = tvm.IRModule.from_expr(relay.Function([], relay.Tuple([relay.const(expected), relay.const(expected + 1)])))
    first, second = VirtualMachine(compile(mod, "llvm"), tvm.cpu()).run()
    del mod
    np.testing.assert_array_equal(first.numpy(), expected)
    np.testing.assert_array_equal(second.numpy(), expected + 1)
