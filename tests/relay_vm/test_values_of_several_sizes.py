"""What holds values of several sizes: a reference, a list, a type parameter. The size of the first is not the size of the others."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay

LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"
PROGRAMS = {
    "a reference": """
    def @main(%s: Tensor[(?, 3), float32]) {
      let %r = ref(%s);
      let %u = ref_write(%r, concatenate((%s, %s)));
      negative(ref_read(%r))
    }""",
    "a reference to a tuple": """
    def @main(%s: Tensor[(?, 3), float32]) {
      let %r = ref((%s, %s));
      let %u = ref_write(%r, (%s, concatenate((%s, %s))));
      let %p = ref_read(%r);
      negative(%p.1)
    }""",
    "a reference to what a closure is given": """
    def @main(%s: Tensor[(?, 3), float32]) {
      let %g = fn (%v) { let %r = ref(%v); let %u = ref_write(%r, concatenate((%s, %s))); ref_read(%r) };
      negative(%g(%s))
    }""",
    "a list": LIST
    + """
    def @main(%s: Tensor[(?, 3), float32]) {
      let %l = Cons(%s, Cons(concatenate((%s, %s)), Nil()));
      match? (%l) { Cons(_, %t) => match? (%t) { Cons(%h, _) => negative(%h) } }
    }""",
    "a type parameter": """
    def @other[A](%a: A, %b: A, %k: bool) -> A { if (%k) { %a } else { %b } }
    def @main(%s: Tensor[(?, 3), float32]) {
      negative(@other(%s, concatenate((%s, %s)), False))
    }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_value_has_its_own_size(name: str) -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    got = relay.create_executor("vm", relay.parse(PROGRAMS[name])).evaluate()(x)
    np.testing.assert_array_equal(got.numpy(), -np.concatenate((x, x)))


def test_types_of_references_promise_no_size() -> None:
    program = relay.parse("def @main(%x: Tensor[(n, 4), float32]) { let %r = ref(%x); (%r, ref_read(%r), %x) }")
    found = relay.transform.InferType()(program)["main"].body.checked_type
    assert str(found) == "(ref(Tensor[(?, 4), float32]), Tensor[(?, 4), float32], Tensor[(n, 4), float32])"


CLOSURES = {
    "captures a computed size": """
    def @main(%b: bool, %s: Tensor[(?, 3), float32], %u: Tensor[(1, 3), float32]) {
      %0 = concatenate((%s, %u));
      let %f = fn (%p: Tensor[(1, 3), float32]) { concatenate((%0, %p)) };
      %1 = if (%b) { %f(%u) } else { %0 };
      (%0, %1)
    }""",
    "in a closure": """
    def @main(%b: bool, %s: Tensor[(?, 3), float32], %u: Tensor[(1, 3), float32]) {
      %0 = concatenate((%s, %u));
      let %f = fn (%p: Tensor[(1, 3), float32]) {
        let %g = fn (%q: bool) { if (%q) { concatenate((%0, %p)) } else { %0 } }; %g(%b)
      };
      %1 = if (%b) { %f(%u) } else { %0 };
      (%0, %1)
    }""",
    "where a local variable has the size": """
    def @main(%b: bool, %t: (Tensor[(?, 3), float32], Tensor[(1, 3), float32])) {
      let %s = %t.0;
      let %c = concatenate((%s, %t.1));
      let %f = fn (%p: Tensor[(1, 3), float32]) { concatenate((%c, %p)) };
      let %d = if (%b) { %f(%t.1) } else { %c };
      (%c, %d)
    }""",
}


@pytest.mark.parametrize("name", CLOSURES)
def test_closures_read_the_sizes_that_they_compute_with(name: str) -> None:
    x, ones = np.arange(6, dtype="float32").reshape(2, 3), np.ones((1, 3), "float32")
    inputs = ((x, ones),) if "%t:" in CLOSURES[name] else (x, ones)
    got = relay.create_executor("vm", relay.parse(CLOSURES[name])).evaluate()(True, *inputs)
    np.testing.assert_array_equal(got[0].numpy(), np.concatenate((x, ones)))
    np.testing.assert_array_equal(got[1].numpy(), np.concatenate((x, ones, ones)))
