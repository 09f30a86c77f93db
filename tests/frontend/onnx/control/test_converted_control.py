"""Loops, branches and sequences as converters write them, of dynamic sizes, whose course the data decide: against ONNX Runtime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, parser

import tilewright as tvm
from tilewright import relay

RNG = np.random.default_rng(1)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "tf2onnx rnn": (
        """g (float[b,t,3] x, int64[b] len) => (float[b,t,4] y, float[b,4] h) {
 w = Constant <value = float[7,4] {@28}> ()
 xt = Transpose <perm=[1,0,2]> (x)
 sh = Shape (x) zero = Constant<value=int64[1] {0}> () one = Constant<value=int64[1] {1}>() four = Constant<value=int64[1] {4}>()
 b0 = Slice (sh, zero, one)  steps = Gather<axis=0>(sh, onei) onei = Constant<value=int64 {1}>()
 hs = Concat<axis=0>(b0,four) h0 = ConstantOfShape (hs)
 t0 = Constant<value=int64 {0}>() tr = Constant<value = bool {1}> ()
 maxlen = ReduceMax<keepdims=0> (len)
 lim = Min (steps, maxlen)
 mx = Constant<value=int64 {9223372036854775807}>()
 c0 = Less (t0, lim)
 tl, h, rows = Loop (mx, c0, t0, h0) <body = body (int64 i, bool c, int64 k, float[p,q] s) => (bool co, int64 k1, float[p,q] s1,
     float[p,q] out) {
   xi = Gather<axis=0> (xt, k)
   z = Concat<axis=1> (xi, s)
   a = MatMul (z, w)
   n = Tanh (a)
   run = Less (k, len)
   runc = Unsqueeze (run, onev)
   s1 = Where (runc, n, s)
   zz = Sub (n, n)
   out = Where (runc, n, zz)
   k1 = Add (k, onei)
   co = Less (k1, lim)
 }>
 onev = Constant<value=int64[1] {1}>()
 y = Transpose <perm=[1,0,2]> (rows)
}""",
        [{"x": floats(2, 5, 3), "len": ints(3, 5)}, {"x": floats(3, 7, 3), "len": ints(3, 5, 2)}],
    ),
    "nms loop": (
        """g (float[n,4] boxes, float[n,c] scores) => (int64[k,3] sel, int64 cnt) {
 sh = Shape (scores) one = Constant<value=int64 {1}>() nc = Gather<axis=0>(sh, one)
 tr = Constant<value=bool {1}>() z1 = Constant<value=int64[1] {0}>() b1 = Unsqueeze (boxes, z1)
 ish = Constant<value=int64[2] {0,3}>() init = ConstantOfShape <value=int64[1] {0}> (ish) c0 = Constant<value=int64 {0}>()
 mb = Constant<value=int64 {4}>() iou = Constant<value=float {0.5}>() sc = Constant<value=float {0.1}>()
 sel, cnt = Loop (nc, tr, init, c0) <body = b (int64 i, bool c, int64[p,3] acc, int64 m) => (bool co, int64[q,3] acc1, int64 m1) {
   si = Gather<axis=1> (scores, i)
   zz = Constant<value=int64[2] {0,1}>() s2 = Unsqueeze (si, zz)
   k = NonMaxSuppression (b1, s2, mb, iou, sc)
   keepm = Constant<value=int64[1,3] {1,0,1}>() col = Mul (k, keepm)
   onehotm = Constant<value=int64[1,3] {0,1,0}>() im = Mul (i, onehotm)
   k2 = Add (col, im)
   acc1 = Concat<axis=0> (acc, k2)
   zi = Constant<value=int64 {0}>() ks = Shape (k) kn = Gather<axis=0> (ks, zi)
   m1 = Add (m, kn)
   co = Identity (c)
 }>
}""",
        [
            {"boxes": np.abs(floats(6, 4)).cumsum(1), "scores": np.abs(floats(6, 3))},
            {"boxes": np.abs(floats(9, 4)).cumsum(1), "scores": np.abs(floats(9, 2))},
        ],
    ),
    "merged decoder": (
        """g (int64[b,s] ids, float[b,2,p,4] pk, bool use_cache_branch) => (float[b,s,8] logits, float[b,2,q,4] ok) {
 emb = Constant<value=float[5,8] {@40}>()
 logits, ok = If (use_cache_branch) <else_branch = nopast () => (float[b,s,8] l0, float[b,2,s,4] k0) {
   e0 = Gather (emb, ids) r0 = Constant<value=int64[4] {0,-1,2,4}>() v0 = Reshape (e0, r0) k0 = Transpose<perm=[0,2,1,3]>(v0)
   t0 = Transpose<perm=[0,1,3,2]>(k0) q0 = MatMul(k0,t0) a0 = Softmax<axis=-1>(q0) w0 = MatMul(a0,k0) u0 = Transpose<perm=[0,2,1,3]>(w0)
   f0 = Constant<value=int64[3] {0,-1,8}>() l0 = Reshape (u0, f0)
 }, then_branch = past () => (float[b,s,8] l1, float[b,2,ps,4] k1) {
   e1 = Gather (emb, ids) r1 = Constant<value=int64[4] {0,-1,2,4}>() v1 = Reshape (e1, r1) n1 = Transpose<perm=[0,2,1,3]>(v1)
   k1 = Concat<axis=2>(pk,n1)
   t1 = Transpose<perm=[0,1,3,2]>(k1) q1 = MatMul(n1,t1) a1 = Softmax<axis=-1>(q1) w1 = MatMul(a1,k1) u1 = Transpose<perm=[0,2,1,3]>(w1)
   f1 = Constant<value=int64[3] {0,-1,8}>() l1 = Reshape (u1, f1)
 }>
}""",
        [
            {"ids": ints(1, 2, 3).reshape(1, 3), "pk": floats(1, 2, 0, 4), "use_cache_branch": np.array(False)},
            {"ids": ints(1, 2).reshape(2, 1), "pk": floats(2, 2, 3, 4), "use_cache_branch": np.array(True)},
        ],
    ),
    "seq in if in loop": (
        """g (float[n,3] x) => (float[k,3] y, int64 l) {
 sh = Shape (x) z = Constant<value=int64 {0}>() n = Gather<axis=0>(sh,z) tr = Constant<value=bool {1}>()
 e = SequenceEmpty ()
 s = Loop (n, tr, e) <body = b (int64 i, bool c, seq(float[m,3]) q) => (bool co, seq(float[m,3]) q1) {
   xi = Gather<axis=0> (x, i) sm = ReduceSum<keepdims=0>(xi) zf = Constant<value=float {0}>() p = Greater(sm, zf)
   ax = Constant<value=int64[1] {0}>() row = Unsqueeze(xi, ax)
   q1 = If (p) <then_branch = th () => (seq(float[m,3]) a) { two = Concat<axis=0>(row,row) a = SequenceInsert (q, two) }, else_branch
       = el () => (seq(float[m,3]) bq) { bq = Identity (q) }>
   co = Identity (c)
 }>
 y = ConcatFromSequence<axis=0>(s) l = SequenceLength (s)
}""",
        [{"x": floats(6, 3)}, {"x": floats(9, 3)}],
    ),
    "seq erase/at": (
        """g (float[n,3] x, int64 p) => (float[k,3] y, float[1,3] z, int64 l) {
 q = SplitToSequence<axis=0>(x) r = SequenceErase (q, p) z = SequenceAt (q, p) y = ConcatFromSequence<axis=0>(r) l = SequenceLength(r)
}""",
        [{"x": floats(4, 3), "p": np.array(2)}, {"x": floats(5, 3), "p": np.array(-1)}],
    ),
    "seqmap": (
        """g (float[n,m] x, int64[k] sp) => (float[n,m] y) {
 q = SplitToSequence<axis=1>(x, sp)
 r = SequenceMap <body = b (float[a,c] v) => (float[a,c] w) { w = Softmax<axis=1>(v) }> (q)
 y = ConcatFromSequence<axis=1>(r)
}""",
        [{"x": floats(2, 5), "sp": ints(2, 3)}, {"x": floats(3, 6), "sp": ints(1, 3, 2)}],
    ),
    "stack new axis": (
        """g (float[n,m] x, int64 c) => (float[a,b,d] y, float[a,b,d] z) {
 q = SplitToSequence<axis=1>(x, c) y = ConcatFromSequence<axis=1,new_axis=1>(q) z = ConcatFromSequence<axis=-1,new_axis=1>(q)
}""",
        [{"x": floats(2, 6), "c": np.array(2)}, {"x": floats(3, 6), "c": np.array(3)}],
    ),
    "loop trip data nested if rank same": (
        """g (float[n] x, int64 k) => (float[m] y) {
 tr = Constant<value=bool {1}>()
 y = Loop (k, tr, x) <body = b (int64 i, bool c, float[p] s) => (bool co, float[q] s1) {
   two = Constant<value=int64 {2}>() r = Mod (i, two) z = Constant<value=int64 {0}>() ev = Equal (r, z)
   s1 = If (ev) <then_branch = th () => (float[q] a) { a = Concat<axis=0>(s,x) }, else_branch = el () => (float[q] bq) { st =
       Constant<value=int64[1] {1}>() en = Constant<value=int64[1] {1000}>() bq = Slice (s, st, en) }>
   sh = Shape (s1) sz = ReduceProd<keepdims=0>(sh) lim = Constant<value=int64 {12}>() co = Less (sz, lim)
 }>
}""",
        [{"x": floats(3), "k": np.array(7)}, {"x": floats(2), "k": np.array(100)}, {"x": floats(2), "k": np.array(0)}],
    ),
    "scan rev dyn": (
        """g (float[t,b,3] x, float[b,3] s) => (float[b,3] l, float[t,b,3] y, float[b,t,3] z) {
 l, y, z = Scan <num_scan_inputs=1, scan_input_directions=[1], scan_output_axes=[0,1], scan_output_directions=[1,0], body = bd
     (float[p,3] a, float[p,3] r) => (float[p,3] a1, float[p,3] o, float[p,3] o2) { h = Add (a,r) a1 = Tanh(h) o = Identity(a1) o2 =
     Neg(a1) }> (s, x)
}""",
        [{"x": floats(4, 2, 3), "s": floats(2, 3)}, {"x": floats(40, 1, 3), "s": floats(1, 3)}],
    ),
    "lstm in loop body": (
        """g (float[t,b,4] x, float[1,12,4] w, float[1,12,3] r, int64 n) => (float[1,b,3] h) {
 sh = Shape(x) o = Constant<value=int64 {1}>() bb = Gather<axis=0>(sh, o) ax = Constant<value=int64[1] {0}>() bv = Unsqueeze(bb, ax)
     o1 = Constant<value=int64[1] {1}>() t3 = Constant<value=int64[1] {3}>() hs = Concat<axis=0>(o1,bv,t3) h0 = ConstantOfShape(hs) tr
     = Constant<value=bool {1}>()
 h, c = Loop (n, tr, h0, h0) <body = bo (int64 i, bool cc, float[1,p,3] h1, float[1,p,3] c1) => (bool co, float[1,p,3] h2,
     float[1,p,3] c2) { y, h2, c2 = LSTM<hidden_size=3>(x,w,r,,,h1,c1) co = Identity(cc) }>
}""",
        [
            {"x": floats(5, 2, 4), "w": floats(1, 12, 4), "r": floats(1, 12, 3), "n": np.array(2)},
            {"x": floats(3, 1, 4), "w": floats(1, 12, 4), "r": floats(1, 12, 3), "n": np.array(3)},
        ],
    ),
    "resize in loop by computed size": (
        """g (float[1,2,h,w] x, int64 n) => (float[1,2,p,q] y) {
 tr = Constant<value=bool {1}>()
 y = Loop (n, tr, x) <body = b (int64 i, bool c, float[1,2,p,q] s) => (bool co, float[1,2,r,u] s1) { sh = Shape(s) add =
     Constant<value=int64[4] {0,0,1,2}>() sz = Add (sh, add) s1 = Resize<mode="linear"> (s, , , sz) co = Identity(c) }>
}""",
        [{"x": floats(1, 2, 3, 4), "n": np.array(2)}, {"x": floats(1, 2, 5, 4), "n": np.array(1)}],
    ),
    "if rank squeeze chain": (
        """g (float[b,n,m] x) => (float[b,m2] y) {
 sh = Shape (x) o = Constant<value=int64 {1}>() d = Gather<axis=0>(sh,o) p = Equal (d, o)
 s = If (p) <then_branch = t () => (float[b,m] a) { ax = Constant<value=int64[1] {1}>() a = Squeeze (x, ax) }, else_branch = e () =>
     (float[b,n,m] c) { c = Identity(x) }>
 r = Relu (s) q = Exp (r) u = Add (r, q) y = Flatten<axis=1> (u)
}""",
        [{"x": floats(2, 1, 4)}, {"x": floats(2, 3, 4)}],
    ),
    "two choices": (
        """g (float[b,n,m] x, bool c1, bool c2) => (float y) {
 s = If (c1) <then_branch = t () => (float[q] a) { f = Constant<value=int64[1] {-1}>() a = Reshape (x, f) }, else_branch = e () =>
     (float[b,n,m] c) { c = Identity(x) }>
 u = If (c2) <then_branch = t2 () => (float[q] a2) { f2 = Constant<value=int64[1] {-1}>() a2 = Reshape (x, f2) }, else_branch = e2 ()
     => (float[w] k2) { k2 = Constant<value=float[1] {2}>() }>
 v = If (c2) <then_branch = t3 () => (float[z1,z2] a3) { a3 = Flatten (x) }, else_branch = e3 () => (float k3) { k3 =
     Constant<value=float {2}>() }>
 e4 = Exp (v) r4 = ReduceSum<keepdims=0>(e4) m = Neg (s) r5 = ReduceMean<keepdims=0>(m) r6 = ReduceSum<keepdims=0>(u) a7 = Add(r4,r5)
     y = Add(a7,r6)
}""",
        [{"x": floats(2, 3, 4), "c1": np.array(a), "c2": np.array(b)} for a in (True, False) for b in (True, False)],
    ),
    "loop outer seq at": (
        """g (float[n,m] x, int64[k] sp) => (float[b] y) {
 q = SplitToSequence<axis=1>(x, sp) l = SequenceLength (q) tr = Constant<value=bool {1}>()
 y = Loop (l, tr) <body = b (int64 i, bool c) => (bool co, float r) { e = SequenceAt (q, i) r = ReduceSum<keepdims=0>(e) co = Identity(c) }>
}""",
        [{"x": floats(2, 5), "sp": ints(2, 3)}, {"x": floats(3, 6), "sp": ints(1, 3, 2)}],
    ),
}
"""Strings in which @n stands for n random numbers, and values of the inputs."""


def model(text: str) -> ModelProto:
    text = re.sub("@([0-9]+)", lambda m: ", ".join([f"{v:.3f}" for v in floats(int(m[1]))]), text)
    made = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + text)
    for o in made.graph.output:
        o.type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize("name", CASES)
def test_converted(name: str) -> None:
    text, feeds = CASES[name]
    made = model(text)
    session = ort.InferenceSession(made.SerializeToString())
    mod, _ = relay.frontend.from_onnx(made)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for given in feeds:
        found: Any = run(*[given[p.name_hint] for p in mod["main"].params])
        outputs = [found] if hasattr(found, "numpy") else list(found)
        for got, want in zip(outputs, session.run(None, given), strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4, strict=True)


SEQUENCE = "q = SplitToSequence <axis = 0> (x, s) "


@pytest.mark.parametrize(
    "body, values, finding",
    [
        ("y = SequenceAt (q, p)", (3, 2), "the number of tensors from the position on must be 0 or more"),
        ("y = SequenceAt (q, p)", (3, -3), "the position in the sequence must be 0 or more"),
        (
            "y = ConcatFromSequence <axis = 0, new_axis = 1> (q)",
            (3, 0),
            "the number of extents in which tensors of the sequence differ",
        ),
    ],
)
def test_what_a_sequence_does_not_have(body: str, values: tuple[int, int], finding: str) -> None:
    """ONNX Runtime ends with an error, too."""
    made = model(f"g (float[n, 2] x, int64 s, int64 p) => (float y) {{ {SEQUENCE} {body} }}")
    given = {"x": floats(5, 2), "s": np.array(values[0]), "p": np.array(values[1])}
    session = ort.InferenceSession(made.SerializeToString())
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        session.run(None, {i.name: given[i.name] for i in session.get_inputs()})
    mod, _ = relay.frontend.from_onnx(made)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    with pytest.raises(ValueError, match=finding):
        run(*[given[p.name_hint] for p in mod["main"].params])


def test_a_sequence_of_tensors_of_two_ranks() -> None:
    """What only one branch fits, runs where that one is taken."""
    text = """g (float[n] x, bool c) => (float y) {
        e = SequenceConstruct (x)
        q = If (c) <then_branch = t () => (seq(float) a) { s = ReduceSum <keepdims = 0> (x) a = SequenceInsert (e, s) },
                    else_branch = f () => (seq(float) b) { b = Identity (e) }>
        y = ConcatFromSequence <axis = 0> (q)
    }"""
    mod, _ = relay.frontend.from_onnx(model(text))
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    x = floats(3)
    np.testing.assert_array_equal(run(x, np.array(False)).numpy(), x)
    with pytest.raises(
        ValueError, match="since ConcatFromSequence 'y' takes only what its else branch returns, must be from 0 to 0"
    ):
        run(x, np.array(True))


def test_branches_inside_those_of_the_same_condition() -> None:
    """What a condition chose before is decided inside its branches, and where the rank of what it chose is asked for, as exporters write
    an LSTM without a batch."""
    text = """g (float[b,n,3] x) => (float[p,q] y, float[r,s] z) {
        one = Constant <value = int64[1] {1}> () two = Constant <value = int64 {2}> () w = Constant <value = float[3,4] {@12}> ()
        shape = Shape (x) n = Gather (shape, one) single = Equal (n, one)
        v = If (single) <then_branch = a () => (float[b,3] v0) { v0 = Squeeze (x, one) },
                         else_branch = b () => (float[b,n,3] v1) { v1 = Identity (x) }>
        vs = Shape (v) rank = Size (vs) matrix = Equal (rank, two)
        y = If (matrix) <then_branch = c () => (y0) { y0 = MatMul (v, w) },
                         else_branch = d () => (y1) { u = Unsqueeze (v, one) y1 = Gemm (u, w) }>
        z = If (single) <then_branch = e () => (float[r,s] z0) { z0 = Gemm (v, w) },
                         else_branch = f () => (z1) { t = ReduceMax <axes = [1], keepdims = 0> (v) z1 = Gemm (t, w) }>
    }""".replace("{@12}", "{" + ",".join(f"{k}.5" for k in range(12)) + "}")
    made = model(text)
    session = ort.InferenceSession(made.SerializeToString())
    mod, _ = relay.frontend.from_onnx(made)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for batch in (1, 4):
        x = floats(batch, 1, 3)
        for got, want in zip(run(x), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, strict=True)
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        session.run(None, {"x": floats(2, 5, 3)})
    with pytest.raises(
        ValueError, match=re.escape("condition of 'v', since If 'y' takes only what its then branch returns, must be")
    ):
        run(floats(2, 5, 3))


def test_a_branch_that_inputs_of_these_sizes_cannot_take() -> None:
    """A run that takes it ends with an error, as in ONNX Runtime."""
    text = """g (float[2,n] x, bool c) => (float[2,p] y) {
        w = Constant <value = float[3,1] {1, 2, 3}> ()
        y = If (c) <then_branch = t () => (float[2,p] a) { a = Add (x, x) },
                    else_branch = f () => (float[2,p] b) { b = MatMul (x, w) }>
    }"""
    made = model(text)
    session = ort.InferenceSession(made.SerializeToString())
    mod, _ = relay.frontend.from_onnx(made, shape={"x": [2, 4]})
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    x = floats(2, 4)
    np.testing.assert_array_equal(run(x, np.array(True)).numpy(), 2 * x)
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        session.run(None, {"x": x, "c": np.array(False)})
    with pytest.raises(
        ValueError, match="condition of 'y', since the rules of operators allow only what its then branch"
    ):
        run(x, np.array(False))
