"""The mutator of tiles."""

from __future__ import annotations

from math import prod

from tilewright.meta_schedule.mutator.mutator import Mutator, another_choice, argument, drawn_for
from tilewright.tir.schedule import Instruction, Trace
from tilewright.tir.schedule.primitives.sampling import divisors


class MutateTileSize(Mutator):
    """Moves a factor from one tile of a loop to another, or draws another length of the vectors that threads copy."""

    def apply(self, trace: Trace) -> Trace | None:
        tiles = [
            inst
            for inst in trace.insts
            if inst.kind.method == "sample_perfect_tile"
            and prod(trace.decisions.get(inst, [1])) > 1
            and _count(inst) > 1
        ]
        fetched = [
            argument(inst, "ann_val")
            for inst in trace.insts
            if inst.kind.method == "annotate" and argument(inst, "ann_key") == "meta_schedule.cooperative_fetch"
        ]
        lengths = drawn_for(trace, fetched)
        if not tiles and not lengths:
            return None
        if lengths and self.random.randrange(len(tiles) + len(lengths)) >= len(tiles):
            return another_choice(trace, lengths, self.random)
        return self._moved(trace, tiles)

    def _moved(self, trace: Trace, tiles: list[Instruction]) -> Trace | None:
        moves = []
        for inst in tiles:
            factors, most = list(trace.decisions[inst]), int(argument(inst, "max_innermost_factor"))
            for source, size in enumerate(factors):
                for target in range(len(factors)):
                    limit = most // factors[-1] if target == len(factors) - 1 else size
                    moves += [(inst, source, target, d) for d in divisors(size)[1:] if target != source and d <= limit]
        if not moves:
            return None
        inst, source, target, factor = self.random.choice(moves)
        changed = list(trace.decisions[inst])
        changed[source], changed[target] = changed[source] // factor, changed[target] * factor
        return trace.with_decision(inst, changed)


def _count(inst: Instruction) -> int:
    return int(argument(inst, "n"))
