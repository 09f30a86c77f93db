"""Schedules of programs by the traces of others whose main block is the same."""

from __future__ import annotations

from tilewright.meta_schedule import defaults
from tilewright.meta_schedule.blocks import exists, is_root
from tilewright.meta_schedule.schedule_rule import AutoInline
from tilewright.meta_schedule.tune_context import TuneContext
from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir.analysis import find_anchor_block
from tilewright.tir.schedule import BlockRV, Schedule, Trace
from tilewright.tir.schedule.facts.leaves import leaves

FORMS = ("split", "reorder", "sample_perfect_tile", "get_loops")
"""Steps that each trace that fits contains."""


def schedule_using_anchor_trace(sch: Schedule, anchor_trace: Trace, target: Target | str) -> None:
    """Schedules a program by the trace of another one, whose block with the most arithmetic is the same, such as a convolution with
    another epilogue. What is computed before the block is inlined; what follows it is computed in its tiles where the trace does so, or
    where it can be inlined, else on its own. Post-processors of the target complete the schedule.

    Raises ScheduleError for a program without such a block, or whose loops the trace does not fit; the schedule may be half done then.
    """
    chosen = Target(target)
    anchor = find_anchor_block(sch.mod)
    if anchor is None:
        raise ScheduleError("a trace is used for the block with the most arithmetic, but this program has no reduction")
    main = sch.get_block(anchor.name_hint)
    # Not into the main block: whether the trace stages its result is not known yet.
    rule = AutoInline(False, True, True, False, False, False)
    for name in _names(sch):
        block = sch.get_block(name)
        if exists(sch, block) and sch.get(block).name_hint != anchor.name_hint and not is_root(sch, block):
            rule.apply(sch, block)
    steps = Trace(anchor_trace.insts, anchor_trace.decisions).simplified()
    left_out = steps.apply_to_similar(sch)
    if any([inst.kind.method in FORMS and inst in left_out for inst in steps.insts]):
        names = sorted({inst.kind.method for inst in left_out})
        raise ScheduleError(f"the trace does not fit the loops of {anchor.name_hint}: refused are {', '.join(names)}")
    _inline_epilogue(sch, main)
    sch.enter_postproc()
    context = TuneContext(sch.mod, target=chosen)
    for postproc in defaults.postprocs(defaults.kind_of(chosen)):
        postproc._initialize_with_tune_context(context)
        if not postproc.apply(sch):
            raise ScheduleError(f"the post-processor {type(postproc).__name__} refuses the schedule")


def _inline_epilogue(sch: Schedule, main: BlockRV) -> None:
    """Inlines what reads the result of the main block, or a staged copy of it, into what writes that, where the primitive accepts it."""
    block = main
    while readers := sch.get_consumers(block):
        if len(readers) > 1:
            return
        (reader,) = readers
        staged = sch.get(reader).name_hint.startswith(sch.get(main).name_hint)
        if staged or not sch.attempt(lambda s, reader=reader: s.reverse_compute_inline(reader)):  # type: ignore[misc]
            block = reader


def _names(sch: Schedule) -> list[str]:
    """The blocks directly below the roots, in the order of the program."""
    return [leaf.block.name_hint for ref in sch.state.roots.values() for leaf in leaves(ref.stmt.body)]
