import os

import numpy as np
import tvm
from tvm import relay, te
from tvm.contrib import utils

folder = utils.tempdir()
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
s = te.create_schedule(B.op)
machines = {
    "aarch64": ("llvm -mtriple=aarch64-linux-gnu -mattr=+neon", 183),
    "riscv": ("llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d,+c -mabi=lp64d", 243),
    "arm": ("llvm -mtriple=armv7l-linux-gnueabihf -mattr=+neon", 40),
}
for name, (text, machine) in machines.items():
    target = tvm.target.Target(text)
    f = tvm.build(s, [A, B], target, name="plus_one")
    path = folder.relpath(f"{name}.o")
    f.save(path)
    with open(path, "rb") as file:
        head = file.read(20)
    assert head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") == machine, name
    x = relay.var("x", shape=(1, 8))
    w = relay.const(np.ones((4, 8), "float32"))
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, w))), target)
    lib.export_library(folder.relpath(f"{name}.tar"))
    assert os.path.getsize(folder.relpath(f"{name}.tar")) > 500
    graph, code, params = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, w))), target)
    code.save(folder.relpath(f"{name}_model.o"))
    with open(folder.relpath(f"{name}_model.o"), "rb") as file:
        assert int.from_bytes(file.read(20)[18:20], "little") == machine
