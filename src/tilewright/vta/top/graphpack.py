"""The classic `graph_pack`: a function whose part between two operators is on the accelerator."""

from __future__ import annotations

from tilewright.ir import IRModule, Op
from tilewright.ir.transform import Pass, Sequential
from tilewright.relay import transform
from tilewright.relay.expr import Call, Constant, Expr, Function
from tilewright.relay.functor import post_order
from tilewright.support.errors import TVMError
from tilewright.vta.environment import get_env
from tilewright.vta.top.partitioning import canonical, partitioned


def run_opt_pass(expr: Function, opt_pass: Pass | list[Pass]) -> Function:
    """A function after a pass, or after several in their order."""
    passes = opt_pass if isinstance(opt_pass, list) else [opt_pass]
    found = Sequential([transform.InferType(), *passes])(IRModule.from_expr(expr))["main"]
    assert isinstance(found, Function)
    return found


def get_subgraph(
    expr: Function,
    start_name: str,
    stop_name: str,
    start_name_idx: int | None = None,
    stop_name_idx: int | None = None,
    count_meta: bool = False,
) -> list[Call]:
    """The calls of operators from the first one named start_name, up to the first one named stop_name behind it, without that one.

    start_name_idx, stop_name_idx: their numbers among all calls, in the order of the program, which must be calls of these names;
    count_meta: constants count, too. TVMError where there are none."""
    calls: list[tuple[str, Call]] = []
    places: dict[int, tuple[str, Call]] = {}
    number = 0
    for e in post_order(expr.body, skip=lambda e: isinstance(e, Function)):
        if isinstance(e, Call) and isinstance(e.op, Op):
            calls.append((e.op.name, e))
            places[number] = calls[-1]
        number += isinstance(e, Call) or (count_meta and isinstance(e, Constant))
    first = calls.index(_found(calls, places, start_name, start_name_idx, "start_name"))
    last = calls.index(_found(calls[first + 1 :], places, stop_name, stop_name_idx, "stop_name"))
    return [call for _, call in calls[first:last]]


def _found(
    calls: list[tuple[str, Call]], places: dict[int, tuple[str, Call]], name: str, number: int | None, what: str
) -> tuple[str, Call]:
    if number is not None:
        found = places.get(number)
        if found is None or found[0] != name:
            is_there = "no call" if found is None else f"a call of {found[0]}"
            raise TVMError(f"graph_pack: {what}_idx is {number}, but there is {is_there}, not of {name}")
        return found
    for call in calls:
        if call[0] == name:
            return call
    names = dict.fromkeys([other for other, _ in calls])
    raise TVMError(f"graph_pack: {what} is {name}, but no call of it is there; the function calls {', '.join(names)}")


def graph_pack(
    expr: Function,
    bfactor: int,
    cfactor: int,
    weight_bits: int,
    start_name: str = "nn.max_pool2d",
    stop_name: str = "nn.global_avg_pool2d",
    start_name_idx: int | None = None,
    stop_name_idx: int | None = None,
    count_meta: bool = False,
    device_annot: bool = False,
    annot_start_name: str = "nn.conv2d",
    annot_end_name: str = "annotation.stop_fusion",
) -> Function:
    """A quantised function whose part from start_name up to stop_name is on the accelerator, as far as it can be: kernels on packed data,
    annotated with their devices. Parameters must be bound (`relay.quantize.quantize` does that).

    bfactor, cfactor, weight_bits: BATCH, BLOCK_OUT and WGT_WIDTH of the current environment. start_name_idx, stop_name_idx, count_meta: as
    in `get_subgraph`. device_annot, annot_start_name, annot_end_name: accepted; kernels are always annotated. TVMError for names that are
    not there, and for factors of another environment."""
    del device_annot, annot_start_name, annot_end_name
    env = get_env()
    for given, name in ((bfactor, "BATCH"), (cfactor, "BLOCK_OUT"), (weight_bits, "WGT_WIDTH")):
        if given != getattr(env, name):
            raise TVMError(
                f"graph_pack: {name} is given as {given}, but the current environment has {getattr(env, name)}"
            )
    mod = canonical(IRModule.from_expr(expr))
    main = mod["main"]
    assert isinstance(main, Function)
    wanted: set[Expr] = {*get_subgraph(main, start_name, stop_name, start_name_idx, stop_name_idx, count_meta)}
    made = partitioned(mod, wanted)[0]["main"]
    assert isinstance(made, Function)
    return made


__all__ = ["get_subgraph", "graph_pack", "run_opt_pass"]
