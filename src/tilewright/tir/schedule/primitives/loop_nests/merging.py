"""merge: joins adjacent loop nests into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.tir import For, Var
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.hazards import need_same_iteration, private_buffers
from tilewright.tir.schedule.facts.leaves import leaves, loops_above
from tilewright.tir.schedule.facts.linear_forms import same
from tilewright.tir.schedule.facts.loop_checks import need_plain_loop
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, body_list, substitute_loops
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, seq_of

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


def merge_loops(state: ScheduleState, refs: list[StmtSRef]) -> StmtSRef:
    if len(refs) < 2:
        refuse("at least two loops are needed")
    if len({id(r) for r in refs}) != len(refs):
        refuse("each loop may be named once", refs[0].stmt)
    chains = [[*loops_above(r), r] for r in refs]
    shared = 0
    while all([len(c) > shared and c[shared] is chains[0][min(shared, len(chains[0]) - 1)] for c in chains]):
        shared += 1
    own = [c[shared:] for c in chains]
    depth = len(own[0])
    if depth == 0 or any([len(c) != depth for c in own]):
        refuse("the loops must be equally deep in adjacent nests", *[r.stmt for r in refs])
    for level in zip(*own, strict=True):
        for r in level:
            need_plain_loop(r.stmt)
            if not same(state.forms.of(r.stmt.extent), state.forms.of(level[0].stmt.extent)):
                refuse("{0} and {1} must have the same extent", level[0].stmt, r.stmt)
    for chain in own:
        for outer, inner in zip(chain, chain[1:], strict=False):
            if outer.stmt.body is not inner.stmt:
                refuse("{0} must hold only {1}", outer.stmt, inner.stmt)
    parent = own[0][0].parent
    assert parent is not None
    statements = body_list(parent.stmt.body)
    places = [next((i for i, st in enumerate(statements) if st is c[0].stmt), -1) for c in own]
    if places != list(range(places[0], places[0] + len(places))) or places[0] < 0:
        refuse("the nests must directly follow one another, in the given order", *[r.stmt for r in refs])
    new_vars = [Var(f"{r.stmt.loop_var.name}_m", r.stmt.loop_var.dtype) for r in own[0]]
    for v, r in zip(new_vars, own[0], strict=True):
        state.note_range(v, r.stmt.min, r.stmt.extent)
    bodies = []
    for chain in own:
        env = {r.stmt.loop_var: v for r, v in zip(chain, new_vars, strict=True)}
        bodies.append(substitute_loops(state.forms, chain[-1].stmt.body, env))
    nest = seq_of(bodies)
    made: list[For] = []
    for v, r in reversed(list(zip(new_vars, own[0], strict=True))):
        nest = For(v, 0, r.stmt.extent, r.stmt.kind, nest)
        made.append(nest)
    made.reverse()
    around = tuple([r.stmt for r in loops_above(own[0][0])]) + tuple(made)
    old = [leaf for c in own for leaf in leaves(c[0].stmt)]
    need_same_iteration(state, leaves(made[-1].body), around, made, private_buffers(own[0][0], old))
    changes: dict[int, Stmt | None] = {id(c[0].stmt): None for c in own[1:]}
    changes[id(own[0][0].stmt)] = nest
    state.replace(parent, parent.stmt.replace(body=ReplaceStmts(changes).run(parent.stmt.body)))
    return state.ref(made[-1])
