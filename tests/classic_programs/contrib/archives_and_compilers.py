import os
import tarfile

import tvm
from tvm import te
from tvm.contrib import cc, ndk, tar, utils

folder = utils.tempdir()
with open(folder.relpath("a.txt"), "w") as f:
    f.write("a")
tar.tar(folder.relpath("a.tar"), folder.relpath("a.txt"))
assert tarfile.open(folder.relpath("a.tar")).getnames() == ["a.txt"]
out = folder.relpath("out")
os.makedirs(out)
tar.untar(folder.relpath("a.tar"), out)
assert os.listdir(out) == ["a.txt"]
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
mod = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="twice")
mod.export_library(folder.relpath("lib.tar"), fcompile=tar.tar)
assert any(n.endswith(".o") for n in tarfile.open(folder.relpath("lib.tar")).getnames())
assert callable(cc.create_shared) and cc.create_shared.output_format == "so" and callable(cc.cross_compiler("x"))
assert cc.get_target_by_dump_machine("none") is not None and callable(ndk.create_shared)
loaded = tvm.runtime.load_module(folder.relpath("lib.tar"))
assert loaded.type_key == "library" or loaded.get_function("twice")
