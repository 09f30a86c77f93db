"""Gradients: every operator against finite differences, both modes; the whole language; second order; what has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.relay.op.test_symbolic_cards import SAMPLES, flat, make_input, type_of
from tests.slow import first_of_each
from tilewright import relay
from tilewright.ir import TensorType, TupleType
from tilewright.relay.cards.card import OpCard
from tilewright.relay.op.adjoint import derived
from tilewright.relay.transform import gradient, infer_types
from tilewright.support.errors import OpNotImplemented, TVMError

RNG = np.random.default_rng(5)


def doubled(value: Any) -> Any:
    """Floats in double precision, so that differences are exact enough."""
    if isinstance(value, tuple):
        return tuple([doubled(v) for v in value])
    return value.astype("float64") if value.dtype.kind == "f" else value


def evaluate(function: relay.Function, mod: relay.IRModule | None = None) -> Callable[..., Any]:
    """The function in the interpreter."""
    whole = relay.IRModule() if mod is None else relay.IRModule(mod.functions, mod.type_definitions)
    whole["main"] = function
    return relay.create_executor("debug", whole).evaluate()


def numbers(value: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a result, in order."""
    return [
        np.asarray(v.numpy() if hasattr(v, "numpy") else v)
        for v in flat(value if isinstance(value, tuple) else tuple(value))
    ]


def differences(
    f: Callable[..., Any], args: list[Any], which: int, weight: Any, step: float = 1e-5, at: Any = None
) -> np.ndarray[Any, Any]:
    """The derivative of sum(weight * f) by one argument, by central differences; by the elements that `at` marks, if given."""
    out = np.zeros(args[which].shape)
    for index in np.ndindex(*args[which].shape) if at is None else map(tuple, np.argwhere(at)):
        sums = []
        for sign in (1, -1):
            moved = [a.copy() for a in args]
            moved[which][index] += sign * step
            result = f(*moved)
            parts = result if isinstance(result, (list, tuple)) else [result]
            sums.append(sum([(np.asarray(r.numpy(), "float64") * w).sum() for r, w in zip(parts, weight, strict=True)]))
        out[index] = (sums[0] - sums[1]) / (2 * step)
    return out


AT_MOST = 150
"""Arguments of more elements are moved at some of them only."""


class Differentiated:
    """A sample's call, whose float results are the ones that count."""

    def __init__(self, key: str, card: type[OpCard], sample: Any) -> None:
        self.rng = np.random.default_rng(11)
        specs, attrs = sample
        self.inputs = [make_input(s, self.rng) for s in specs]
        if not key.startswith("qnn."):  # scales are single precision
            self.inputs = [doubled(x) for x in self.inputs]
        self.leaves = [x for v in self.inputs for x in (v if isinstance(v, tuple) else (v,))]
        self.params = [relay.var(f"x{i}", type_of(x)) for i, x in enumerate(self.leaves)]
        rest = iter(self.params)
        args: list[Any] = [
            relay.Tuple([next(rest) for _ in v]) if isinstance(v, tuple) else next(rest) for v in self.inputs
        ]
        call = card.call(args, attrs)
        self.call = getattr(call, "tuple_value", call)
        self.type = infer_types(relay.Function(self.params, self.call)).ret_type  # type: ignore[attr-defined]
        several = isinstance(self.type, TupleType)
        outs = self.type.fields if several else (self.type,)
        self.parts = [relay.TupleGetItem(self.call, i) for i in range(len(outs))] if several else [self.call]
        self.floats = [
            (i, p, o)
            for i, (p, o) in enumerate(zip(self.parts, outs, strict=True))
            if isinstance(o, TensorType) and o.dtype.is_float
        ]

    @property
    def proof(self) -> str:
        """How its gradient is shown to be right."""
        if not any([x.dtype.kind == "f" for x in self.leaves]):
            return "integers in"
        if self.call.attrs.undifferentiable is not None:
            return "an error"
        if not self.floats:
            return "integers out"
        return "zeros" if self.call.attrs.flat else "differences"


