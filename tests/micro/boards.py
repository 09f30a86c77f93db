"""Emulated boards for tests: QEMU as `make build/qemu-system/.done` unpacks it, and small programs in C and TE."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import relay, te
from tilewright.micro.board import board, known_boards

ROOT = Path(__file__).resolve().parents[2] / "build" / "qemu-system"
EMULATED = [name for name in known_boards() if board(name).qemu is not None]


def use_qemu() -> None:
    """Lets sessions find QEMU and its libraries. Raises FileNotFoundError where it was not unpacked."""
    if not (ROOT / "usr" / "bin" / "qemu-system-arm").is_file():
        raise FileNotFoundError("emulated boards need QEMU: `make build/qemu-system/.done`")
    os.environ["TILEWRIGHT_QEMU_SYSTEM"] = str(ROOT / "usr" / "bin")
    folders = [str(f) for f in (*ROOT.glob("usr/lib/*-linux-gnu"), *ROOT.glob("lib/*-linux-gnu"))]
    os.environ["LD_LIBRARY_PATH"] = ":".join([*folders, os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")


def arm_gcc() -> str | None:
    """The path of arm-none-eabi-gcc: that which `make build/arm-gcc/.done` unpacks, or the one on PATH; None where there is none."""
    own = ROOT.parent / "arm-gcc" / "bin" / "arm-none-eabi-gcc"
    return str(own) if own.is_file() else shutil.which(own.name)


def exp_plus(target: Any, size: int = 8) -> Any:
    """c = 2 exp(a) + b, of float32, as a module of one function."""
    a, b = te.placeholder((size,), name="a"), te.placeholder((size,), name="b")
    c = te.compute((size,), lambda i: te.exp(a[i]) * 2.0 + b[i], name="c")
    return tvm.build(te.create_prim_func([a, b, c]), target=target, name="exp_plus")


def exp_plus_and_asks(target: Any) -> Any:
    """exp_plus, and beside it `asks`, which calls a function that no device has."""
    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    c = te.compute((8,), lambda i: te.exp(a[i]) * 2.0 + b[i], name="c")
    asked = te.extern((8,), [a], lambda ins, outs: tvm.tir.call_packed("tests.nobody", ins[0], outs[0]), name="asked")
    functions = {
        name: te.create_prim_func(args).with_attr("global_symbol", name)
        for name, args in (("exp_plus", [a, b, c]), ("asks", [a, asked]))
    }
    return tvm.build(tvm.IRModule(functions), target=target, name="exp_plus")


def network(seed: int = 0) -> tuple[tvm.IRModule, dict[str, np.ndarray[Any, Any]]]:
    """A small network of float32: x (1, 8, 8, 3) -> convolution, relu, dense, softmax -> (1, 10); its weights."""
    x, w, d = relay.var("x", shape=(1, 8, 8, 3)), relay.var("w", shape=(3, 3, 3, 4)), relay.var("d", shape=(10, 256))
    y = relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO")
    y = relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(relay.nn.relu(y)), d))
    random = np.random.default_rng(seed)
    weights = {
        "w": random.standard_normal((3, 3, 3, 4)).astype("float32"),
        "d": random.standard_normal((10, 256)).astype("float32") / 8,
    }
    return tvm.IRModule.from_expr(relay.Function([x, w, d], y)), weights


KERNELS = b"""
#include <stdint.h>
int32_t write_nowhere(void** args);
int32_t undefined(void** args);
int32_t endless(void** args);
int32_t refuses(void** args);
int32_t deep(void** args);
int32_t adds(void** args);
int32_t says(void** args);
int32_t resets(void** args);
extern void tw_platform_log(const char* text, uint32_t length);
int32_t write_nowhere(void** args) { (void)args; *(volatile uint32_t*)NOWHERE = 1; return 0; }
int32_t undefined(void** args) { (void)args; __builtin_trap(); return 0; }
int32_t endless(void** args) { volatile uint32_t on = 1; (void)args; while (on) {} return 0; }
int32_t refuses(void** args) { (void)args; return 7; }
static volatile int32_t (*again)(volatile int32_t);
static volatile int32_t down(volatile int32_t n) {
  volatile int32_t held[128];
  held[n & 127] = n;
  return n == 0 ? 0 : again(n - 1) + held[n & 127];
}
int32_t deep(void** args) { again = down; return (int32_t)again(*(int32_t*)args[0]) * 0; }
int32_t adds(void** args) { *(int32_t*)args[0] += 1; return 0; }
int32_t says(void** args) { tw_platform_log((const char*)args[0], *(uint32_t*)args[1]); return 0; }
int32_t resets(void** args) { (void)args; *(volatile uint32_t*)0xE000ED0Cu = 0x05FA0004u; for (;;) {} }
"""
"""Kernels that go wrong, and one that does not."""


BARE = {
    "executor": relay.backend.Executor("aot", {"unpacked-api": True, "interface-api": "c"}),
    "runtime": relay.backend.Runtime("crt"),
}
"""Options of relay.build for code without the runtime's interface."""


