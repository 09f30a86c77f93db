"""What an exported program states of its sizes is checked when it runs: ranges, relations, divisors, what PyTorch took as true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import tilewright as tvm
from tests.cli.command import command
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import ModelError, TVMError

BOUNDS = "The exported program says so: export it again with other bounds (torch.export.Dim) for such sizes"
EXAMPLE = "PyTorch took this as true when it exported the program: export it again with an example of such sizes"


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 + 1


class Two(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + y.sum()


class Same(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Shifted(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x[1:] + y


class Fours(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, 4).sum(1)


class Even(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] % 2 == 0 else x * 3


class Product(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        large = x.shape[0] * y.shape[0] > 12
        return x.sum() + y.sum() if large else x.sum() * y.sum()


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.shape[0] * 1.5 > 10 else x - 1


class Counted(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x[:n] * n


class Nested(nn.Module):
    def forward(self, d: dict[str, list[Tensor]], *rest: Tensor) -> Tensor:
        return d["a"][0] * 2 if rest[1].shape[0] > 3 and d["a"][0].shape[0] % 2 == 0 else d["a"][0]


class Program(NamedTuple):
    module: type[nn.Module]
    shapes: Any
    args: Sequence[Any]

    def exported(self) -> Any:
        """The exported program of a module and shapes of its arguments, or numbers."""
        given = [torch.ones(a) if isinstance(a, tuple) else a for a in self.args]
        return torch.export.export(self.module(), tuple(given), dynamic_shapes=self.shapes)


n, k, d = Dim("n", min=2, max=64), Dim("k", min=1, max=16), Dim("d", min=3, max=10)
CASES: dict[str, tuple[Program, Sequence[Any], dict[Any, str]]] = {
    "range": (
        Program(Plain, ({0: n},), [(4, 3)]), [((64, 3),), ((1, 3),)],
        {((65, 3),): f"dimension 0 of x must be 64 or less, but x.shape[0] is 65. {BOUNDS}"},
    ),
    "an input that nobody reads": (
        Program(Two, ({0: n}, {0: Dim("m", min=4, max=6)}), [(5, 3), (5, 3)]), [((5, 3), (6, 3))],
        {((5, 3), (7, 3)): f"dimension 0 of y must be from 4 to 6, but y.shape[0] is 7. {BOUNDS}"},
    ),
    "one size": (
        Program(Same, ({0: n}, {0: n}), [(4, 3), (4, 3)]), [((5, 3), (5, 3))],
        {((4, 3), (1, 3)): "dimension 0 of y must equal x.shape[0], but y.shape[0] is 1 and x.shape[0] is 4"},
    ),
    "one more": (
        Program(Shifted, ({0: d}, {0: d - 1}), [(5,), (4,)]), [((10,), (9,))],
        {
            ((5,), (5,)): "dimension 0 of x must equal (y.shape[0] + 1), but x.shape[0] is 5 and y.shape[0] is 5",
            ((11,), (10,)): f"dimension 0 of x must be from 3 to 10, but x.shape[0] is 11. {BOUNDS}",
            ((2,), (1,)): f"dimension 0 of x must be from 3 to 10, but x.shape[0] is 2. {BOUNDS}",
        },
    ),
    "four times": (
        Program(Fours, ({0: 4 * k},), [(8,)]), [((8,),), ((64,),)],
        {
            ((9,),): f"dimension 0 of x must be a multiple of 4, but x.shape[0] is 9. {BOUNDS}",
            ((68,),): f"dimension 0 of x must be from 4 to 64, but x.shape[0] is 68. {BOUNDS}",
        },
    ),
    "divisor": (
        Program(Even, ({0: Dim.AUTO},), [(4,)]), [((6,),)],
        {((5,),): f"the exported program needs x.shape[0] % 2 == 0, but x.shape[0] is 5. {EXAMPLE}"},
    ),
    "product": (
        Program(Product, ({0: Dim.AUTO}, {0: Dim.AUTO}), [(4,), (5,)]), [((7,), (2,))],
        {
            ((2,), (3,)): "the exported program needs y.shape[0] * x.shape[0] > 12, but y.shape[0] is 3 and x.shape[0] is 2."
            f" {EXAMPLE}"
        },
    ),
    "fraction": (
        Program(Scaled, ({0: Dim.AUTO},), [(9,)]), [((7,),)],
        {((6,),): f"the exported program needs 1.5 * torch.sym_float(x.shape[0]) > 10.0, but x.shape[0] is 6. {EXAMPLE}"},
    ),
    "number": (
        Program(Counted, ({0: Dim.AUTO}, Dim.DYNAMIC), [(9, 3), 5]), [((9, 3), 4), ((7, 3), 7)],
        {
            ((4, 3), 5): f"the exported program needs n >= 0 and n <= x.shape[0], but n is 5 and x.shape[0] is 4. {EXAMPLE}",
            ((4, 3), -1): f"n must be 0 or more, but n is -1. {BOUNDS}",
        },
    ),
}  # fmt: skip
"""Each program, with sizes that it takes, and the messages for those that it does not."""


def runs(mod: IRModule, params: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """The executors that take dynamic dimensions."""
    executors = {e: relay.create_executor(e, mod, tvm.cpu(), "llvm", params).evaluate() for e in ("vm", "debug")}
    again = tvm.parser.parse(mod.astext())
    saved = tvm.ir.load_json(tvm.ir.save_json(mod))
    made = {
        name: relay.create_executor("debug", m, params=params).evaluate()
        for name, m in [("text", again), ("json", saved)]
    }
    return {**executors, **made}


def values(given: Sequence[Any]) -> list[Any]:
    return [np.ones(g, "float32") if isinstance(g, tuple) else np.asarray(g, "int64") for g in given]


@pytest.mark.parametrize("case", CASES)
def test_sizes_are_checked(case: str) -> None:
    program, fine, wrong = CASES[case]
    mod, params = relay.frontend.from_pytorch(program.exported())
    for executor, run in runs(mod, params).items():
        for given in fine:
            run(*values(given))
        for given, message in wrong.items():
            with pytest.raises(ValueError) as caught:
                run(*values(given))
            assert str(caught.value).removeprefix("main: ") == message, executor


def test_library_of_the_virtual_machine(tmp_path: Path) -> None:
    torch.export.save(CASES["range"][0].exported(), tmp_path / "bounded.pt2")
    mod, params = relay.frontend.from_pytorch(torch.export.load(tmp_path / "bounded.pt2"))
    relay.vm.compile(mod, "llvm", params=params).mod.export_library(str(tmp_path / "bounded.so"))
    machine = VirtualMachine(tvm.runtime.load_module(str(tmp_path / "bounded.so")), tvm.cpu())
    assert machine.run(np.ones((64, 3), "float32")).shape == (64, 3)
    with pytest.raises(ValueError) as caught:
        machine.run(np.ones((65, 3), "float32"))
    assert str(caught.value) == f"main: dimension 0 of x must be 64 or less, but x.shape[0] is 65. {BOUNDS}"


def test_bounds_change_no_kernel() -> None:
    programs = [Program(Plain, ({0: size},), [(4, 3)]).exported() for size in (n, Dim("n"))]
    bounded, free = [relay.vm.compile(relay.frontend.from_pytorch(p)[0], "llvm") for p in programs]
    assert bounded.primitive_ops == free.primitive_ops and len(bounded.bytecode) > len(free.bytecode)


def test_pinned_sizes_are_checked_when_the_program_is_imported() -> None:
    program = CASES["range"][0].exported()
    mod, _ = relay.frontend.from_pytorch(program, [("x", (64, 3))])
    assert relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(np.ones((64, 3), "float32")).shape == (
        64,
        3,
    )
    with pytest.raises(ModelError) as caught:
        relay.frontend.from_pytorch(program, [("x", (65, 3))])
    assert (
        str(caught.value)
        == f"the exported program: dimension 0 of x must be 64 or less, but x.shape[0] is 65. {BOUNDS}"
    )
    with pytest.raises(ModelError) as caught:
        relay.frontend.from_pytorch(CASES["four times"][0].exported(), [("x", (9,))])
    assert "input_infos gives axis 0 of the input 'x' the extent 9, but the program was exported with 4*" in str(
        caught.value
    )


def test_pins_of_one_size_agree() -> None:
    program = CASES["one size"][0].exported()
    mod, _ = relay.frontend.from_pytorch(program, [("x", (-1, 3)), ("y", (5, 3))])
    assert [p.checked_type.concrete_shape for p in mod["main"].params] == [(5, 3), (5, 3)]
    with pytest.raises(ModelError, match="input_infos gives axis 0 of the input 'y' the extent 6"):
        relay.frontend.from_pytorch(program, [("x", (5, 3)), ("y", (6, 3))])
    mod, _ = relay.frontend.from_pytorch(CASES["four times"][0].exported(), [("x", (16,))])
    assert mod["main"].params[0].checked_type.concrete_shape == (16,)


def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "bounded.pt2"
    torch.export.save(CASES["range"][0].exported(), path)
    assert command("compile", path, "--shape", "x=64,3", "-o", tmp_path / "fine.so").code == 0
    done = command("compile", path, "--shape", "x=65,3", "-o", tmp_path / "wrong.so")
    assert done.code == 1 and "dimension 0 of x must be 64 or less, but x.shape[0] is 65" in done.err


@pytest.mark.parametrize("strict", [False, True])
def test_inputs_in_structures(strict: bool) -> None:
    shapes = {"d": {"a": [{0: Dim.AUTO}]}, "rest": ({0: Dim.AUTO}, {0: Dim.AUTO})}
    given = ({"a": [torch.ones(4)]}, torch.ones(3), torch.ones(5))
    program = torch.export.export(Nested(), given, dynamic_shapes=shapes, strict=strict)
    run = relay.create_executor("debug", relay.frontend.from_pytorch(program)[0]).evaluate()
    a, b, c = [np.ones(size, "float32") for size in (4, 3, 5)]
    assert run(a, b, c).shape == (4,)
    for wrong, rule in (
        ((a, b, b), "dimension 0 of rest_1 must be 4 or more"),
        ((c, b, c), r"the exported program needs d_a_0.shape\[0\] % 2 == 0"),
    ):
        with pytest.raises(ValueError, match=rule):
            run(*wrong)


def test_types_alone_say_rules() -> None:
    m = tvm.tir.SizeVar("m", "int64")
    x, y = relay.var("x", shape=(m, 3)), relay.var("y", shape=(m * 2, 3))
    mod = IRModule.from_expr(relay.Function([x, y], relay.Tuple([relay.nn.relu(x), relay.nn.relu(y)])))
    for kind in ("vm", "debug"):
        run = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()
        run(*values([(2, 3), (4, 3)]))
        with pytest.raises(
            ValueError, match=r"dimension 0 of y must equal \(x.shape\[0\]\*2\)|must equal \(x.shape\[0\] \* 2\)"
        ):
            run(*values([(2, 3), (5, 3)]))


def test_broken_types_are_refused() -> None:
    x = relay.var("x", shape=(9, 3))
    rule = (tvm.tir.Var("d", "int64") <= 8, "dimension 0 of x must be 8 or less", "", (("x", 0),))
    main = relay.Function([x], relay.nn.relu(x), attrs={"size_rules": (rule,)})
    with pytest.raises(TVMError, match="must be 8 or less, but x.shape.0. is 9"):
        relay.vm.compile(IRModule.from_expr(main), "llvm")