def differentiable(key: str, argument: int, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements that a result depends on as on numbers."""
    found = np.ones(x.shape, bool)
    if (key, argument) == ("vision.roi_align", 1):
        # Which image of the batch.
        found[:, 0] = False
    if (key, argument) == ("nn.contrib_conv2d_NCHWc", 1):
        # Zeros that fill up the weights.
        found = x != 0
    if key in ("unique", "vm.unique"):
        # Equal elements that come apart are more results.
        found = (x[:, None] == x).sum(1) == 1
    return found


def both_modes(function: relay.Function, leaves: list[Any]) -> dict[str, list[Any]]:
    """The adjoints by each mode."""
    results = {}
    for mode in ("first_order", "higher_order"):
        (_, adjoints) = evaluate(gradient(function, mode=mode))(*leaves)
        results[mode] = [a.numpy() for a in adjoints]
    return results


def test_only_float_tensors_have_derived_adjoints() -> None:
    x, n = relay.var("x", shape=(3,)), relay.var("n", shape=(3,), dtype="int32")
    both = relay.Tuple([x, x])
    for e in (x, n, both):
        infer_types(e)
    adjoints = derived(relay.op.find_card("add")(), [both, n], x)
    assert adjoints == [None, None]


LONG = ("nn.contrib_conv3d_winograd_without_weight_transform", "nn.contrib_conv2d_winograd_NCHWc")
"""A fourth of the time of all operators; their gradients are made as that of nn.contrib_conv2d_winograd_without_weight_transform."""
QUICK = [
    pytest.param(*c.values, id=c.id, marks=[pytest.mark.slow]) if c.values[0] in LONG else c
    for c in first_of_each(SAMPLES)
]


@pytest.mark.parametrize(("key", "card", "sample"), QUICK)
def test_operator(key: str, card: type[OpCard], sample: Any) -> None:
    d = Differentiated(key, card, sample)
    proof, leaves, params = d.proof, d.leaves, d.params
    if proof.startswith("integers"):
        # Counted by test_no_operator_is_left_out.
        return
    if proof == "an error":
        with pytest.raises(OpNotImplemented, match=f"{key} has no gradient: "):
            gradient(relay.Function(params, relay.sum(relay.cast(d.parts[0], "float32"))))
        return
    found = d.call.attrs.ref(*d.inputs)
    shapes = [np.shape(r) for r in (found if isinstance(found, tuple) else (found,))]
    weights = [d.rng.uniform(0.5, 1.5, shapes[i]) for i, _, _ in d.floats]
    total = [relay.sum(p * relay.const(w.astype(str(o.dtype)))) for (_, p, o), w in zip(d.floats, weights, strict=True)]
    body = total[0]
    for more in total[1:]:
        body = body + more
    results = both_modes(relay.Function(params, body), leaves)
    f = evaluate(relay.Function(params, relay.Tuple([p for _, p, _ in d.floats])))
    exact = all([o.dtype.bits == 64 for _, _, o in d.floats])
    step, rtol = (1e-5, 2e-4) if exact else (1e-2, 1e-2)
    for i, x in enumerate(leaves):
        if x.dtype.kind != "f":
            continue
        moved = differentiable(key, i, x)
        if x.size > AT_MOST:
            moved.flat[d.rng.permutation(x.size)[24:]] = False
        want = differences(f, leaves, i, weights, step, moved)[moved]
        for mode, got in results.items():
            np.testing.assert_allclose(
                got[i][moved], want, rtol=rtol, atol=rtol / 10, err_msg=f"{key}, argument {i}, {mode}"
            )


def test_no_operator_is_left_out() -> None:
    proofs: dict[str, set[str]] = {}
    for parameter in SAMPLES:
        key, card, sample = parameter.values
        proofs.setdefault(key, set()).add(Differentiated(key, card, sample).proof)
    weak = {key for key, found in proofs.items() if not found & {"differences", "zeros", "an error"}}
    assert weak == set(WHOLE)


WHOLE = """annotation.checked_divisor annotation.checked_indices all any arange argmax argmin argsort argwhere bitwise_and bitwise_not
bitwise_or bitwise_xor dyn.iota dyn.ones dyn.zeros equal fixed_point_multiply fixed_point_multiply_per_axis greater
greater_equal high_product invert_permutation isfinite isinf isnan left_shift less less_equal logical_and logical_not logical_or
logical_xor ndarray_size nn.bitpack nn.bitserial_conv2d nn.bitserial_dense nn.contrib_conv2d_pairs nn.contrib_dense_pairs
nn.contrib_depthwise_conv2d_pairs not_equal ones random.multinomial random.threefry_generate random.threefry_split reinterpret
right_shift searchsorted shape_of sparse_reshape unravel_index vm.argwhere vm.shape_of zeros""".split()
"""Operators of integers alone, or with integers for results: nothing flows back."""


def prelude(text: str) -> relay.IRModule:
    """A program that may use the prelude."""
    base = relay.IRModule()
    relay.Prelude(base)
    return relay.parse(text, "a.relay", init_module=base)


def adjoints_everywhere(mod: relay.IRModule, *args: Any) -> list[Any]:
    """main's value and adjoints in the interpreter, after the virtual machine has answered the same."""
    from tests.relay_vm.executors import run_both

    made = gradient(mod.get_global_var("main"), mod)
    whole = relay.IRModule(mod.functions, mod.type_definitions)
    whole["main"] = made
    return list(run_both(whole, *args))


def check_language(text: str, *args: Any) -> None:
    """The gradient of main against differences."""
    mod = prelude(text)
    f = relay.create_executor("debug", mod).evaluate()
    _, adjoints = adjoints_everywhere(mod, *args)
    for i, a in enumerate(args):
        if a.dtype.kind == "f":
            np.testing.assert_allclose(adjoints[i].numpy(), differences(f, list(args), i, [1.0]), rtol=1e-4, atol=1e-6)


def test_recursion_with_branches() -> None:
    """x to the n by a loop, and a branch on its value."""
    text = """
    def @power(%x: Tensor[(3), float64], %n: int32) -> Tensor[(3), float64] {
      if (%n == 0) { ones_like(%x) } else { %x * @power(%x, %n - 1) }
    }
    def @main(%x: Tensor[(3), float64], %n: int32) {
      let %p = @power(%x, %n);
      if (sum(%p) > 1f64) { tanh(%p) } else { %p * %p }
    }"""
    for n in (0, 1, 4):
        check_language(text, RNG.uniform(0.5, 1.2, 3), np.int32(n))
        check_language(text, RNG.uniform(0.1, 0.3, 3), np.int32(n))


def test_closures_and_what_they_capture() -> None:
    check_language(
        """
        def @main(%x: Tensor[(3), float64], %w: Tensor[(3), float64]) {
          let %scale = fn (%v: Tensor[(3), float64]) -> Tensor[(3), float64] { %v * %w };
          let %twice = fn (%f: fn (Tensor[(3), float64]) -> Tensor[(3), float64], %v: Tensor[(3), float64]) { %f(%f(%v)) };
          %twice(%scale, tanh(%x))
        }""",
        RNG.uniform(0.5, 1.2, 3),
        RNG.uniform(0.5, 1.2, 3),
    )


def test_lists_and_matches() -> None:
    check_language(
        """
        def @main(%x: Tensor[(3), float64], %w: Tensor[(3), float64]) {
          let %l = Cons(%x, Cons(%x * %w, Cons(%w, Nil())));
          let %step = fn (%a: Tensor[(3), float64], %b: Tensor[(3), float64]) { %a * tanh(%b) };
          @foldl(%step, %w, @map(fn (%v: Tensor[(3), float64]) { sin(%v) }, %l))
        }""",
        RNG.uniform(0.5, 1.2, 3),
        RNG.uniform(0.5, 1.2, 3),
    )


def test_references() -> None:
    check_language(
        """
        def @main(%x: Tensor[(3), float64]) {
          let %r = ref(%x);
          ref_write(%r, ref_read(%r) * %x);
          ref_write(%r, ref_read(%r) * %x);
          ref_read(%r)
        }""",
        RNG.uniform(0.5, 1.2, 3),
    )


def test_second_and_third_order() -> None:
    x = relay.var("x", shape=(4,), dtype="float64")
    once = gradient(relay.Function([x], relay.sin(x) * x * x))
    values = RNG.uniform(0.5, 1.5, 4)

    def derivative(function: relay.Function) -> relay.Function:
        """The function that answers only the adjoint."""
        y = relay.var("y", shape=(4,), dtype="float64")
        body = relay.TupleGetItem(relay.TupleGetItem(relay.Call(function, (y,)), 1), 0)
        return relay.Function([y], body)

    _, (second,) = evaluate(gradient(derivative(once)))(values)
    s, c = np.sin(values), np.cos(values)
    np.testing.assert_allclose(second.numpy(), 2 * s + 4 * values * c - values**2 * s, rtol=1e-10)
    _, (third,) = evaluate(gradient(derivative(gradient(derivative(once)))))(values)
    np.testing.assert_allclose(third.numpy(), 6 * c - 6 * values * s - values**2 * c, rtol=1e-10)


def test_tuples_and_shared_values() -> None:
    x = relay.var("x", shape=(2, 4), dtype="float64")
    parts = relay.split(x, 2, axis=1)
    shared = relay.tanh(parts[0])
    f = relay.Function([x], relay.Tuple([shared * parts[1], shared]))
    values = RNG.uniform(-1, 1, (2, 4))
    want = differences(evaluate(f), [values], 0, [1.0, 1.0])
    for mode in ("first_order", "higher_order"):
        value, (got,) = evaluate(gradient(f, mode=mode))(values)
        assert len(value) == 2
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-8)


