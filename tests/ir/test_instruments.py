"""Instruments: what they are told and when, and that a failing pass leaves them in order."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, tir
from tilewright.ir import IRModule
from tilewright.ir.instrument import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PassVerifier,
    PrintAfter,
    PrintAfterAll,
    PrintBefore,
    PrintBeforeAll,
    pass_instrument,
    print_changed,
)
from tilewright.ir.transform import Pass, PassContext, PassInfo, Sequential, module_pass
from tilewright.support.errors import TVMError

MOD = IRModule({"main": tir.PrimFunc([], tir.Evaluate(0))})


@module_pass(opt_level=0, name="rename")
def rename(mod: IRModule, ctx: PassContext) -> IRModule:
    return IRModule({"other": mod["main"]})


@module_pass(opt_level=0, name="keep")
def keep(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@module_pass(opt_level=0, name="fails")
def fails(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("on purpose")


def test_classic_decorator() -> None:
    log: list[str] = []

    @pass_instrument
    class Watch:
        def enter_pass_ctx(self) -> None:
            log.append("enter")

        def exit_pass_ctx(self) -> None:
            log.append("exit")

        def should_run(self, mod: IRModule, info: PassInfo) -> bool:
            return info.name != "keep"

        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            log.append(f"before {info.name}")

        def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
            log.append(f"after {info.name} {'other' in mod}")

    with PassContext(instruments=[Watch()]):
        keep(MOD)
        rename(MOD)
    assert log == ["enter", "before rename", "after rename True", "exit"]


def test_required_passes_run_against_objections() -> None:
    class Objects(PassInstrument):
        def should_run(self, mod: IRModule, info: PassInfo) -> bool:
            return False

    with PassContext(instruments=[Objects()]):
        assert rename(MOD) is MOD
    with PassContext(instruments=[Objects()], required_pass=["rename"]):
        assert "other" in rename(MOD)


def test_timing_is_a_tree() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([keep, Sequential([rename], name="inner")], name="outer")(MOD)
        rename(MOD)
        lines = timing.render().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["outer", "\tkeep", "\tinner", "\t\trename", "rename"]
    parts = [re.fullmatch(r"\t*\w+: (\d+)us \[(\d+)us\] \(([0-9.]+)%; ([0-9.]+)%\)", line) for line in lines]
    whole, own, share, of_parent = zip(*[map(float, p.groups()) for p in parts if p], strict=True)
    assert own[2] == pytest.approx(whole[2] - whole[3], abs=2) and own[3] == whole[3]
    assert share[0] + share[4] == pytest.approx(100, abs=0.1) and share[0] == of_parent[0] and share[3] <= of_parent[3]


def test_a_failing_pass_leaves_the_timing_in_order() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        with pytest.raises(KeyError):
            Sequential([fails], name="outer")(MOD)
        keep(MOD)
        assert [line.partition(":")[0] for line in timing.render().splitlines()] == ["outer", "\tfails", "keep"]


def test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        rename(MOD)
    out = capsys.readouterr().out
    assert out.index("# before rename") < out.index("def main") < out.index("# after rename") < out.index("def other")
    with PassContext(instruments=[PassPrintingInstrument(["keep"], ["rename"])]):
        rename(keep(MOD))
    assert [line for line in capsys.readouterr().out.split("\n") if line.startswith("# ") and "import" not in line][
        :1
    ] == ["# before keep"]


def test_dump(tmp_path: Path) -> None:
    (tmp_path / "007_old.ir").write_text("")
    with PassContext(instruments=[DumpIR(tmp_path, refresh=True)]):
        rename(keep(MOD))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000_keep.ir", "001_rename.ir"]
    assert "def other" in (tmp_path / "001_rename.ir").read_text()


def test_generators_see_both_sides() -> None:
    log: list[Any] = []

    def watch(info: PassInfo, mod: IRModule) -> Generator[None, IRModule, None]:
        new = yield
        log.append((info.name, new is mod))

    with PassContext(instruments=[watch]):
        rename(keep(MOD))
    assert log == [("keep", True), ("rename", False)]


def test_a_failing_pass_closes_generators() -> None:
    closed: list[bool] = []

    def watch(info: PassInfo, mod: IRModule) -> Generator[None, IRModule, None]:
        try:
            yield
        finally:
            closed.append(True)

    with pytest.raises(KeyError), PassContext(instruments=[watch]):
        fails(MOD)
    assert closed == [True]


def test_a_generator_yields_once() -> None:
    def twice(info: PassInfo, mod: IRModule) -> Generator[None, IRModule, None]:
        yield
        yield

    with pytest.raises(TVMError, match="instrument twice must yield exactly once"), PassContext(instruments=[twice]):
        keep(MOD)


def test_print_changed_shows_a_diff() -> None:
    out: list[str] = []
    with PassContext(instruments=[print_changed(out.append)]):
        rename(keep(MOD))
    (diff,) = out
    assert diff.startswith("--- before rename\n+++ after rename\n")
    assert "-    def main" in diff
    assert "+    def other" in diff
    only: list[str] = []
    with PassContext(instruments=[print_changed(only.append, only="keep")]):
        rename(MOD)
    assert only == []


def test_a_context_that_cannot_be_entered_is_not_current() -> None:
    class Refuses(PassInstrument):
        def enter_pass_ctx(self) -> None:
            raise KeyError("no")

    before = PassContext.current().opt_level
    with pytest.raises(KeyError), PassContext(opt_level=4, instruments=[Refuses()]):
        pass
    assert PassContext.current().opt_level == before


def test_instruments_can_be_exchanged() -> None:
    first, second = PassTimingInstrument(), PassTimingInstrument()
    with PassContext(instruments=[first]) as ctx:
        keep(MOD)
        ctx.override_instruments([second])
        rename(MOD)
        assert second.render().startswith("rename")
    assert first.render().startswith("keep")


def test_pipelines_of_the_driver_are_seen() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        tvm.lower(MOD["main"])
        assert "tir.Simplify" in timing.render()
    assert isinstance(rename, Pass)


def test_printing_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with PassContext(instruments=[PrintBefore("rename"), PrintAfter("keep")]):
        rename(keep(MOD))
    heads = [line for line in capsys.readouterr().out.split("\n") if line.startswith(("# before", "# after"))]
    assert heads == ["# after keep", "# before rename"]


@module_pass(opt_level=0, name="breaks")
def breaks(mod: IRModule, ctx: PassContext) -> IRModule:
    return IRModule({"main": tir.PrimFunc([], tir.Evaluate(tir.Var("n", "int32") + 1))})


def test_the_verifier_names_the_pass_that_broke_the_module() -> None:
    with PassContext(instruments=[PassVerifier()]):
        rename(keep(MOD))
        with pytest.raises(TVMError, match="^pass breaks broke the module\n@main: n is used where it is not defined"):
            Sequential([keep, breaks], name="outer")(MOD)
    broken = breaks(MOD)
    before = pytest.raises(TVMError, match="^the module is broken before pass keep runs\n@main: n is used")
    with PassContext(instruments=[PassVerifier()]), before:
        keep(broken)


def test_the_verifier_finds_types_that_no_rule_gives() -> None:
    x = relay.var("x", shape=(2, 3))

    @module_pass(opt_level=0, name="lies")
    def lies(mod: IRModule, ctx: PassContext) -> IRModule:
        call = relay.tanh(x)
        call._checked_type = relay.TensorType((3, 2))
        return IRModule.from_expr(relay.Function([x], call))

    expected = (
        r"pass lies broke the module\n@main: tanh is said to be Tensor\[\(3, 2\), float32\], but is Tensor\[\(2, 3\)"
    )
    with PassContext(instruments=[PassVerifier()]), pytest.raises(TVMError, match=expected):
        lies(IRModule.from_expr(relay.exp(x)))


def test_the_verifier_finds_variables_that_nothing_binds() -> None:
    x = relay.var("x", shape=(2, 3))

    @module_pass(opt_level=0, name="forgets")
    def forgets(mod: IRModule, ctx: PassContext) -> IRModule:
        return IRModule({"main": relay.Function([], relay.tanh(x))})

    with PassContext(instruments=[PassVerifier()]), pytest.raises(TVMError, match="%x is used, but nothing binds it"):
        forgets(IRModule.from_expr(relay.exp(x)))


def test_the_pipelines_pass_the_verifier() -> None:
    x, w = relay.var("x", shape=(4, 8)), relay.const(np.ones((6, 8), "float32"))
    with PassContext(opt_level=3, instruments=[PassVerifier()]):
        relay.build(IRModule.from_expr(relay.nn.softmax(relay.nn.dense(x, w))), "llvm")
