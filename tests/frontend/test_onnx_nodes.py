"""Converters against the node tests that the onnx package carries, whose answers come from its reference evaluator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx

from tilewright.relay.backend.interpreter import run_function
from tilewright.relay.frontend.onnx import from_onnx, supported_operators
from tilewright.support.errors import OpNotImplemented

KNOWN_AT_IMPORT = ("Range", "ConstantOfShape", "NonZero", "If", "Loop")

DIFFERENT = {
    # A scale that leads to a fraction of an element: we keep whole extents, as ONNX Runtime does.
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}
EMPTY = "_empty_set"
"""Reductions of nothing, which have no value for a maximum."""

LEAST = 1050
"""Node tests that pass; a fall below says that a converter was lost."""


def load_cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return [c for c in load_model_tests(kind="node") if c.model is not None]


def plain(values: Any) -> bool:
    return all(isinstance(v, np.ndarray) and v.dtype.kind not in "OUS" for v in values)


def run_case(model: Any, inputs: list[np.ndarray], static: bool) -> list[np.ndarray]:
    """Our outputs; with `static` all inputs but the first (or all, where nothing else makes sense) are constants."""
    names = [i.name for i in model.graph.input]
    given = dict(zip(names, inputs, strict=False))
    if static:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        fixed = names if model.graph.node[0].op_type in KNOWN_AT_IMPORT else names[1:]
        for name in fixed:
            if name in given:
                copy.graph.initializer.append(onnx.numpy_helper.from_array(given.pop(name), name))
        model = copy
    mod, _ = from_onnx(model, shape={k: list(v.shape) for k, v in given.items()})
    main = mod["main"]
    found = run_function(main, [given[p.name_hint] for p in main.params], mod)
    return list(found) if isinstance(found, (tuple, list)) else [found]


def compare(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    half = want.dtype.name in ("float16", "bfloat16")
    if want.dtype.kind in "fV":
        got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=2e-2 if half else 1e-3, atol=2e-2 if half else 1e-5)


def test_node_tests_of_onnx() -> None:
    """Every node test whose operators are imported: equal results, or a clear refusal; never anything else."""
    known = set(supported_operators(28))
    passed, refused, failed = 0, [], []
    for case in load_cases():
        version = next((o.version for o in case.model.opset_import if o.domain == ""), 0)
        if not 7 <= version <= 28 or not all(n.op_type in known for n in case.model.graph.node):
            continue
        if case.name in DIFFERENT or EMPTY in case.name:
            continue
        inputs, outputs = case.data_sets[0]
        if not plain(inputs) or not plain(outputs):
            continue
        for static in (False, True):
            try:
                for got, want in zip(run_case(case.model, inputs, static), outputs, strict=True):
                    compare(got, want)
                passed += 1
                break
            except OpNotImplemented as error:
                if static:
                    refused.append((case.name, str(error)))
            except Exception as error:
                failed.append(f"{case.name}: {type(error).__name__}: {error}")
                break
    assert failed == []
    assert all("supported" in text or "known at import" in text for _, text in refused), refused
    assert passed >= LEAST
