"""Models with loops, early exits and data types, against PyTorch and NumPy; in this process and from a library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.relay_vm.executors import run_both, same
from tests.relay_vm.native import run_in_host
from tilewright import relay, runtime
from tilewright.relay.backend.vm import compile
from tilewright.relay.backend.vm.executor import as_value
from tilewright.relay.evaluation.interpreter import ConstructorValue
from tilewright.runtime.vm import VirtualMachine

RNG = np.random.default_rng(0)


def prelude(text: str) -> relay.IRModule:
    """A program that may use the prelude."""
    base = relay.IRModule()
    relay.Prelude(base)
    return relay.parse(text, "a.relay", init_module=base)


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Small random float32 arrays."""
    return [(RNG.standard_normal(s) * 0.4).astype("float32") for s in shapes]


def everywhere(mod: relay.IRModule, args: list[Any], tmp_path: Path) -> Any:
    """The result of main in the interpreter, here, in a library that was written and loaded, and in a host without Python."""
    want = run_both(mod, *args)
    exe = compile(mod, "llvm")
    path = exe.export_library(str(tmp_path / "program.so"))
    loaded = VirtualMachine(runtime.load_module(path), runtime.cpu())
    values = [as_value(a) for a in args]
    same(want, loaded.invoke("main", *values))
    same(want, run_in_host(Path(path), values, tmp_path))
    return want


LSTM = """
def @cell(%x: Tensor[(1, 5), float32], %h: Tensor[(1, 7), float32], %c: Tensor[(1, 7), float32],
          %wx: Tensor[(28, 5), float32], %wh: Tensor[(28, 7), float32], %b: Tensor[(28), float32])
    -> (Tensor[(1, 7), float32], Tensor[(1, 7), float32]) {
  let %gates = nn.bias_add(nn.dense(%x, %wx) + nn.dense(%h, %wh), %b);
  let %parts = split(%gates, indices_or_sections=4, axis=1);
  let %i = sigmoid(%parts.0);
  let %f = sigmoid(%parts.1);
  let %g = tanh(%parts.2);
  let %o = sigmoid(%parts.3);
  let %next = %f * %c + %i * %g;
  (%o * tanh(%next), %next)
}
"""


def lstm_reference(xs: Any, wx: Any, wh: Any, b: Any) -> tuple[Any, Any]:
    """PyTorch's LSTM over the same weights: the outputs of all steps, and the last cell state."""
    import torch

    lstm = torch.nn.LSTM(5, 7)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(torch.from_numpy(wx))
        lstm.weight_hh_l0.copy_(torch.from_numpy(wh))
        lstm.bias_ih_l0.copy_(torch.from_numpy(b))
        lstm.bias_hh_l0.zero_()
        out, (_, c) = lstm(torch.from_numpy(np.stack(xs)))
    return out.numpy(), c.numpy()[0]