def built(name: str, kind: str, executor: str) -> Any:
    """The network, compiled for a board. executor: "bare", "aot" or "graph"."""
    mod, weights = network()
    how: dict[str, Any] = BARE if executor == "bare" else {"executor": relay.backend.Executor(executor)}
    return relay.build(mod, board(name).target(kind), params=weights, mod_name="net", **how)


def quantised_network(seed: int = 0) -> tuple[tvm.IRModule, dict[str, np.ndarray[Any, Any]]]:
    """A small network of int8: x (1, 8, 8, 8) -> depthwise and pointwise convolutions, pooling, dense -> (1, 10) int8."""
    random, weights = np.random.default_rng(seed), {}

    def given(name: str, shape: tuple[int, ...], low: int, high: int, dtype: str) -> relay.Expr:
        weights[name] = random.integers(low, high, shape).astype(dtype)
        return relay.var(name, shape=shape, dtype=dtype)

    def scaled(value: relay.Expr, bias: relay.Expr, scale: float) -> relay.Expr:
        summed = relay.nn.bias_add(value, bias, axis=-1)
        f = relay.const
        return relay.qnn.op.requantize(summed, f(scale), f(0), f(1.0), f(-3), axis=-1, out_dtype="int8")

    def product(op: Any, data: relay.Expr, weight: relay.Expr, **how: Any) -> relay.Expr:
        f = relay.const
        return op(data, weight, f(-3), f(0), f(1.0), f(1.0), **how)

    layout = {"data_layout": "NHWC", "kernel_layout": "HWIO", "kernel_size": (1, 1), "channels": 16}
    depthwise = {
        "data_layout": "NHWC",
        "kernel_layout": "HWOI",
        "kernel_size": (3, 3),
        "channels": 8,
        "groups": 8,
        "padding": (1, 1),
    }
    x = relay.var("x", shape=(1, 8, 8, 8), dtype="int8")
    y = product(relay.qnn.op.conv2d, x, given("w0", (3, 3, 8, 1), -127, 128, "int8"), **depthwise)
    y = relay.nn.relu(scaled(y, given("b0", (8,), -2000, 2000, "int32"), 0.004))
    y = product(relay.qnn.op.conv2d, y, given("w1", (1, 1, 8, 16), -127, 128, "int8"), **layout)
    y = scaled(y, given("b1", (16,), -2000, 2000, "int32"), 0.01)
    y = relay.nn.max_pool2d(y, (2, 2), strides=(2, 2), layout="NHWC")
    y = relay.reshape(y, (1, 256))
    y = product(relay.qnn.op.dense, y, given("w2", (10, 256), -127, 128, "int8"), units=10)
    y = scaled(y, given("b2", (10,), -2000, 2000, "int32"), 0.002)
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y)), weights
