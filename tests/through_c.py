"""`pytest --through-c`: the C back end compiles what tests build for the target llvm, without the instructions that only LLVM can name.

Tests of LLVM's own text have the mark `llvm` and are left out."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tilewright.codegen.backend import Code, register_back_end
from tilewright.codegen.source.c.backend import C
from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.target.kinds import KINDS


class InPlaceOfLLVM(C):
    """C under the name of LLVM, compiled quickly."""

    kind: ClassVar[str] = "llvm"

    def emit(self, mod: IRModule, target: Target) -> Code:
        return super().emit(mod, target)._replace(effort=1)


class ThroughC:
    """Puts C in LLVM's place for the whole run."""

    def __init__(self) -> None:
        register_back_end(InPlaceOfLLVM(), override=True)
        KINDS["llvm"].takes_intrinsics = False

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left = [i for i in items if i.get_closest_marker("llvm") is None]
        config.hook.pytest_deselected(items=[i for i in items if i not in left])
        items[:] = left
