"""Mutators: changes of one decision of a trace."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from random import Random
from typing import Any

from tilewright.meta_schedule.part import Part
from tilewright.support.errors import TVMError
from tilewright.tir import Var
from tilewright.tir.schedule import Instruction, Trace


class Mutator(Part):
    """Changes a single decision of a trace."""

    @abstractmethod
    def apply(self, trace: Trace) -> Trace | None:
        """The trace with another decision; None where it has no decision that this mutator changes."""

    @property
    def random(self) -> Random:
        """The random numbers of the context. Raises TVMError without a context."""
        if self.context is None:
            raise TVMError(f"{type(self).__name__} needs a context: initialize_with_tune_context")
        return self.context.random

    @staticmethod
    def create(kind: str) -> dict[Mutator, float]:
        """The mutators of a kind of target, "llvm" or "cuda", and how likely each is chosen. Raises ValueError for others."""
        from tilewright.meta_schedule import defaults

        return defaults.mutators(kind)


class PyMutator(Mutator):
    """The base of mutators of users, which define apply, clone and, if they need the context, _initialize_with_tune_context. Their apply
    takes a trace, or a trace and a seed."""

    @abstractmethod
    def apply(self, trace: Trace, _: int = 0) -> Trace | None:
        """The trace with another decision; None where it has no decision that this mutator changes."""


def mutated(mutator: Mutator, trace: Trace, random: Random) -> Trace | None:
    """What a mutator makes of a trace."""
    apply: Any = mutator.apply
    if isinstance(mutator, PyMutator) and len(inspect.signature(apply).parameters) > 1:
        made: Trace | None = apply(trace, random.getrandbits(30) + 1)
        return made
    return mutator.apply(trace)


def argument(inst: Instruction, name: str) -> Any:
    """An argument of an instruction by the name of its parameter."""
    return inst.values[inst.kind.names.index(name)]


def another_choice(trace: Trace, insts: list[Instruction], random: Random) -> Trace | None:
    """The trace with another choice of one of these sample_categorical instructions; None if no one has several choices. What has no
    chance is not chosen."""
    wide = [inst for inst in insts if len(_others(trace, inst)) > 0]
    if not wide:
        return None
    inst = random.choice(wide)
    return trace.with_decision(inst, random.choice(_others(trace, inst)))


def _others(trace: Trace, inst: Instruction) -> list[int]:
    chances = [float(getattr(p, "value", p)) for p in argument(inst, "probs")]
    return [i for i, chance in enumerate(chances) if chance > 0 and i != trace.decisions.get(inst)]


def drawn_for(trace: Trace, users: list[Any]) -> list[Instruction]:
    """The sample_categorical instructions whose results are among these values."""
    wanted = {v for v in users if isinstance(v, Var)}
    return [
        inst
        for inst in trace.insts
        if inst.kind.method == "sample_categorical" and inst in trace.decisions and wanted & set(inst.outputs)
    ]


create = Mutator.create
