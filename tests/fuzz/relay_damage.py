"""`python -m tests.fuzz.relay_damage --count 500`: relay texts and graphs with something wrong in them, through the parser,
inference, passes, the interpreter and the virtual machine. What is refused must be refused as the user's error."""

from __future__ import annotations

import argparse
import collections
import random
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.caches import own_cache
from tilewright import relay
from tilewright.node import Node
from tilewright.relay.functor import post_order
from tilewright.relay.parser.lexer import Source, tokens
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import InternalError, TVMError

MEMORY = 12 << 30
"""Bytes of address space that a run may have."""
TEXTS = (
    """
    def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) -> Tensor[(2, 4), float32] {
      %0 = nn.dense(%x, %w, units=4);
      let %y = tanh(%0) + 1f;
      %1 = (%y, nn.softmax(%y, axis=-1));
      %1.0 * %1.1 - mean(%y, axis=[1], keepdims=True)
    }""",
    """
    type List[A] { Cons(A, List[A]), Nil, }
    def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] {
      match (%l) { Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil() }
    }
    def @main(%x: Tensor[(3), float32], %n: int32) {
      let %l = Cons(%x, Cons(negative(%x), Nil()));
      let %g = fn (%a) { if (%n > 2) { %a * 2f } else { %a } };
      match? (@map(%g, %l)) { Cons(%h, _) => (%h, %n) }
    }""",
    """
    def @count(%i: int32, %s: Tensor[(?), float32]) -> Tensor[(?), float32] {
      if (%i <= 0) { %s } else { @count(%i - 1, concatenate((%s, %s), axis=0)) }
    }
    def @main(%s: Tensor[(2), float32]) -> Tensor[(?), float32] { @count(3, %s) }""",
    """
    def @main(%x: Tensor[(n, 4), float32], %y: Tensor[(n, 4), float32]) {
      let %r = ref(%x);
      let %u = ref_write(%r, ref_read(%r) + %y);
      %0 = split(ref_read(%r), indices_or_sections=2, axis=1);
      %1 = %0.0 - %0.1;
      strided_slice(%1, begin=[0, 0], end=[1, 2]) == reshape(zeros(shape=[2]), newshape=[1, 2])
    }""",
    """
    def @main(%x: Tensor[(1, 3, 8, 8), float32]) {
      let %f = fn (%k: int32, %a: Tensor[(1, 3, 8, 8), float32]) -> Tensor[(1, 3, 8, 8), float32] {
        if (%k == 0) { %a } else { %f(%k - 1, nn.relu(%a)) }
      };
      %0 = nn.conv2d(%f(2, %x), ones(shape=[4, 3, 3, 3]), padding=[1, 1, 1, 1], kernel_size=[3, 3], channels=4);
      nn.batch_flatten(nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2]))
    }""",
)
SPICE = (
    "(", ")", "{", "}", "[", "]", ",", ";", ":", "=", "=>", "->", "?", "%", "@", "1", "-1", "0", "2i64", "1e400f", "3f16", "99999999999",
    "let", "if", "else", "match", "fn", "def", "type", "ref", "free_var", "meta", "meta[relay.Constant][0]", "#[metadata]", "%zz", "@zz",
    "Zz", "float32", "bool", "Tensor[(2, 3), float32]", "Tensor[(-1), float32]", "add", "nn.dense", "nn.dens", "\"s", "/*", "//", "\\", "$",
    "True", "None", "inff", ".5", "axis=7", "axes=1", "%x", "@main", "()", "(,)", "%0", "ref(%x)", "é", "fn (%q) { %q }", "Nil()", "Cons",
)  # fmt: skip


def damaged_text(rng: random.Random) -> str:
    """One of the texts with words left out, doubled, exchanged or replaced."""
    text = rng.choice(TEXTS)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        try:
            words = tokens(Source("fuzz", text))[:-1]
        except TVMError:
            break
        if not words:
            break
        at = rng.randrange(len(words))
        w = words[at]
        kind = rng.choice(["omit", "double", "exchange", "replace", "replace", "insert", "cut", "char"])
        if kind == "omit":
            text = text[: w.start] + text[w.end :]
        elif kind == "double":
            text = text[: w.end] + " " + w.text + text[w.end :]
        elif kind == "exchange":
            other = rng.choice(words)
            text = text[: w.start] + other.text + text[w.end :]
        elif kind == "replace":
            text = text[: w.start] + " " + rng.choice(SPICE) + " " + text[w.end :]
        elif kind == "insert":
            text = text[: w.start] + " " + rng.choice(SPICE) + " " + text[w.start :]
        elif kind == "cut":
            text = text[: w.end]
        else:
            place = rng.randrange(len(text))
            text = (
                text[:place]
                + chr(rng.choice([0, 9, 34, 37, 64, 92, rng.randrange(32, 126), 0x3B1]))
                + text[place + 1 :]
            )
    return text


