"""What a model's own framework makes of a damaged file that we take: `verdict` says whether we agree, or why nobody can tell.

A failure of the framework is a reason, one of this file or the package is not: it goes on as an exception.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tests.fuzz.files import damage
from tests.fuzz.files.tflite_departures import departure, without_unwritten
from tests.fuzz.onnx.case import compare

UNCHECKED = "unchecked"
RANDOM = ("Random", "Bernoulli", "Multinomial", "Dropout")
RANDOM_LAYERS = (
    "Random",
    "Gaussian",
    "Alphadropout",
    "Statelessrandom",
    "Statefuluniform",
    "Truncated",
    "Rngbit",
    "Multinomial",
)
FLAT = ("Softmax", "LogSoftmax", "Hardmax")
"""Operators that before opset 13 ran over all axes from theirs on."""
OURS = ("/tests/fuzz/", "/tilewright/")


class Unknown(Exception):
    """Why the framework gives no answer."""


class Open(Unknown):
    """Why no framework's answer decides."""


def verdict(path: Path, args: list[np.ndarray], got: list[np.ndarray], made: Any) -> str:
    """ "right", "unchecked (why)", or how the results differ. `made`: the module, and the interface of an ONNX model."""
    mod, interface = made
    inputs = dict(zip([p.name_hint for p in mod["main"].params], args, strict=True))
    floats = [a.astype("float32") if a.dtype.name == "bfloat16" else a for a in got]
    try:
        found = beside_framework(path, inputs, floats, made)
        if found.startswith("wrong"):
            if any([beside_framework(path, inputs, v, made) == "right" for v in with_other_casts(mod, args, floats)]):
                raise Open("floats that their integers do not hold")
        return found
    except Unknown as why:
        return f"{UNCHECKED} ({why})"


def beside_framework(path: Path, inputs: dict[str, np.ndarray], got: list[np.ndarray], made: Any) -> str:
    """ "right", or how results differ from the framework's. Raises Unknown."""
    mod, interface = made
    if interface is not None:
        need_plain(path, interface)
        return of_onnx(path, inputs, got)
    want = of_framework(path, inputs)
    found = weighed(mod, got, want, 1 if path.suffix == ".tflite" else 0)
    if found == "right" or path.suffix != ".tflite":
        return found
    why = departure(path.read_bytes())
    if why is not None:
        raise Unknown(why)
    return weighed(mod, got, without_unwritten(path.read_bytes(), want), 1)


def with_other_casts(mod: Any, args: list[np.ndarray], got: list[np.ndarray]) -> list[list[np.ndarray]]:
    """The results, but where they depend on what a float becomes that its integer does not hold: what NumPy's casts (the processor's)
    make of it, and the nearest number; nothing where nothing depends on it. No format says what it becomes."""
    from tilewright.relay.evaluation.interpreter import run_function
    from tilewright.relay.op.arithmetic.elemwise import cast

    def nearest(self: Any, data: np.ndarray) -> np.ndarray:
        if data.dtype.kind != "f" or np.dtype(self.dtype).kind not in "iu":
            return np.asarray(plain(self, data))
        held = np.iinfo(self.dtype)
        inside = np.where(np.isfinite(data), data, 0).astype(np.float64)
        clear = (inside > held.min - 1.0) & (inside < held.max + 1.0) & np.isfinite(data)
        beyond = np.where(np.isnan(data), 0, np.where(data > 0, held.max, held.min).astype(self.dtype))
        return np.where(clear, np.where(clear, inside, 0).astype(self.dtype), beyond).astype(self.dtype)

    def run() -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            found = run_function(mod["main"], args, mod)
        return [np.asarray(r) for r in (found if isinstance(found, (tuple, list)) else [found])]

    plain = cast.ref
    numpys = run()
    with mock.patch.object(cast, "ref", nearest):
        saturated = run()
    depends = [
        a != b if a.shape == b.shape == g.shape else None for a, b, g in zip(numpys, saturated, got, strict=True)
    ]
    if any([d is None for d in depends]) or not any([np.any(d) for d in depends if d is not None]):
        return []
    return [
        [np.where(d, v, g).astype(g.dtype) for d, v, g in zip(depends, made, got, strict=True)]
        for made in (numpys, saturated)
    ]


