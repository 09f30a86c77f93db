"""Every version of every operator: ONNX's own one-node tests as models of older opsets, against ONNX Runtime and ONNX's reference.

    python -m tests.frontend.onnx.versions [OPERATOR ...]

What an older version takes as attributes is given to it so. A version whose rules differ has other answers than the test's own, so
these are not used. A converter's default for an attribute that a model leaves out must be that of the version's schema.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import checker, defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from tilewright.relay.frontend.onnx.program import Program
from tilewright.relay.frontend.onnx.value import OnnxNode

MOST = 2
"""Tests tried for each version."""
RANDOM = ("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial")
LATER = {"test_prelu_broadcast": 7}
"""Tests of rules that came with an opset though their nodes are valid before."""
MISSPELT = "foward"
"""The default direction of GRU-1."""
ATTRIBUTES = {"K": "k", "constant_value": "value"}
"""Inputs whose attribute had another name."""


@cache
def cases() -> dict[str, list[Any]]:
    """ONNX's tests of one node, by operator."""
    from onnx.backend.test.case.node import collect_testcases

    found: dict[str, list[Any]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for c in collect_testcases(None):
            nodes = c.model.graph.node
            if len(nodes) == 1 and nodes[0].domain in ("", "ai.onnx"):
                found[nodes[0].op_type].append(c)
    return found


@cache
def versions() -> list[tuple[str, int]]:
    """Every operator with every version before its last."""
    found = defaultdict(list)
    for s in defs.get_all_schemas_with_history():
        if s.domain == "" and not s.deprecated:
            found[s.name].append(s.since_version)
    return [(name, v) for name, all_of in sorted(found.items()) for v in sorted(all_of)[:-1]]


def restamped(case: Any, version: int) -> tuple[Any, dict[str, Any]] | None:
    """(model of an older opset, inputs) of a test; None where that version has no such node."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    (node,) = model.graph.node
    new = defs.get_schema(node.op_type, next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), "")
    old = defs.get_schema(node.op_type, version, "")
    arrays = [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in case.data_sets[0][0]]
    feeds = dict(zip([i.name for i in model.graph.input], arrays, strict=True))
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", version))
    model.ir_version = max(3, min(model.ir_version, 10))
    if not _inputs_fit(model, node, new, old, feeds):
        return None
    given = {a.name for a in node.attribute}
    needed = {n for n, a in old.attributes.items() if a.required}
    if given - set(old.attributes) or needed - given or len(node.output) > old.max_output:
        return None
    try:
        checker.check_model(model)
        shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except Exception:
        return None
    for o in model.graph.output:
        if o.type.HasField("tensor_type"):
            o.type.tensor_type.ClearField("shape")
    return model, feeds


def _inputs_fit(model: Any, node: Any, new: Any, old: Any, feeds: dict[str, Any]) -> bool:
    """Turn inputs that once were attributes into these. False where there is neither."""
    names, kept = {i.name for i in old.inputs}, []
    for k, name in enumerate(node.input):
        formal = new.inputs[min(k, len(new.inputs) - 1)].name
        wanted = ATTRIBUTES.get(formal, formal)
        if wanted in old.attributes and (k >= old.max_input or wanted not in names):
            if name:
                value = np.asarray(feeds.pop(name)).reshape(-1).tolist()
                if not value:
                    return False
                many = str(old.attributes[wanted].type).endswith("S")
                node.attribute.append(helper.make_attribute(wanted, value if many else value[0]))
                left = [i for i in model.graph.input if i.name != name]
                del model.graph.input[:]
                model.graph.input.extend(left)
        elif k < old.max_input:
            kept.append(name)
        elif name:
            return False
    del node.input[:]
    node.input.extend(kept)
    return True


def wanted(model: Any, feeds: dict[str, Any]) -> list[list[Any]]:
    """What ONNX Runtime and ONNX's reference answer, those that take the model."""
    found = []
    options = ort.SessionOptions()
    options.log_severity_level = 4
    # Either may refuse a model with whatever error it has.
    with suppress(Exception):
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found.append(session.run(None, feeds))
    with suppress(Exception):
        found.append(ReferenceEvaluator(model).run(None, feeds))
    return found


def alike(a: Any, b: Any) -> bool:
    """Whether two results are the same but for rounding."""
    if isinstance(a, list) or isinstance(b, list):
        return len(a) == len(b) and all([alike(x, y) for x, y in zip(a, b, strict=True)])
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    strings = a.dtype.kind in "OUS"
    if a.shape != b.shape or a.dtype != b.dtype and not strings:
        return False
    if strings or a.dtype.kind == "b":
        return bool((a.astype(str) == b.astype(str)).all())
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    return np.allclose(a.astype(kind), b.astype(kind), rtol=1e-3, atol=1e-4, equal_nan=True)


class Defaults:
    """Notes defaults of converters that are none of the schema's, while it is entered."""

    def __enter__(self) -> list[str]:
        self.found: list[str] = []
        self.plain = plain = OnnxNode.get
        found = self.found

        def get(node: OnnxNode, name: str, default: Any = None) -> Any:
            if name not in node.attrs and default is not None:
                try:
                    proto = defs.get_schema(node.op_type, node.opset, "").attributes[name].default_value
                except (defs.SchemaError, KeyError):
                    return default
                if proto.name:
                    said = helper.get_attribute_value(proto)
                    said = said.decode() if isinstance(said, bytes) else said
                    same = (
                        said == default if isinstance(said, (str, list)) else bool(np.isclose(said, default, rtol=1e-6))
                    )
                    if not same and said != MISSPELT:
                        found.append(f"{node.op_type}-{node.opset}: {name} is {default!r} here, {said!r} in its schema")
            return plain(node, name, default)

        OnnxNode.get = get  # type: ignore[method-assign]
        return found

    def __exit__(self, *_: Any) -> None:
        OnnxNode.get = self.plain  # type: ignore[method-assign]


def findings(name: str, version: int, most: int = MOST) -> Iterator[str]:
    """What is wrong with a version of an operator: "no test" where none fits it."""
    tried = 0
    for case in cases().get(name, []):
        made = restamped(case, version) if version >= LATER.get(case.name, 0) else None
        if made is None:
            continue
        model, feeds = made
        answers = wanted(model, feeds)
        if not answers:
            continue
        tried += 1
        with Defaults() as differ:
            try:
                got = Program(model)([feeds[i.name] for i in model.graph.input])
            except Exception as error:
                yield f"{case.name}: {type(error).__name__}: {str(error)[:200]}"
                continue
        yield from differ
        if name not in RANDOM and not any([alike(got, want) for want in answers]):
            yield f"{case.name}: another result"
        if tried == most:
            return
    if not tried:
        yield "no test"


def main() -> None:
    only = sys.argv[1:]
    counts: dict[str, int] = defaultdict(int)
    for name, version in versions():
        if only and name not in only:
            continue
        found = list(findings(name, version, 100 if only else MOST))
        counts["without a test" if found == ["no test"] else "wrong" if found else "right"] += 1
        for text in found:
            print(f"{name}-{version}: {text}", flush=True)
    print(", ".join([f"{n} {what}" for what, n in sorted(counts.items())]))


if __name__ == "__main__":
    main()
