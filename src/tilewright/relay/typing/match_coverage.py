"""The values that the clauses of a match leave out."""

from __future__ import annotations

from tilewright.ir import IRModule
from tilewright.relay.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard, parts_of


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Patterns of values that no clause of a match covers; empty if the match is complete."""
    open_cases: list[Pattern] = [PatternWildcard()]
    for clause in match.clauses:
        open_cases = [rest for case in open_cases for rest in _left_over(case, clause.lhs)]
    return open_cases


def _left_over(case: Pattern, lhs: Pattern) -> list[Pattern]:
    """The part of `case` that `lhs` does not fit."""
    if isinstance(lhs, (PatternWildcard, PatternVar)):
        return []
    if isinstance(case, (PatternWildcard, PatternVar)):
        if isinstance(lhs, PatternTuple):
            return _left_over(PatternTuple(tuple([PatternWildcard() for _ in lhs.patterns])), lhs)
        assert isinstance(lhs, PatternConstructor)
        data = lhs.constructor.type_data
        forms = data.constructors if data is not None else (lhs.constructor,)
        whole = [PatternConstructor(c, tuple([PatternWildcard() for _ in c.inputs])) for c in forms]
        return [rest for w in whole for rest in _left_over(w, lhs)]
    if isinstance(case, PatternConstructor) and isinstance(lhs, PatternConstructor):
        if case.constructor.name_hint != lhs.constructor.name_hint:
            return [case]
    inner, wanted = parts_of(case), parts_of(lhs)
    out: list[Pattern] = []
    # Split at the first field that does not fit: the ones before it do, the ones after it are as they were.
    for i, (have, want) in enumerate(zip(inner, wanted, strict=True)):
        for rest in _left_over(have, want):
            out.append(case.replace(patterns=(*wanted[:i], rest, *inner[i + 1 :])))
    return out