def test_parameters_that_do_not_matter_get_zeros() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    for mode in ("first_order", "higher_order"):
        _, (_, got) = evaluate(gradient(relay.Function([x, y], relay.tanh(x)), mode=mode))(
            np.ones(2, "float32"), np.ones(3, "float32")
        )
        np.testing.assert_array_equal(got.numpy(), np.zeros(3))


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda x: gradient(relay.Function([x], relay.If(relay.const(True), x, x)), mode="first_order"), TVMError,
         'first-order gradient takes dataflow graphs of operators, but the function holds If; use mode="higher_order"'),
        (lambda x: gradient(relay.Function([x], x), mode="reverse"), ValueError,
         "the modes of gradient are higher_order, first_order, but 'reverse' was given"),
        (lambda x: gradient(x), TypeError, "gradient takes a relay.Function, but was given Var"),
        (lambda x: gradient(relay.Function([x], relay.RefCreate(x))), TVMError,
         "gradient takes a function that returns tensors, but this one returns ref(Tensor[(2,), float32])"),
        (lambda x: gradient(relay.Function([x], relay.random.uniform(relay.random.threefry_key(1), (2,), low=relay.sum(x))[1])),
         OpNotImplemented, "random.uniform has no gradient: draw from the distribution with parameters 0 and 1, and scale and shift"
         " what is drawn\n"
         "  random.uniform(%x, %x1, %x2, out_shape=[2]) /* ty=(Tensor[(10,), uint64], Tensor[(2,), float32]) */\n  " + "^" * 99),
    ],
)  # fmt: skip
def test_errors(make: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        make(relay.var("x", shape=(2,)))
    assert str(caught.value) == text


def test_digits_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network trained by gradients that were taken and compiled here."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "examples"))
    import train_digits

    lines: list[str] = []
    assert train_digits.train(12, lines.append)[1] >= 0.95
    assert len(lines) == 13 and float(lines[11].split()[3]) < float(lines[0].split()[3]) / 4


def test_concatenation_of_unknown_sizes() -> None:
    rows = relay.Any()
    x, y = relay.var("x", shape=(rows, 3)), relay.var("y", shape=(rows, 3))
    joined = relay.concatenate([x, relay.const(np.ones((2, 3), "float32")), y], axis=0)
    made = gradient(relay.Function([x, y], relay.sum(joined * joined)), mode="first_order")
    a, b = RNG.random((2, 3), "float32"), RNG.random((5, 3), "float32")
    _, (da, db) = relay.create_executor("vm", relay.IRModule.from_expr(made)).evaluate()(a, b)
    np.testing.assert_allclose(da.numpy(), 2 * a, rtol=1e-5)
    np.testing.assert_allclose(db.numpy(), 2 * b, rtol=1e-5)
