"""Tags of stages, by which schedules and fusion recognise their kind."""

from __future__ import annotations

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether each element of the stage is computed from the (broadcast) elements at the same index."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE + ",", BROADCAST + ","))


def is_injective(tag: str) -> bool:
    """Whether each element of the stage reads at most one element of every input."""
    return is_broadcast(tag) or tag == INJECTIVE or tag.startswith(INJECTIVE + ",")
