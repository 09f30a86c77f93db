"""Post-processors: they complete a schedule whose decisions are made, or refuse it."""

from __future__ import annotations

from abc import abstractmethod

from tilewright.meta_schedule.part import Part
from tilewright.tir.schedule import Schedule


class Postproc(Part):
    """Completes a schedule after its trace was replayed."""

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """Changes the schedule. False: it is no candidate."""

    @staticmethod
    def create(kind: str) -> list[Postproc]:
        """The post-processors of a kind of target, "llvm" or "cuda". Raises ValueError for others."""
        from tilewright.meta_schedule import defaults

        return defaults.postprocs(kind)


class PyPostproc(Postproc):
    """The base of post-processors of users, which define apply, clone and, if they need the context, _initialize_with_tune_context."""


create = Postproc.create
