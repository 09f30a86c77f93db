"""Tests of passes as pairs of programs: what goes in, what must come out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tilewright.ir import BaseFunc, GlobalVar, IRModule
from tilewright.node import assert_structural_equal
from tilewright.tir import PrimFunc


def _program(value: Any) -> Any:
    """A program, out of what a test class may hold as `before` or `expected`; errors that are expected stay."""
    if isinstance(value, (IRModule, BaseFunc)):
        return value
    if inspect.isclass(value) and issubclass(value, BaseException):
        return value
    if inspect.isclass(value):
        functions: dict[GlobalVar, BaseFunc] = {
            GlobalVar(n): f for n, f in vars(value).items() if isinstance(f, BaseFunc)
        }
        if functions:
            return IRModule(functions)
    raise TypeError(
        f"before and expected are IRModules, functions, classes of functions, or methods that return one; expected may"
        f" be an error; but this is a {type(value).__name__}"
    )


def _wrapped(mod: Any) -> IRModule:
    return mod if isinstance(mod, IRModule) else IRModule({GlobalVar("main"): mod})


def _plain(mod: IRModule) -> IRModule:
    """The module without global symbols, which parsed functions have and made ones may not."""
    functions = {
        g: f.replace(attrs={k: v for k, v in f.attrs.items() if k != "global_symbol"}) if isinstance(f, PrimFunc) else f
        for g, f in mod.functions.items()
    }
    return mod.with_functions(functions)


def _text(mod: Any) -> str:
    return mod.script() if hasattr(mod, "script") else str(mod)


class CompareBeforeAfter:
    """A test of one pass, as a class:

        class TestFoldsZero(CompareBeforeAfter):
            transform = tir.transform.Simplify()
            before = ...      # a PrimFunc, a Relay function, an IRModule, or a method that returns one
            expected = ...    # the same, or the class of the error that the pass must raise

    transform: a pass, a function on IRModules, or a method that returns one. What a method takes besides `self` are
    fixtures. Where `expected` is an attribute, it may be `before` itself: the pass must change nothing.
    `check_well_formed = False` skips the check that variables of the result are defined.
    """

    check_well_formed = True

    @classmethod
    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("before", "expected", "transform"):
            if name in vars(cls):
                setattr(cls, name, _as_fixture(name, vars(cls)[name]))

    def test_compare(self, before: Any, expected: Any, transform: Any) -> None:
        source = _program(before)
        target: Any = source if expected is before else _program(expected)
        if inspect.isclass(target):
            failure: Any = target
            try:
                made = transform(_wrapped(source))
            except failure:
                return
            raise AssertionError(f"expected {target.__name__}, but the pass returned\n{_text(made)}")
        after = _plain(transform(_wrapped(source)))
        wanted = _plain(_wrapped(target))
        try:
            assert_structural_equal(after, wanted, True)
        except ValueError as error:
            raise AssertionError(
                f"{error}\n--- before\n{_text(_wrapped(source))}\n--- after\n{_text(after)}\n--- expected\n{_text(wanted)}"
            ) from None
        if self.check_well_formed and all([isinstance(f, PrimFunc) for f in after.functions.values()]):
            from tilewright.tir.analysis import verify_well_formed

            verify_well_formed(after)


def _as_fixture(name: str, value: Any) -> Any:
    """An attribute or method of a test class as a fixture of the class."""
    import pytest

    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if type(value).__name__ == "FixtureFunctionDefinition" or hasattr(value, "_pytestfixturefunction"):
        return value
    is_method = inspect.isfunction(value) and next(iter(inspect.signature(value).parameters), "") == "self"
    if is_method and name != "transform":
        return pytest.fixture(value)
    if is_method:
        return pytest.fixture(_made_or_applied(value))
    if inspect.isfunction(value) and name != "transform":
        # A function without `self` is a program in TVMScript that no decorator has parsed yet.
        value = _parsed(value)

    def constant(self: Any) -> Any:
        return value

    constant.__name__ = name
    return pytest.fixture(constant)


def _parsed(func: Callable[..., Any]) -> Any:
    return import_module("tilewright.script").tir.prim_func(func)


def _made_or_applied(method: Callable[..., Any]) -> Callable[..., Any]:
    """`def transform(self)` returns a pass; `def transform(self, mod)` is one."""
    if list(inspect.signature(method).parameters)[1:2] == ["mod"]:

        def bound(self: Any) -> Any:
            return lambda mod: method(self, mod)

        bound.__name__ = "transform"
        return bound
    return method