LARGE = 1e15
"""Weights whose squares, and sums of these, may be more than float32 holds."""


def weighed(mod: Any, got: list[np.ndarray], want: list[Any], units: int = 0) -> str:
    """`judged`; where a number is lost on one side only and damage made weights huge, the order of steps decides."""
    found = judged(got, want, units)
    if found == "right" or not all(
        [isinstance(w, np.ndarray) and w.shape == g.shape for g, w in zip(got, want, strict=True)]
    ):
        return found
    pairs = [(g, w) for g, w in zip(got, want, strict=True) if g.dtype.kind == "f" and w.dtype.kind == "f"]
    if any([not (np.isfinite(g).all() and np.isfinite(w).all()) for g, w in pairs]) and largest_weight(mod) > LARGE:
        raise Unknown("numbers that overflow")
    return found


def largest_weight(mod: Any) -> float:
    """The largest magnitude of a float that is a constant of main."""
    from tilewright.relay.expr import Constant
    from tilewright.relay.functor import post_order

    found = [np.abs(np.asarray(e.value, np.float64)) for e in post_order(mod["main"].body) if isinstance(e, Constant)]
    return max([float(np.nan_to_num(a, nan=np.inf).max()) for a in found if a.size], default=0.0)


REMAINDER = 1e-6
"""Below, a float may be all that rounding leaves of a difference of numbers near 1."""


