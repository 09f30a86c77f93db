"""Instruments that raise: which of the others are told, and what is left in the context."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tilewright.ir.transform import ApplyPassToFunction, PassContext, module_pass


class Told:
    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name, self.log, self.fails = name, log, fails

    def _told(self, event: str) -> None:
        self.log.append(f"{self.name} {event}")
        if event == self.fails:
            raise ValueError(f"{self.name} cannot {event}")

    def enter_pass_ctx(self) -> None:
        self._told("enter")

    def exit_pass_ctx(self) -> None:
        self._told("exit")

    def run_before_pass(self, mod: Any, info: Any) -> None:
        self._told("run")


@module_pass(opt_level=0)
def same(mod: Any, ctx: Any) -> Any:
    return mod


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        ("enter", ["a enter", "b enter", "a exit"]),
        ("exit", ["a enter", "b enter", "c enter", "a run", "b run", "c run", "a exit", "b exit"]),
        ("run", ["a enter", "b enter", "c enter", "a run", "b run", "a exit", "b exit", "c exit"]),
    ],
)
def test_an_instrument_raises(fails: str, expected: list[str]) -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[Told("a", log), Told("b", log, fails), Told("c", log)])
    with pytest.raises(ValueError, match=f"b cannot {fails}"), ctx:
        same(tvm.IRModule({}))
    assert log == expected
    assert ctx.instruments == () or fails == "run"


def test_instruments_are_overridden() -> None:
    log: list[str] = []
    with PassContext(instruments=[Told("a", log)]):
        current = PassContext.current()
        current.override_instruments([Told("b", log)])
        same(tvm.IRModule({}))
        current.override_instruments(None)
        same(tvm.IRModule({}))
    assert log == ["a enter", "a exit", "b enter", "b run", "b exit"]


def test_pass_on_chosen_functions() -> None:
    seen: list[str] = []

    @module_pass(opt_level=0)
    def note(mod: Any, ctx: Any) -> Any:
        seen.extend(g.name_hint for g in mod.functions)
        return mod

    f = tvm.te.create_prim_func([tvm.te.placeholder((4,))])
    mod = tvm.IRModule({"one": f, "two": f, "onetwo": f})
    assert len(ApplyPassToFunction(note, "one.*")(mod).functions) == 3
    assert sorted(seen) == ["one", "onetwo"]
    with pytest.raises(ValueError, match="no function's name matches 'three'; the module has one, onetwo, two"):
        ApplyPassToFunction(note, "three", error_if_no_function_matches_regex=True)(mod)


def test_what_is_no_instrument_is_refused() -> None:
    with pytest.raises(
        TypeError, match="an instrument is a generator function, or has any of enter_pass_ctx, .* but 3 was"
    ):
        PassContext(instruments=[3])
