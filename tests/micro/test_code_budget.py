"""Plans within a number of bytes, beside all combinations."""

from __future__ import annotations

import random
from itertools import product

from tilewright.micro.code_budget import Choice, fastest_within


def test_the_fastest_plans_that_fit() -> None:
    draw = random.Random(4)
    for _ in range(100):
        kernels = [
            [
                Choice({"kernel": k, "plan": p}, draw.randrange(20), draw.randrange(1, 30))
                for p in range(draw.randrange(1, 5))
            ]
            for k in range(draw.randrange(1, 5))
        ]
        budget = draw.randrange(100)
        found = fastest_within(kernels, budget)
        assert all([choice in choices for choice, choices in zip(found, kernels, strict=True)])
        taken = sum([c.bytes for c in found])
        fitting = [sum([c.cost for c in some]) for some in product(*kernels) if sum([c.bytes for c in some]) <= budget]
        if fitting:
            assert taken <= budget and sum([c.cost for c in found]) == min(fitting)
        else:
            assert taken == min([sum([c.bytes for c in some]) for some in product(*kernels)])
    assert fastest_within([], 0) == []
