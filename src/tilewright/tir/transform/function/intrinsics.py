"""LowerIntrin: lowers intrinsics by rules that programs register for a target."""

from __future__ import annotations

from typing import Any

from tilewright.ir.transform import Pass
from tilewright.node import Mutator, on
from tilewright.tir.expr import (
    Call,
)
from tilewright.tir.function import PrimFunc
from tilewright.tir.transform.base import body_pass, call_name


class _Intrinsics(Mutator):
    """Replaces hints by their values, and intrinsics by the results of their rules."""

    def __init__(self, func: PrimFunc) -> None:
        kind = str(getattr(getattr(func.attrs.get("target"), "kind", None), "name", "default"))
        self.keys = (f"{kind}.FLowerIntrin", "default.FLowerIntrin", "FLowerIntrin")

    @on(Call)
    def _call(self, e: Call) -> Any:
        new = self.rebuild(e)
        name = call_name(new)
        if name in ("likely", "ignore_loop_partition"):
            return new.args[0]
        if not hasattr(new.op, "get_attr"):
            return new
        for key in self.keys:
            rule = new.op.get_attr(key)
            if rule is None:
                continue
            lowered = rule(new)
            if lowered is None or lowered is new:
                continue
            # The result of a rule may contain intrinsics, too.
            return lowered if getattr(lowered, "op", None) is new.op else self.visit(lowered)
        return new


def LowerIntrin() -> Pass:
    """Apply the rules that are registered for the function's target to intrinsics (`tvm.ir.register_intrin_lowering`),
    and remove hints.
    """
    return body_pass("LowerIntrin", lambda f: _Intrinsics(f).visit(f.body), gives=("no_hints",))
