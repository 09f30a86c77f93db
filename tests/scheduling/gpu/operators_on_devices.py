"""Every operator of relay, compiled for a device and run there, beside its NumPy reference: `make test-opencl`, `make test-gpu`.

DEVICE_TARGET names the target.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

import tilewright as tvm
from tests.relay_op.test_cards import prepare, results, samples
from tests.relay_op.test_native import agree, program_of, run_graph
from tilewright import nd, relay
from tilewright.contrib import graph_executor
from tilewright.relay.cards.card import OpCard
from tilewright.relay.op.data_dependent.counted import is_counted

TARGET = os.environ["DEVICE_TARGET"]
DEV = tvm.device(TARGET.split()[0])
OF_PROCESSORS = {"nn.contrib_autotvm_template"}
"""The sample names a template of schedules for x86."""


def run(mod: tvm.IRModule, given: dict[str, Any], counted: bool) -> list[Any]:
    """counted: how many rows there are depends on the data, so that a graph cannot hold them."""
    if not counted:
        return run_graph(mod, given, TARGET, DEV)
    found = relay.create_executor("vm", mod, DEV, TARGET).evaluate()(*given.values())
    parts = [found] if isinstance(found, nd.NDArray) else [found[k] for k in range(len(found))]
    return [part.numpy() for part in parts]


def run_beside_the_processor(mod: tvm.IRModule, given: dict[str, Any]) -> list[Any]:
    """Operators that say on which of two devices something is."""
    library = relay.build(mod, target={tvm.cpu(): "llvm", DEV: TARGET})
    executor = graph_executor.GraphModule(library["default"](tvm.cpu(), DEV))
    executor.run(**given)
    return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]


@pytest.mark.parametrize("card, inputs, attrs", [p for p in samples() if p.id is not None and p.id.endswith("-0")])
def test_operators(card: type[OpCard], inputs: Any, attrs: Any) -> None:
    if card.type_key in OF_PROCESSORS:
        return
    call, arrays, _ = prepare(card, inputs, attrs)
    mod, given = program_of(call, arrays, attrs)
    if card.type_key in ("device_copy", "on_device"):
        found = run_beside_the_processor(mod, given)
    else:
        found = run(mod, given, is_counted(call))
    agree(found, results(call.ref(*arrays)), card.tolerance)
