"""Passes and their context: levels, lists, options, nesting, threads, orders, and passes on functions of one dialect."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.ir import IRModule
from tilewright.ir.transform import Pass, PassContext, PassInfo, PrintIR, Sequential, module_pass
from tilewright.support.errors import TVMError

MOD = IRModule({"main": tir.PrimFunc([], tir.Evaluate(0))})


def noting(log: list[str], name: str, opt_level: int = 0, **info: Any) -> Pass:
    """A pass that only says that it ran."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        log.append(name)
        return mod

    return Pass(PassInfo(opt_level, name, **info), run)


def test_contexts_nest() -> None:
    assert PassContext.current().opt_level == 2
    with PassContext(opt_level=3) as outer:
        assert PassContext.current() is outer
        with PassContext(opt_level=0):
            assert PassContext.current().opt_level == 0
        assert PassContext.current() is outer
        with pytest.raises(KeyError), PassContext(opt_level=1):
            raise KeyError
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == 2


def test_the_default_context_of_a_thread_stays() -> None:
    log: list[str] = []

    class Told:
        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            log.append(info.name)

    assert PassContext.current() is PassContext.current()
    PassContext.current().override_instruments([Told()])
    try:
        noting([], "p")(MOD)
        with PassContext():
            noting([], "q")(MOD)
    finally:
        PassContext.current().override_instruments(None)
    noting([], "r")(MOD)
    assert log == ["p"]


def test_contexts_belong_to_a_thread() -> None:
    seen: list[int] = []
    with PassContext(opt_level=4):
        thread = threading.Thread(target=lambda: seen.append(PassContext.current().opt_level))
        thread.start()
        thread.join()
    assert seen == [2]


@pytest.mark.parametrize(
    ("settings", "ran"),
    [
        ({}, ["zero", "two"]),
        ({"opt_level": 0}, ["zero"]),
        ({"opt_level": 3}, ["zero", "two", "three"]),
        ({"opt_level": 0, "required_pass": ["three"]}, ["zero", "three"]),
        ({"opt_level": 3, "disabled_pass": ["two"]}, ["zero", "three"]),
        ({"required_pass": ["two"], "disabled_pass": ["two"]}, ["zero"]),
    ],
)
def test_what_runs_in_a_sequential(settings: dict[str, Any], ran: list[str]) -> None:
    log: list[str] = []
    passes = Sequential([noting(log, "zero"), noting(log, "two", 2), noting(log, "three", 3)])
    with PassContext(**settings):
        assert passes(MOD) is MOD
    assert log == ran


def test_a_pass_called_by_itself_runs_at_any_level() -> None:
    log: list[str] = []
    with PassContext(opt_level=0):
        noting(log, "three", 3)(MOD)
    assert log == ["three"]


def test_options() -> None:
    with PassContext(config={"tir.disable_vectorize": True}) as ctx:
        assert ctx.config == {"tir.disable_vectorize": True}
    with pytest.raises(
        AttributeError, match=r"PassContext has no option 'tir.disable_vectorise'; near it: .*tir.disable_vectorize"
    ):
        PassContext(config={"tir.disable_vectorise": True})
    with pytest.raises(AttributeError, match=r"has no option 'zzz'; known: .*tir.noalias"):
        PassContext(config={"zzz": 1})
    with pytest.raises(TypeError, match=r"option 'tir.disable_vectorize' must be of type bool, but is int: 1"):
        PassContext(config={"tir.disable_vectorize": 1})
    with pytest.raises(ValueError, match=r"opt_level must be an int in 0..4, but is 7"):
        PassContext(opt_level=7)
    assert PassContext.list_configs()["tir.disable_vectorize"] is bool


def test_sequential_refuses_a_wrong_order() -> None:
    log: list[str] = []
    flatten, vectorize = noting(log, "flatten", gives=["flat"]), noting(log, "vectorize", needs=["flat"])
    Sequential([flatten, vectorize])(MOD)
    assert log == ["flatten", "vectorize"]
    with pytest.raises(
        TVMError, match="lower: vectorize needs 'flat', which flatten gives only later; put flatten first"
    ):
        Sequential([vectorize, flatten], name="lower")
    Sequential([vectorize])


def test_required_passes_run_before() -> None:
    log: list[str] = []
    lookup = noting(log, "mine", required=["tir.Simplify"])

    class Names(tvm.instrument.PassInstrument):
        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            log.append(f"before {info.name}")

    with PassContext(instruments=[Names()]):
        Sequential([lookup])(MOD)
    assert log == ["before sequential", "before tir.Simplify", "before mine", "mine"]
    with pytest.raises(TVMError, match="mine requires the pass 'tir.Simplifi', but no pass has that name"):
        Sequential([noting(log, "mine", required=["tir.Simplifi"])])(MOD)


def test_module_pass_on_a_function() -> None:
    @module_pass(opt_level=2, name="rename")
    def rename(mod: IRModule, ctx: PassContext) -> IRModule:
        return IRModule({"other": mod["main"]})

    assert (rename.info.name, rename.info.opt_level, rename.name) == ("rename", 2, "rename")
    assert repr(rename) == "<pass rename at opt_level 2>"
    assert "other" in rename(MOD)


def test_module_pass_on_a_class_with_options() -> None:
    @tvm.transform.module_pass(opt_level=1)
    class AddAttr:
        """Marks modules."""

        def __init__(self, key: str, value: int = 1) -> None:
            self.key, self.value = key, value

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod.with_attr(self.key, self.value)

    made = AddAttr("seen", value=3)
    assert (made.info.name, made.key, AddAttr.__doc__) == ("AddAttr", "seen", "Marks modules.")
    assert made(MOD).get_attr("seen") == 3
    assert AddAttr("x")(MOD).get_attr("x") == 1


def test_prim_func_pass_sees_prim_funcs_only() -> None:
    from tilewright import relay

    x = relay.var("x", shape=(2,))
    mod = IRModule({"prim": tir.PrimFunc([], tir.Evaluate(0)), "graph": relay.Function([x], x)})

    @tir.transform.prim_func_pass(opt_level=0)
    def mark_prim(func: tir.PrimFunc, mod: IRModule, ctx: PassContext) -> tir.PrimFunc:
        return func.with_attr("seen", 1)

    @relay.transform.function_pass(opt_level=0, name="mark_graph")
    class MarkGraph:
        def transform_function(self, func: relay.Function, mod: IRModule, ctx: PassContext) -> relay.Function:
            return func.with_attr("seen", 2)

    new = MarkGraph()(mark_prim(mod))
    assert new["prim"].attrs["seen"] == 1  # type: ignore[attr-defined]
    assert new["graph"].attrs["seen"] == 2  # type: ignore[attr-defined]


def test_passes_take_and_give_modules() -> None:
    with pytest.raises(TypeError, match="pass nothing takes an IRModule, but was given PrimFunc"):
        noting([], "nothing")(MOD["main"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pass forgets must return an IRModule, but returned NoneType"):
        module_pass(lambda mod, ctx: None, opt_level=0, name="forgets")(MOD)


def test_print_ir(capsys: pytest.CaptureFixture[str]) -> None:
    assert PrintIR("here")(MOD) is MOD
    out = capsys.readouterr().out
    assert out.startswith("here\n")
    assert "def main" in out
