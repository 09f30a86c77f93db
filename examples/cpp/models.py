"""Writes the compiled models that the programs of this folder run: python models.py FOLDER"""

import argparse
from pathlib import Path

import numpy as np

import tilewright as tvm
from tilewright import relay, te

TREE = """
type Tree { Word(Tensor[(1, 4), float32]), Pair(Tree, Tree) }
def @main(%t: Tree) { @sum(%t) }
def @sum(%t: Tree) -> Tensor[(1, 4), float32] {
  match (%t) { Word(%x) => %x, Pair(%l, %r) => @sum(%l) + @sum(%r) }
}"""


def write(folder: Path, target: str = "llvm") -> None:
    """An operator, one model in the forms that programs load, and a program with a data type."""
    folder.mkdir(parents=True, exist_ok=True)
    a = te.placeholder((10,), name="a")
    b = te.compute(a.shape, lambda i: a[i] + 1.0, name="b")
    tvm.build(te.create_schedule(b.op), [a, b], target, name="addone").export_library(str(folder / "addone.so"))

    x, w = relay.var("x", shape=(2, 2)), relay.var("w", shape=(2, 2))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.add(x, w)))
    params = {"w": np.array([[1, 2], [3, 4]], "float32")}
    relay.build(mod, target=target, params=params).export_library(str(folder / "model.so"))
    graph, kernels, weights = relay.build(mod, target, params=params, executor=relay.backend.Executor("graph"))
    kernels.export_library(str(folder / "deploy.so"))
    (folder / "deploy.json").write_text(graph)
    (folder / "deploy.params").write_bytes(relay.save_param_dict(weights))

    relay.vm.compile(relay.parse(TREE), target=target).export_library(str(folder / "program.so"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="llvm", help="default: this machine")
    arguments = parser.parse_args()
    write(arguments.folder, arguments.target)
