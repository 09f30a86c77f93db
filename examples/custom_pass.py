"""A pass of one's own: powers with small whole exponents become products, in every program that is compiled.

Run: python examples/custom_pass.py [elements] [--show]. Prints how often the pass applied, the time before and after, and with
--show the program. docs/custom_passes.md explains the parts.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import te, tir
from tilewright.node import Mutator, on

LARGEST = 16
"""Exponents up to this one are worth the multiplications."""


class Powers(Mutator):
    """pow(x, 5) -> a product of squares: (let y = x * x; y * y * x)."""

    def __init__(self) -> None:
        self.count = 0

    @on(tir.Call)
    def _call(self, call: tir.Call) -> Any:
        call = self.rebuild(call)
        if call.op.name != "tir.pow" or not isinstance(call.args[1], tir.FloatImm):
            return call
        base, exponent = call.args[0], call.args[1].value
        if exponent != int(exponent) or not 1 <= exponent <= LARGEST:
            return call
        self.count += 1
        return product(base, int(exponent))


def product(base: Any, exponent: int) -> Any:
    """`base` multiplied with itself, by squares; each square is named, so that it is computed once."""
    if exponent == 1:
        return base
    root = tir.Var("x", base.dtype)
    squared = product(root * root, exponent // 2)
    return tir.Let(root, base, squared * root if exponent % 2 else squared)


@tir.transform.prim_func_pass(opt_level=0, name="ProductsOfPowers")
class ProductsOfPowers:
    """The pass; `found` counts what it replaced."""

    def __init__(self) -> None:
        self.found = 0

    def transform_function(self, func: tir.PrimFunc, mod: tvm.IRModule, ctx: Any) -> tir.PrimFunc:
        powers = Powers()
        body = powers.visit(func.body)
        self.found += powers.count
        return func.with_body(body)


def polynomial(elements: int) -> Any:
    """A schedule of B[i] = A[i]^7 - 3 A[i]^4 + A[i]^2.5, in vectors, and its arguments."""
    a = te.placeholder((elements,), name="A")
    b = te.compute(
        (elements,), lambda i: te.power(a[i], 7.0) - te.power(a[i], 4.0) * 3.0 + te.power(a[i], 2.5), name="B"
    )
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=16)[1])
    return s, [a, b]


def measure(elements: int, passes: list[Any]) -> tuple[float, Any]:
    """Seconds of one call, and the lowered program. Raises AssertionError when it computes something else."""
    s, args = polynomial(elements)
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(0, p) for p in passes]}):
        lowered = tvm.lower(s, args)
        built = tvm.build(s, args, target="llvm")
    x = np.random.default_rng(0).random(elements).astype("float32")
    given, out = tvm.nd.array(x), tvm.nd.empty((elements,))
    built(given, out)
    wide = x.astype("float64")
    tvm.testing.assert_allclose(out.numpy(), wide**7 - 3 * wide**4 + wide**2.5, rtol=1e-4, atol=1e-5)
    return built.time_evaluator(built.entry_name, tvm.cpu(), number=10, repeat=3)(given, out).min, lowered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("elements", nargs="?", type=int, default=1 << 16, help="numbers to compute (default: 65536)")
    parser.add_argument("--show", action="store_true", help="print the program after the pass")
    options = parser.parse_args()
    before, _ = measure(options.elements, [])
    ours = ProductsOfPowers()
    after, lowered = measure(options.elements, [ours])
    # Once when it was lowered to be shown, once when it was built.
    assert ours.found == 4, ours.found
    print(f"{options.elements} elements, {ours.found // 2} powers became products")
    print(f"before {before * 1e6:10.1f} us\nafter  {after * 1e6:10.1f} us")
    if options.show:
        print(lowered)


if __name__ == "__main__":
    main()
