"""Tags that computes carry, by which schedules and fusion tell what a stage is."""

from __future__ import annotations

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether the stage computes each element from (broadcast) elements at the same place."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE + ",", BROADCAST + ","))


def is_injective(tag: str) -> bool:
    """Whether each element of the stage reads at most one element of every input."""
    return is_broadcast(tag) or tag == INJECTIVE or tag.startswith(INJECTIVE + ",")
