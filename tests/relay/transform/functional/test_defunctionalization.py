"""Defunctionalization: the same results without functions as values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.random_graphs import assert_same, evaluate
from tests.relay.transform.functional.test_partial_eval import HEAD, PROGRAMS, S, program
from tilewright import relay
from tilewright.ir import FuncType, IRModule
from tilewright.relay import transform
from tilewright.relay.analysis import post_order, well_formed
from tilewright.relay.transform.functional.defunctionalization import _values_called
from tilewright.support.errors import TVMError

LIST = "type List[A] { Cons(A, List[A]), Nil }\n"
COMPOSE = (
    LIST + "def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C { fn (%x: A) { %f(%g(%x)) } }\n"
    "def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] { match (%l) { Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil() } }\n"
    f"def @sum(%l: List[{S}]) -> {S} {{ match (%l) {{ Cons(%h, %t) => add(%h, @sum(%t)), Nil => 0f }} }}\n"
    f"def @square(%x: {S}) -> {S} {{ multiply(%x, %x) }}\n"
    f"def @main(%x: {S}) {{ let %f = @compose(@square, fn (%y: {S}) {{ add(%y, %x) }});"
    ' let %n = @map(fn (%i: int32) { cast(%i, dtype="float32") }, Cons(1, Cons(2, Nil())));'
    " @sum(@map(@compose(%f, %f), Cons(%x, %n))) }"
)


def higher_order(mod: IRModule) -> list[str]:
    """Calls of anything but known functions, and functions inside of functions."""
    found = []
    for g, f in mod.functions.items():
        for e in post_order(f.body):
            if isinstance(e, relay.Function) and not e.is_primitive:
                found.append(f"a function in @{g.name_hint}")
            if isinstance(e, relay.Call) and isinstance(e.op, (relay.Var, relay.Call)):
                found.append(f"a call of a value in @{g.name_hint}")
            if isinstance(getattr(e, "_checked_type", None), FuncType) and not isinstance(e, relay.GlobalVar):
                found.append(f"a value that is a function in @{g.name_hint}")
    return found


@pytest.mark.parametrize("name", [*PROGRAMS, "compose"])
def test_results_are_the_same(name: str) -> None:
    if name == "compose":
        mod, inputs = relay.fromtext(HEAD + COMPOSE), [np.array(1.5, "float32")]
        assert isinstance(mod, IRModule)
    else:
        mod, inputs = program(name)
    want = evaluate(mod, inputs)
    main = transform.Defunctionalization(mod["main"], mod)
    assert main is mod["main"]
    only = transform.RemoveUnusedFunctions()(mod)
    assert well_formed(only, report=True)
    assert higher_order(transform.InferType()(only)) == []
    assert_same(evaluate(only, inputs), want)


def test_functions_of_functions_are_refused() -> None:
    mod = relay.fromtext(HEAD + f"def @main(%f: fn ({S}) -> {S}, %x: {S}) {{ %f(%x) }}")
    assert isinstance(mod, IRModule)
    with pytest.raises(
        TVMError, match="takes a function of data to data without type parameters, but was given one of the type fn"
    ):
        transform.Defunctionalization(mod["main"], mod)


def test_functions_bind_type_variables_of_their_own() -> None:
    """A global function used as a value becomes another one, which took over the first one's type variables."""
    mod = transform.InferType()(relay.fromtext(HEAD + COMPOSE))
    bound = [v for f in _values_called(mod).functions.values() if isinstance(f, relay.Function) for v in f.type_params]
    assert len(bound) > 3
    assert len(bound) == len({id(v) for v in bound})
