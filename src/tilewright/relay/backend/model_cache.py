"""Whole models in the on-disk cache: results of `relay.build` for the same program, weights, target and options.

An entry holds the parts of a library: objects, symbols, metadata, the relay programs of the kernels, from which their texts are made, and
the code of the entry. The constants are in a file beside it, which is mapped into memory. So a second build of a model runs no pass.

The key covers everything on which a build depends: the program with all values of its weights (a digest of 256 bits), the names in the
metadata, the target, the options of the pass context, and the sources of this package. Builds that depend on something else do not use
this cache: those with instruments, passes added to the lowering, operators or functions of operators that programs registered, external
code, memory pools, several devices, the databases of meta_schedule, or the records of auto_scheduler.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright.codegen.backend import Code
from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.ir.transform import PassContext
from tilewright.node import load_json, save_json, structural_digest
from tilewright.relay.backend import te_compiler
from tilewright.relay.backend.kernels.database_schedules import asks_database
from tilewright.relay.backend.kernels.recorded import asks_records
from tilewright.relay.backend.keys import adds_lowering_passes, options_key, package_digest, target_key
from tilewright.relay.backend.string_constants import strings_among
from tilewright.relay.expr import Call, Constant, Function, Var
from tilewright.relay.functor import post_order
from tilewright.relay.rewriting import card_of
from tilewright.relay.texts import span_text
from tilewright.relay.typing.infer_type import infer_types
from tilewright.support import cache as disk
from tilewright.target import CompilationConfig, Target

if TYPE_CHECKING:
    from tilewright.relay.backend.kernels.kernel import Kernel

FEWEST_CALLS = 32
"""The fewest operator calls of a program that is stored. Smaller ones are built again from cached kernels."""

Array = np.ndarray


class StoredModel(NamedTuple):
    """The parts of a compiled library. kernels: the relay programs of the kernels by name, as JSON; entry: the code that calls them."""

    objects: list[bytes]
    symbols: list[str]
    facts: dict[str, Any]
    constants: Array
    kernels: str
    entry: Code


def model_key(mod: IRModule, config: CompilationConfig, *facts: Any) -> str | None:
    """The key of a build; None for builds that do not use the cache. facts: what the metadata depend on in addition to the module."""
    context = PassContext.current()
    # This package sets only one attribute of operators itself: the effects of intrinsics.
    given = any([key != "TCallEffectKind" for _, key in Op._properties])
    told_otherwise = adds_lowering_passes() or _plan_is_given() or _configurations_are_given()
    if len(config.targets) > 1 or context.instruments or given or told_otherwise:
        return None
    if asks_database() or asks_records():
        # What a database of meta_schedule or a context of auto_scheduler knows is in no key.
        return None
    nodes = [e for f in mod.functions.values() if isinstance(f, Function) for e in post_order(f)]
    calls = [e for e in nodes if isinstance(e, Call) and type(e.op) is Op]
    if len(calls) < FEWEST_CALLS or len(mod.functions) > 1 or any([_is_foreign(c) for c in calls]):
        return None
    with ThreadPoolExecutor(2) as pool:
        # In parallel, since structural_digest would compute these digests one after the other.
        list(pool.map(lambda c: c.data.digest(), [e for e in nodes if type(e) is Constant]))
    names = [e.name_hint if isinstance(e, Var) else span_text(getattr(e, "span", None)) for e in nodes]
    options = [context.opt_level, sorted(context.required_pass), sorted(context.disabled_pass), options_key()]
    told = [*options, [str(d) for d in config.devices], str(mod.attrs), *facts, names, strings_among(nodes)]
    return disk.key("model", package_digest(), target_key(config.targets[0]), structural_digest(mod), json.dumps(told))


def _plan_is_given() -> bool:
    """Whether a program has set a GraphPlan. It has not if GraphPlan is not imported, which models from the cache do not need."""
    room = sys.modules.get("tilewright.scheduling.graph_plan")
    return room is not None and room.given_plan() is not None


def _configurations_are_given() -> bool:
    """Whether a context of AutoTVM has configurations for templates. None has if its module is not imported."""
    room = sys.modules.get("tilewright.autotvm.task.dispatcher")
    return room is not None and room.has_records()


def _is_foreign(call: Call) -> bool:
    """Whether a call is of an operator from outside this package."""
    return not type(card_of(call)).__module__.startswith("tilewright.")


def stored(key: str) -> StoredModel | None:
    """The model under a key; None if it, or a part of it, is missing."""
    found = disk.get(key)
    if found is None:
        return None
    size = int.from_bytes(found[:8], "little")
    head = json.loads(found[8 : 8 + size])
    constants = disk.map(_constants_key(key)) if head["constants"] else np.zeros(0, np.uint8)
    if constants is None:
        return None
    objects, at = [], 8 + size
    for length in head["objects"]:
        objects.append(found[at : at + length])
        at += length
    return StoredModel(objects, head["symbols"], head["facts"], constants, head["kernels"], Code(*head["entry"]))


def store(key: str, model: StoredModel) -> None:
    """Stores a model, unless its constants would take a large part of the cache."""
    if model.constants.size and not disk.put_mapped(_constants_key(key), model.constants):
        return
    head = json.dumps(
        {
            "objects": [len(o) for o in model.objects],
            "symbols": model.symbols,
            "facts": model.facts,
            "constants": model.constants.nbytes,
            "kernels": model.kernels,
            "entry": model.entry,
        }
    ).encode()
    disk.put(key, b"".join([len(head).to_bytes(8, "little"), head, *model.objects]))


def _constants_key(key: str) -> str:
    return disk.key("constants", key)


def kernels_text(kernels: Sequence[Kernel]) -> str | None:
    """The relay programs of kernels, in order, as JSON; None if a kernel has no program."""
    programs = {GlobalVar(k.name): k.program for k in kernels if k.program is not None}
    return save_json(IRModule(programs)) if len(programs) == len(kernels) else None


def kernels_of(text: str, target: Target) -> dict[str, Kernel]:
    """The kernels by name, from a text of `kernels_text`."""
    mod, compiler = load_json(text), te_compiler.TECompiler(target)
    for f in mod.functions.values():
        infer_types(f)
        compiler.kernel(f)
    return {k.name: k for k in compiler.kernels.values()}
