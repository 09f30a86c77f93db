"""Accelerators as classes: what they refuse, the order of their passes. A whole one is in tests/classic_programs/byoc."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay.backend.contrib.uma import PassPhase, UMABackend, uma_available
from tilewright.relay.dataflow_pattern import is_op, wildcard


class Adder(UMABackend):
    """Takes sums, and notes when its passes run."""

    def __init__(self, name: str) -> None:
        self._name = name
        super().__init__()
        self.seen: list[str] = []
        self._register_pattern("add", is_op("add")(wildcard(), wildcard()))
        for phase in (PassPhase.POST_PARTITIONING_1, PassPhase.PRE_PARTITIONING, PassPhase.POST_PARTITIONING_0):
            self._register_relay_pass(phase, self.noting(phase.name))

    def noting(self, name: str) -> Any:
        def run(mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
            self.seen.append(f"{name} {len(mod.functions)}")
            return mod

        return tvm.transform.module_pass(run, opt_level=0, name=name)

    @property
    def target_name(self) -> str:
        return self._name


def test_passes_run_around_the_partitioning() -> None:
    assert uma_available()
    x = relay.var("x", shape=(4,))
    backend = Adder("uma_order")
    mod = backend.partition(tvm.IRModule.from_expr(relay.Function([x], relay.add(x, x))))
    assert backend.seen == ["PRE_PARTITIONING 1", "POST_PARTITIONING_0 2", "POST_PARTITIONING_1 2"]
    assert [f.attrs.get("Compiler") for f in mod.functions.values()].count("uma_order") == 1


def test_refusals() -> None:
    backend = Adder("uma_refusals")
    with pytest.raises(ValueError, match="TIR_PHASE_0 is a phase of lowering"):
        backend._register_relay_pass(PassPhase.TIR_PHASE_0, backend.noting("x"))
    with pytest.raises(ValueError, match="PRE_PARTITIONING is a phase of the model's partitioning"):
        backend._register_tir_pass(PassPhase.PRE_PARTITIONING, backend.noting("x"))
    with pytest.raises(tvm.TVMError, match="can be C"):
        backend._register_codegen(fmt="llvm")
    backend.register()
    with pytest.raises(tvm.TVMError, match="there is a target kind 'uma_refusals' already"):
        Adder("uma_refusals").register()