def _without_remainders(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The expected elements, those of ours where both are remainders."""
    if got.shape != want.shape or got.dtype.kind != "f":
        return want
    return np.where((np.abs(got) < REMAINDER) & (np.abs(want) < REMAINDER), got, want)


def judged(got: list[np.ndarray], want: list[Any], units: int = 0) -> str:
    """ "right", or how they differ; integers may be `units` apart."""
    if not all([isinstance(w, np.ndarray) for w in want]):
        raise Unknown("results that are not tensors")
    try:
        with np.errstate(all="ignore"):
            near = [
                w
                if w.shape != g.shape or w.dtype.kind not in "iu" or g.dtype.kind not in "iu"
                else np.where(np.abs(g.astype(object) - w.astype(object)) <= units, g, w)
                for g, w in zip(got, want, strict=True)
            ]
            rest = [w.astype(g.dtype) for w, g in zip(near, got, strict=True)]
            compare(got, [_without_remainders(g, w) for g, w in zip(got, rest, strict=True)], "float16")
    except (AssertionError, ValueError) as error:
        return f"wrong: {error}"
    return "right"


def of_onnx(path: Path, inputs: dict[str, np.ndarray], got: list[np.ndarray]) -> str:
    """By ONNX Runtime; where that does not take the file, or answers differently, by ONNX's reference, which decides."""
    try:
        refuse_departures(path)
        first = judged(got, of_framework(path, inputs))
    except Unknown as why:
        first = str(why)
    if first == "right":
        return first
    try:
        second = judged(got, of_reference(path, inputs))
    except Unknown as why:
        if first.startswith("wrong") and not isinstance(why, Open):
            return first
        raise Unknown(f"{first}; {why}") from None
    return second


def refuse_departures(path: Path) -> None:
    """Raises Unknown where ONNX Runtime does not do what ONNX's text says."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    for n in model.graph.node:
        given = {a.name: a for a in n.attribute}
        ratio = "keep_aspect_ratio_policy" in given and given["keep_aspect_ratio_policy"].s != b"stretch"
        if n.op_type == "Resize" and ratio and "axes" in given and min(given["axes"].ints, default=0) < 0:
            raise Unknown("ONNX Runtime keeps no ratio of axes that are counted from the last")
        if n.op_type == "TreeEnsemble" and "post_transform" in given and given["post_transform"].i in (1, 2):
            raise Unknown("ONNX Runtime takes softmax for logistic, and the other way round")


def of_framework(path: Path, inputs: dict[str, np.ndarray]) -> list[Any]:
    """The results of the framework. Raises Unknown where it does not take the file or the inputs."""
    from tilewright.relay.frontend.common.formats import format_of
    from tilewright.support.errors import InternalError, ModelError, TVMError

    form = format_of(path)
    if form.name in ("keras", "tensorflow", "tflite") and any(
        [name.title().startswith(RANDOM_LAYERS) for name in operators(form, path)]
    ):
        raise Unknown("random numbers")
    try:
        return list(form.reference(path, form.runtimes[0], {}).run(inputs)[0])
    except ModelError as error:
        if "needs" in str(error):
            raise Unknown(f"no {form.title} here") from None
        raise
    except InternalError:
        raise
    except TVMError:  # the framework's own error, in words of the importer
        raise Unknown(f"{form.title} does not take it") from None
    except Exception as error:
        if own(error):
            raise
        raise Unknown(f"{form.title} does not take it") from None


def operators(form: Any, path: Path) -> list[str]:
    """The names of a model's operators; none where what is not reached is damaged."""
    from tilewright.support.errors import ModelError

    try:
        return list(form.survey(path, {}).operators)
    except ModelError:
        return []


def own(error: BaseException) -> bool:
    """Whether an error was raised by the tests or the package, rather than in code that these call."""
    raiser = traceback.extract_tb(error.__traceback__)[-1].filename
    # Compiled code has no lines of its own, so that its callers' are the last; it raises no errors of these kinds.
    return any([part in raiser for part in OURS]) and isinstance(
        error, (TypeError, LookupError, AttributeError, NameError, AssertionError)
    )


def of_reference(path: Path, inputs: dict[str, np.ndarray]) -> list[Any]:
    """The results of ONNX's reference evaluator. Raises Unknown where it fails, or is known to depart from ONNX's text."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    from tests.fuzz.onnx.reference import CAREFUL, Departure, Unsaid

    model = onnx.load(str(path), load_external_data=False)
    old = any([o.domain in ("", "ai.onnx") and o.version < 13 for o in model.opset_import])
    if old and any([n.op_type in FLAT for n in model.graph.node]):
        raise Unknown("ONNX's reference has only today's softmax")
    first = any([o.domain in ("", "ai.onnx") and o.version < 7 for o in model.opset_import])
    if first and any(
        [n.op_type == "AveragePool" and any([a.name == "pads" for a in n.attribute]) for n in model.graph.node]
    ):
        raise Unknown("ONNX's reference counts padding, which the first AveragePool leaves out")
    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(str(path), new_ops=CAREFUL).run(None, inputs))
    except Departure as why:
        raise (Open if isinstance(why, Unsaid) else Unknown)(str(why)) from None
    except Exception:
        # It is Python without checks of its own: what it raises of a damaged model may be anything.
        raise Unknown("nor does ONNX's reference") from None


def need_plain(path: Path, interface: Any) -> None:
    """Raises Unknown where two runs differ by chance, or inputs and outputs are not plain tensors."""
    import onnx

    from tilewright.relay.frontend.onnx.interface import Leaf

    data = onnx.load(str(path), load_external_data=False)
    nodes = [n for g in damage.all_graphs(data.graph) for n in g.node] + [n for f in data.functions for n in f.node]
    if any([n.op_type.startswith(RANDOM) for n in nodes]):
        raise Unknown("random numbers")
    trees = [*interface.inputs.values(), *interface.outputs.values()]
    if not all([isinstance(t, Leaf) and not t.kind for t in trees]):
        raise Unknown("sequences, optionals or texts")
