"""Code generators have a rule for every operation that the common tables name."""

from __future__ import annotations

import pytest

from tilewright.codegen.llvm.function import FunctionEmitter as LLVM
from tilewright.codegen.operations import EXPRESSIONS, INTRINSICS, STATEMENTS, Operations
from tilewright.codegen.source.c.function import FunctionEmitter as C
from tilewright.ir import Op


@pytest.mark.parametrize("emitter", [LLVM, C])
@pytest.mark.parametrize("table", [EXPRESSIONS, STATEMENTS])
def test_every_node_has_a_rule(emitter: type, table: Operations[type]) -> None:
    assert set(table.names) == set(table.rules(emitter))


def test_intrinsics() -> None:
    assert set(INTRINSICS.names) == set(INTRINSICS.rules(LLVM))
    # A function of floats like others.
    assert set(INTRINSICS.names) - set(INTRINSICS.rules(C)) == {"copysign"}
    assert all(f"tir.{name}" in Op._known for name in INTRINSICS.names)