def changed_node(rng: random.Random, e: Any, pool: list[Any]) -> Any:
    """A node like `e` with one field exchanged; raises what its constructor raises."""
    fields = [f for f in e._fields if f.name != "span"]
    if not fields:
        return rng.choice(pool)
    f = rng.choice(fields)
    value = getattr(e, f.name)
    other: Any = rng.choice(pool)
    if isinstance(value, tuple):
        items = list(value)
        kind = rng.choice(["omit", "double", "replace", "reverse"])
        if kind == "omit" and items:
            items.pop(rng.randrange(len(items)))
        elif kind == "double" and items:
            items.append(rng.choice(items))
        elif kind == "replace" and items:
            items[rng.randrange(len(items))] = other
        else:
            items.reverse()
        return e.replace(**{f.name: tuple(items)})
    if isinstance(value, bool):
        other = not value
    elif isinstance(value, int):
        other = rng.choice([-1, 0, 1, 7, 2**40])
    return e.replace(**{f.name: other})


def damaged_graph(rng: random.Random) -> relay.IRModule:
    """One of the programs with nodes replaced, without regard to types and scopes."""
    mod = relay.parse(rng.choice(TEXTS))
    gvar = rng.choice(list(mod.functions))
    f = mod[gvar]
    for _ in range(rng.choice([1, 1, 2, 3])):
        pool = [e for e in post_order(f) if not isinstance(e, relay.Function)]
        victim = rng.choice(pool)
        try:
            new = changed_node(rng, victim, pool) if rng.random() < 0.7 else rng.choice(pool)
            if not isinstance(new, relay.Expr):
                continue
            f = relay.expr_functor.functor.substitute(f, {victim: new})
        except (TypeError, ValueError):
            continue
    if not isinstance(f, relay.Function):
        f = relay.Function([], f)
    return relay.IRModule({**mod.functions, gvar: f}, mod.type_definitions)


def arguments(mod: relay.IRModule) -> list[Any]:
    """Arrays for main's parameters; unknown sizes are 2."""
    found: list[Any] = []
    if "main" not in mod:
        raise TVMError("there is no main to run")
    for p in mod["main"].params:
        t = p.checked_type
        if not isinstance(t, relay.TensorType):
            raise TVMError("no such arguments are made here")
        shape = [d.value if hasattr(d, "value") else 2 for d in t.shape]
        found.append(np.ones(shape, t.dtype))
    return found


PASSES = (
    "SimplifyInference", "FoldConstant", "CanonicalizeOps", "SimplifyExpr", "EliminateCommonSubexpr", "DeadCodeElimination",
    "ToANormalForm", "ToGraphNormalForm", "FuseOps", "Inline", "LambdaLift", "FoldScaleAxis", "FirstOrderGradient",
)  # fmt: skip


def drive(mod: relay.IRModule, rng: random.Random, vm: bool) -> str:
    """What becomes of a program; how far it came when it is refused."""
    stage = "text"
    try:
        repr(mod)
        mod.astext()
        stage = "well_formed"
        for f in mod.functions.values():
            relay.analysis.well_formed(f)
            relay.analysis.free_vars(f)
        stage = "types"
        mod = infer_module(mod)
        stage = "passes"
        for name in rng.sample(PASSES, 2):
            stage = name
            getattr(relay.transform, name)()(mod)
        stage = "run"
        args = arguments(mod)
        stage = "debug"
        relay.create_executor("debug", mod).evaluate()(*args)
        if vm:
            stage = "vm"
            relay.create_executor("vm", mod).evaluate()(*args)
    except InternalError as error:
        return f"BAD {stage}: InternalError: {str(error)[:300]}"
    except TVMError as error:
        return f"refused at {stage}" if str(error).strip() else f"BAD {stage}: no text"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"BAD {stage}: {type(error).__name__}: {str(error)[:120]} at {where.filename.rpartition('/')[2]}:{where.lineno} {where.name}"
    return "ran"


def fate(seed: int, vm: bool = False) -> tuple[str, Callable[[], Any]]:
    """What becomes of the program of a seed, and how to see it."""
    rng = random.Random(seed)
    if seed % 2:
        text = damaged_text(rng)
        try:
            mod = relay.parse(text)
        except InternalError as error:
            return f"BAD parse: {error}", lambda: text
        except TVMError as error:
            shown = str(error)
            return ("refused at parse" if shown.strip() else "BAD parse: no text"), lambda: text
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return (
                f"BAD parse: {type(error).__name__}: {str(error)[:120]} at {where.filename.rpartition('/')[2]}:{where.lineno}",
                lambda: text,
            )
        return drive(mod, rng, vm), lambda: text
    mod = damaged_graph(rng)
    return drive(mod, rng, vm), lambda: mod


@own_cache()
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vm", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # A changed number may double a tensor forty times: that is the program's own wish, and must not take the machine with it.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    fates: collections.Counter[str] = collections.Counter()
    for seed in range(options.seed, options.seed + options.count):
        what, show = fate(seed, options.vm)
        if what.startswith("BAD") and fates[what] == 0:
            print(f"seed {seed}: {what}", flush=True)
            shown = show()
            if isinstance(shown, (str, Node)) and options.count == 1:
                print(shown)
        fates[what] += 1
    for what, count in fates.most_common():
        print(f"{count:6} {what}")
    return int(any([w.startswith("BAD") for w in fates]))


if __name__ == "__main__":
    sys.exit(main())
