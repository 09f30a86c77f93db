"""The rewrite rules for everything except scalar index arithmetic: floats, small integers, selects and vectors.

Index arithmetic (int32, int64) needs no rules: linear forms decide it (linear.py, integers.py, logic.py).
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.arith.simplifier.rewriting import (
    ALL,
    Pattern,
    Rules,
    and_,
    broadcast,
    div,
    eq,
    le,
    lt,
    max_,
    min_,
    mod,
    not_,
    or_,
    ramp,
    rules,
    select,
)
from tilewright.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
)

P = Pattern


def lanes_of(b: P) -> P:
    """The number of lanes of the node."""
    return Pattern("lanes", b)


def same_quotient(x: P, stride: P, divisor: P, lanes: P) -> P:
    """All lanes of ramp(x, stride, lanes) have the same quotient by `divisor`."""
    return Pattern("same_quotient", x, stride, divisor, lanes)


def not_negative(x: P, stride: P, lanes: P) -> P:
    """All lanes of ramp(x, stride, lanes) are non-negative."""
    return Pattern("not_negative", x, stride, lanes)


def same_order(order: type, x: P, y: P, stride: P, lanes: P) -> P:
    """The comparison with y has the same result for all lanes of ramp(x, stride, lanes)."""
    return Pattern("same_order", order.__name__, x, y, stride, lanes)


def always(order: type, x: P, y: P, stride: P, lanes: P) -> P:
    """The comparison with y is certainly true for all lanes of ramp(x, stride, lanes)."""
    return Pattern("always", order.__name__, x, y, stride, lanes)


MIRROR = {LT: GT, LE: GE, GT: LT, GE: LE}


@rules(Add, Mul, commute=True)
def neutral_rules(x: P, OP: Callable[..., P]) -> Rules:
    unit = 0 if OP(x, x).op is Add else 1
    yield OP(x, unit), x


@rules(Sub)
def sub_rules(x: P) -> Rules:
    yield x - 0, x


@rules(Sub, domain="int")
def sub_int_rules(x: P, y: P) -> Rules:
    yield x - x, 0
    yield (x + y) - y, x
    yield (x + y) - x, y


@rules(Mul, domain="int", commute=True)
def mul_int_rules(x: P) -> Rules:
    yield x * 0, 0


@rules(Div, FloorDiv)
def div_rules(x: P, OP: Callable[..., P]) -> Rules:
    yield OP(x, 1), x


@rules(Div, FloorDiv, domain="int")
def div_int_rules(x: P, c: P, OP: Callable[..., P]) -> Rules:
    yield OP(0, c), 0, c != 0


@rules(Mod, FloorMod, domain="int")
def mod_rules(x: P, c: P, OP: Callable[..., P]) -> Rules:
    yield OP(x, 1), 0
    yield OP(0, c), 0, c != 0


@rules(Min, Max, commute=True)
def extreme_rules(x: P, OP: Callable[..., P]) -> Rules:
    yield OP(x, x), x


@rules(Min, domain="int", commute=True)
def min_rules(x: P, y: P, c1: P, c2: P) -> Rules:
    yield min_(min_(x, c1), c2), min_(x, c1), c1 <= c2
    yield min_(min_(x, c1), c2), min_(x, c2), c2 < c1
    yield min_(min_(x, y), x), min_(x, y)
    yield min_(min_(x, y), y), min_(x, y)
    yield min_(max_(x, y), x), x
    yield min_(max_(x, y), y), y


@rules(Max, domain="int", commute=True)
def max_rules(x: P, y: P, c1: P, c2: P) -> Rules:
    yield max_(max_(x, c1), c2), max_(x, c1), c1 >= c2
    yield max_(max_(x, c1), c2), max_(x, c2), c2 > c1
    yield max_(max_(x, y), x), max_(x, y)
    yield max_(max_(x, y), y), max_(x, y)
    yield max_(min_(x, y), x), x
    yield max_(min_(x, y), y), y


@rules(Select)
def select_rules(x: P, y: P, z: P, b: P) -> Rules:
    yield select(True, x, y), x
    yield select(False, x, y), y
    yield select(b, x, x), x
    yield select(not_(b), x, y), select(b, y, x)
    yield select(b, select(b, x, y), z), select(b, x, z)
    yield select(b, x, select(b, y, z)), select(b, x, z)


@rules(Select, domain="int")
def select_extreme_rules(x: P, y: P) -> Rules:
    yield select(lt(x, y), x, y), min_(x, y)
    yield select(le(x, y), x, y), min_(x, y)
    yield select(lt(x, y), y, x), max_(x, y)
    yield select(le(x, y), y, x), max_(x, y)


@rules(EQ, domain="int")
def eq_rules(x: P) -> Rules:
    yield eq(x, x), True


@rules(NE, LT, GT, domain="int")
def irreflexive_rules(x: P, OP: Callable[..., P]) -> Rules:
    yield OP(x, x), False


@rules(LE, GE, domain="int")
def reflexive_rules(x: P, OP: Callable[..., P]) -> Rules:
    yield OP(x, x), True


@rules(Not)
def not_rules(x: P, y: P, n: P) -> Rules:
    yield not_(not_(x)), x
    yield not_(broadcast(x, n)), broadcast(not_(x), n)


@rules(Ramp)
def ramp_rules(x: P, n: P) -> Rules:
    yield ramp(x, 0, n), broadcast(x, n)


@rules(And, Or)
def connective_rules(x: P, OP: Callable[..., P]) -> Rules:
    yield OP(x, x), x


@rules(And, commute=True)
def and_rules(x: P) -> Rules:
    yield and_(x, 1), x
    yield and_(x, 0), False


@rules(Or, commute=True)
def or_rules(x: P) -> Rules:
    yield or_(x, 0), x
    yield or_(x, 1), True


@rules(Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or)
def broadcast_rules(x: P, y: P, n: P, OP: Callable[..., P]) -> Rules:
    yield OP(broadcast(x, n), broadcast(y, n)), broadcast(OP(x, y), n)


@rules(Select)
def broadcast_select_rules(b: P, x: P, y: P, n: P) -> Rules:
    yield select(b, broadcast(x, n), broadcast(x, n)), broadcast(x, n)
    yield select(broadcast(b, n), x, y), select(b, x, y)
    yield (
        select(b, broadcast(x, n), broadcast(y, n)),
        broadcast(select(b, x, y), n),
        lanes_of(b) == 1,
    )


@rules(Add, Sub, domain="int")
def ramp_sum_rules(x: P, y: P, s: P, t: P, n: P, OP: Callable[..., P]) -> Rules:
    yield OP(ramp(x, s, n), ramp(y, t, n)), ramp(OP(x, y), OP(s, t), n)
    yield OP(ramp(x, s, n), broadcast(y, n)), ramp(OP(x, y), s, n)


@rules(Add, Mul, domain="int")
def broadcast_ramp_rules(x: P, y: P, s: P, n: P, OP: Callable[..., P]) -> Rules:
    if OP(x, x).op is Add:
        yield OP(broadcast(y, n), ramp(x, s, n)), ramp(y + x, s, n)
    else:
        yield OP(broadcast(y, n), ramp(x, s, n)), ramp(x * y, s * y, n)
        yield OP(ramp(x, s, n), broadcast(y, n)), ramp(x * y, s * y, n)


@rules(Sub, domain="int")
def broadcast_less_ramp_rules(x: P, y: P, s: P, n: P) -> Rules:
    yield broadcast(y, n) - ramp(x, s, n), ramp(y - x, s * -1, n)


@rules(FloorDiv, domain="index")
def ramp_div_rules(x: P, c1: P, c2: P, n: P) -> Rules:
    yield (
        ramp(x, c1, n) // broadcast(c2, n),
        ramp(x // c2, c1 // c2, n),
        (c2 > 0) & (c1 % c2 == 0),
    )
    yield (
        ramp(x, c1, n) // broadcast(c2, n),
        broadcast(x // c2, n),
        (c2 > 0) & same_quotient(x, c1, c2, n),
    )


@rules(Div, domain="index")
def ramp_truncdiv_rules(x: P, c1: P, c2: P, n: P) -> Rules:
    yield (
        div(ramp(x, c1, n), broadcast(c2, n)),
        ramp(div(x, c2), c1 // c2, n),
        ((c2 > 0) & (c1 % c2 == 0) & not_negative(x, c1, n)),
    )
    yield (
        div(ramp(x, c1, n), broadcast(c2, n)),
        broadcast(div(x, c2), n),
        ((c2 > 0) & not_negative(x, c1, n) & same_quotient(x, c1, c2, n)),
    )


@rules(Mod, domain="index")
def ramp_truncmod_rules(x: P, c1: P, c2: P, n: P) -> Rules:
    yield (
        mod(ramp(x, c1, n), broadcast(c2, n)),
        broadcast(mod(x, c2), n),
        ((c2 > 0) & (c1 % c2 == 0) & not_negative(x, c1, n)),
    )
    yield (
        mod(ramp(x, c1, n), broadcast(c2, n)),
        ramp(mod(x, c2), c1, n),
        ((c2 > 0) & not_negative(x, c1, n) & same_quotient(x, c1, c2, n)),
    )


@rules(LT, LE, GT, GE, domain="index")
def ramp_order_rules(x: P, y: P, c1: P, n: P, OP: Callable[..., P]) -> Rules:
    order = OP(x, x).op
    yield OP(ramp(x, c1, n), broadcast(y, n)), broadcast(OP(x, y), n), same_order(order, x, y, c1, n)
    yield OP(broadcast(y, n), ramp(x, c1, n)), broadcast(OP(y, x), n), same_order(MIRROR[order], x, y, c1, n)


@rules(FloorMod, domain="index")
def ramp_mod_rules(x: P, c1: P, c2: P, n: P) -> Rules:
    yield (
        ramp(x, c1, n) % broadcast(c2, n),
        broadcast(x % c2, n),
        (c2 > 0) & (c1 % c2 == 0),
    )
    yield (
        ramp(x, c1, n) % broadcast(c2, n),
        ramp(x % c2, c1, n),
        (c2 > 0) & same_quotient(x, c1, c2, n),
    )


@rules(Min, domain="index", commute=True)
def ramp_below_rules(x: P, y: P, c1: P, n: P) -> Rules:
    yield min_(ramp(x, c1, n), broadcast(y, n)), ramp(x, c1, n), always(LE, x, y, c1, n)
    yield min_(ramp(x, c1, n), broadcast(y, n)), broadcast(y, n), always(GE, x, y, c1, n)


@rules(Max, domain="index", commute=True)
def ramp_above_rules(x: P, y: P, c1: P, n: P) -> Rules:
    yield max_(ramp(x, c1, n), broadcast(y, n)), ramp(x, c1, n), always(GE, x, y, c1, n)
    yield max_(ramp(x, c1, n), broadcast(y, n)), broadcast(y, n), always(LE, x, y, c1, n)


@rules(Min, domain="index")
def ramp_min_rules(x: P, y: P, s: P, n: P) -> Rules:
    yield min_(ramp(x, s, n), ramp(y, s, n)), ramp(min_(x, y), s, n)


@rules(Max, domain="index")
def ramp_max_rules(x: P, y: P, s: P, n: P) -> Rules:
    yield max_(ramp(x, s, n), ramp(y, s, n)), ramp(max_(x, y), s, n)


RULES = ALL
"""All rules, in the order of their application."""
