"""ApplyTemplates: operators for which there is a record of AutoTVM become calls of the template that the record is of."""

from __future__ import annotations

import sys

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass
from tilewright.relay.expr import Function
from tilewright.relay.rewriting import typed_pass
from tilewright.target import Target


def ApplyTemplates() -> Pass:
    """Gives operators for which a context of AutoTVM has a record the template and the configuration of the fastest one. While tasks are
    extracted, it collects the workloads of all templates instead. Without either the module stays as it is."""

    def run(func: Function, mod: IRModule) -> Function:
        target = Target.current(True)
        # Builds without AutoTVM do not import it.
        if target is None or "tilewright.autotvm.task.dispatcher" not in sys.modules:
            return func
        from tilewright.relay.transform.operators.template_calls import with_templates

        return with_templates(func, target)

    return typed_pass("ApplyTemplates", 0, run)


__all__ = ["ApplyTemplates"]