def test_lstm_over_a_list(tmp_path: Path) -> None:
    mod = prelude(
        LSTM
        + """
    def @steps(%xs: List[Tensor[(1, 5), float32]], %h: Tensor[(1, 7), float32], %c: Tensor[(1, 7), float32],
               %wx: Tensor[(28, 5), float32], %wh: Tensor[(28, 7), float32], %b: Tensor[(28), float32])
        -> (List[Tensor[(1, 7), float32]], Tensor[(1, 7), float32]) {
      match (%xs) {
        Cons(%x, %rest) => {
          let %s = @cell(%x, %h, %c, %wx, %wh, %b);
          let %later = @steps(%rest, %s.0, %s.1, %wx, %wh, %b);
          (Cons(%s.0, %later.0), %later.1)
        },
        Nil => (Nil(), %c),
      }
    }
    def @main(%xs: List[Tensor[(1, 5), float32]], %wx: Tensor[(28, 5), float32], %wh: Tensor[(28, 7), float32],
              %b: Tensor[(28), float32]) {
      @steps(%xs, zeros(shape=[1, 7]), zeros(shape=[1, 7]), %wx, %wh, %b)
    }"""
    )
    xs = arrays(*[(1, 5)] * 6)
    wx, wh, b = arrays((28, 5), (28, 7), (28,))
    p = relay.Prelude(mod)
    cons, nil = p.get_ctor("List", "Cons"), p.get_ctor("List", "Nil")
    data = ConstructorValue(nil.tag, [], nil)
    for x in reversed(xs):
        data = ConstructorValue(cons.tag, [x, data], cons)
    states, c = everywhere(mod, [data, wx, wh, b], tmp_path)
    outputs = []
    while states.fields:
        outputs.append(states.fields[0].numpy())
        states = states.fields[1]
    want, want_c = lstm_reference(xs, wx, wh, b)
    np.testing.assert_allclose(np.stack(outputs), want, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(c.numpy(), want_c, rtol=1e-4, atol=1e-6)


def test_sequence_to_sequence_with_early_exit(tmp_path: Path) -> None:
    """Greedy decoding: encode with a loop, then emit tokens until the end token (0) or 20 of them."""
    mod = prelude(
        """
    def @encode(%i: int32, %xs: Tensor[(4, 6), float32], %h: Tensor[(1, 6), float32], %w: Tensor[(6, 6), float32])
        -> Tensor[(1, 6), float32] {
      if (%i == 4) { %h } else {
        let %x = expand_dims(take(%xs, %i, axis=0), axis=0);
        @encode(%i + 1, %xs, tanh(%x + nn.dense(%h, %w)), %w)
      }
    }
    def @decode(%n: int32, %token: int64, %h: Tensor[(1, 6), float32], %w: Tensor[(6, 6), float32],
                %table: Tensor[(9, 6), float32], %out: Tensor[(9, 6), float32]) -> List[int64] {
      let %next = tanh(expand_dims(take(%table, %token, axis=0), axis=0) + nn.dense(%h, %w));
      let %chosen = squeeze(argmax(nn.dense(%next, %out), axis=[1]));
      let %word = cast(%chosen, dtype="int64");
      if (%word == 0i64) { Nil() } else {
        if (%n == 20) { Nil() } else { Cons(%word, @decode(%n + 1, %word, %next, %w, %table, %out)) }
      }
    }
    def @main(%xs: Tensor[(4, 6), float32], %w: Tensor[(6, 6), float32], %table: Tensor[(9, 6), float32],
              %out: Tensor[(9, 6), float32]) {
      @decode(0, 1i64, @encode(0, %xs, zeros(shape=[1, 6]), %w), %w, %table, %out)
    }"""
    )
    lengths = set()
    for _ in range(4):
        xs, w, table, out = arrays((4, 6), (6, 6), (9, 6), (9, 6))
        h = np.zeros((1, 6), "float32")
        for x in xs:
            h = np.tanh(x[None] + h @ w.T)
        want, token = [], 1
        for _step in range(21):
            h = np.tanh(table[token][None] + h @ w.T)
            token = int(np.argmax(h @ out.T))
            if token == 0 or len(want) == 20:
                break
            want.append(token)
        words, got = everywhere(mod, [xs, w, table, out], tmp_path), []
        while words.fields:
            got.append(int(words.fields[0].numpy()))
            words = words.fields[1]
        assert got == want
        lengths.add(len(got))
    assert len(lengths) > 1


def test_tree_lstm_over_a_data_type(tmp_path: Path) -> None:
    mod = prelude(
        """
    type Parse[A] { Leaf(A), Node(Parse[A], Parse[A]) }
    def @state(%t: Parse[Tensor[(1, 6), float32]], %w: Tensor[(18, 6), float32], %u: Tensor[(30, 12), float32])
        -> (Tensor[(1, 6), float32], Tensor[(1, 6), float32]) {
      match (%t) {
        Leaf(%x) => {
          let %g = split(nn.dense(%x, %w), indices_or_sections=3, axis=1);
          let %c = sigmoid(%g.0) * tanh(%g.1);
          (sigmoid(%g.2) * tanh(%c), %c)
        },
        Node(%l, %r) => {
          let %a = @state(%l, %w, %u);
          let %b = @state(%r, %w, %u);
          let %g = split(nn.dense(concatenate((%a.0, %b.0), axis=1), %u), indices_or_sections=5, axis=1);
          let %c = sigmoid(%g.0) * tanh(%g.1) + sigmoid(%g.2) * %a.1 + sigmoid(%g.3) * %b.1;
          (sigmoid(%g.4) * tanh(%c), %c)
        },
      }
    }
    def @main(%t: Parse[Tensor[(1, 6), float32]], %w: Tensor[(18, 6), float32], %u: Tensor[(30, 12), float32]) {
      @state(%t, %w, %u).0
    }"""
    )
    _, leaf, node = mod.get_type("Parse")
    w, u = arrays((18, 6), (30, 12))

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def grow(depth: int) -> tuple[Any, Any, Any]:
        """A random tree, its hidden and its cell state."""
        if depth == 0 or RNG.random() < 0.3:
            (x,) = arrays((1, 6))
            i, j, o = np.split(x @ w.T, 3, axis=1)
            c = sigmoid(i) * np.tanh(j)
            return ConstructorValue(leaf.tag, [x], leaf), sigmoid(o) * np.tanh(c), c
        lt, lh, lc = grow(depth - 1)
        rt, rh, rc = grow(depth - 1)
        i, j, fl, fr, o = np.split(np.concatenate([lh, rh], 1) @ u.T, 5, axis=1)
        c = sigmoid(i) * np.tanh(j) + sigmoid(fl) * lc + sigmoid(fr) * rc
        return ConstructorValue(node.tag, [lt, rt], node), sigmoid(o) * np.tanh(c), c

    for depth in (0, 2, 5):
        tree, h, _ = grow(depth)
        got = everywhere(mod, [tree, w, u], tmp_path)
        np.testing.assert_allclose(got.numpy(), h, rtol=1e-4, atol=1e-6)


def test_recursion_that_is_no_loop(tmp_path: Path) -> None:
    mod = relay.parse("""
    def @main(%n: int64) -> int64 { if (%n < 2i64) { %n } else { @main(%n - 1i64) + @main(%n - 2i64) } }
    """)
    assert int(everywhere(mod, [np.int64(14)], tmp_path).numpy()) == 377


def test_closures_that_capture_closures() -> None:
    mod = relay.parse("""
    def @main(%x: Tensor[(3), float32], %n: int32) {
      let %add = fn (%k: Tensor[(3), float32]) { fn (%y: Tensor[(3), float32]) { %y * %x + %k } };
      let %twice = fn (%f: fn (Tensor[(3), float32]) -> Tensor[(3), float32], %v: Tensor[(3), float32]) { %f(%f(%v)) };
      let %pick = if (%n > 0) { %add(%x) } else { fn (%y: Tensor[(3), float32]) { %y } };
      (%twice(%pick, %x), %twice(%add(tanh(%x)), %x))
    }""")
    (x,) = arrays((3,))
    for n in (0, 1):
        run_both(mod, x, np.int32(n))


def test_a_function_as_result() -> None:
    mod = relay.parse("def @main(%x: Tensor[(3), float32]) { fn (%y: Tensor[(3), float32]) { %x + %y } }")
    vm = VirtualMachine(compile(mod, "llvm"), runtime.cpu())
    x, y = arrays((3,), (3,))
    add = vm.run(x)
    np.testing.assert_allclose(vm.invoke_closure(add, y).numpy(), x + y, rtol=1e-6)
    other = VirtualMachine(compile(mod, "llvm"), runtime.cpu())
    with pytest.raises(ValueError, match="belongs to another program"):
        other.invoke_closure(add, y)


def test_primitive_function_bound_by_a_let() -> None:
    """With a constant in it, and called twice, once with the result of the other call."""
    ones = np.ones((2, 3), "float32")
    p, x, f = relay.var("p", shape=(2, 3)), relay.var("x", shape=(2, 3)), relay.var("f")
    primitive = relay.Function([p], p + relay.const(ones)).with_attr("Primitive", 1)
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Let(f, primitive, f(f(x)))))
    found = VirtualMachine(compile(mod, "llvm"), runtime.cpu()).invoke("main", as_value(ones))
    np.testing.assert_array_equal(found.numpy(), ones * 3)
