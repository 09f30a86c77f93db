"""docs/tensorflow_operators.md says what the TensorFlow importer takes and refuses (`pytest --update` writes it), and docs/tflite.md,
docs/keras.md name all that theirs refuse."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.frontend.tflite.test_errors import UNSUPPORTED
from tilewright.relay.frontend.tensorflow import supported_operators
from tilewright.relay.frontend.tensorflow.graph import CONTROL, SOURCES
from tilewright.relay.frontend.tensorflow.unsupported import FAMILIES, reason
from tilewright.relay.frontend.tensorflow.value import converters

DOCS = Path(__file__).parents[3] / "docs"
KINDS = {
    "arithmetic": "Arithmetic, comparisons, reductions, products", "movement": "Shapes, slices, gathering, scattering",
    "layers": "Neural networks", "linear": "Matrices", "image": "Colours and sizes of pictures", "resample": "Resampling",
    "signal": "Complex numbers and Fourier transforms", "random": "Random numbers", "text": "Texts",
    "hash": "Hashes and crossed features", "tables": "Tables", "media": "Pictures and sounds in files",
    "examples": "Serialised examples, lines, tensors", "lists": "Lists of tensors and tensor arrays",
    "data": "Ragged and sparse tensors, segments", "sparse": "Sparse arithmetic, counts, sets", "grads": "Adjoints",
    "old_forms": "Old forms, and operators that compute as others do",
    "quantized": "Quantisation", "decoding": "Decoding of sequences", "suppression": "Suppression of boxes",
}  # fmt: skip
NOT_YET = {
    "AdjustContrast", "DecodeJSONExample", "DecodeJxl", "DeserializeManySparse", "DeserializeSparse", "DrawBoundingBoxes",
    "DrawBoundingBoxesV2", "ExtractGlimpse", "ExtractGlimpseV2", "ExtractVolumePatches", "FFTND", "For", "GenerateBoundingBoxProposals",
    "IFFTND", "IRFFTND", "IsotonicRegression", "MatrixLogarithm", "NearestNeighbors", "ParseSequenceExample", "ParseSequenceExampleV2",
    "ParseSingleSequenceExample", "ParseTensor", "RFFTND", "RaggedCross", "RaggedFillEmptyRows", "RaggedTensorFromVariant",
    "RaggedTensorToVariant", "SerializeManySparse", "SerializeSparse", "SobolSample", "TensorListConcatLists",
    "TensorListPushBackBatch", "UnicodeScript", "WindowOp",
}  # fmt: skip
"""Operators of TensorFlow that are refused and belong to none of FAMILIES; `tensorflow/peers_rare.py` holds TensorFlow against it."""


def listed(names: list[str]) -> str:
    return textwrap.fill(", ".join([f"`{n}`" for n in sorted(names)]), 140, break_long_words=False)


def tensorflow_table() -> str:
    groups: dict[str, list[str]] = {}
    for name in supported_operators():
        home = converters[name].__module__.rpartition(".")[2] if name in converters else ""
        groups.setdefault(KINDS.get(home, "Inputs, control flow, functions"), []).append(name)
    parts = [
        "# Operators of TensorFlow",
        "Written by `pytest tests/frontend/common/test_operator_tables.py --update`; see [Models from TensorFlow](tensorflow.md).",
        "## Imported",
    ]
    parts += [f"### {title}\n\n{listed(groups[title])}" for title in sorted(groups)]
    parts += ["## Refused, by what they belong to"]
    parts += ["\n".join([f"- {why}: `{names}`" for names, why in FAMILIES])]
    parts += ["## Not imported", listed(sorted(NOT_YET))]
    return "\n\n".join(parts) + "\n"


def test_tensorflow_operators(request: pytest.FixtureRequest) -> None:
    path = DOCS / "tensorflow_operators.md"
    if request.config.getoption("--update"):
        path.write_text(tensorflow_table())
    assert path.read_text() == tensorflow_table(), "run pytest with --update and look at what it wrote"
    assert f"{len(supported_operators())} of them" in (DOCS / "tensorflow.md").read_text()
    assert not NOT_YET & set(supported_operators())
    assert {*CONTROL, *SOURCES} <= set(supported_operators())


@pytest.mark.parametrize(
    "op, why",
    [
        ("PyFunc", "Python code of the model's author"), ("ParallelMapDatasetV2", "it feeds data"), ("XlaConcatND", "other devices"),
        ("ResourceApplyAdam", "it belongs to training"), ("MaxPoolGradGrad", "it belongs to training"), ("Relu", ""),
        ("QuantizedConv2D", "older schemes"), ("AssignAddVariableOp", "changes, saves or restores variables"),
        ("QueueDequeueV2", "queues"), ("LookupTableInsertV2", "changes tables"), ("TensorArrayReadV2", "TensorFlow 0.x"),
        ("StatefulUniform", "random numbers of this kind"),
    ],
)  # fmt: skip
def test_reasons(op: str, why: str) -> None:
    assert why in reason(op) and bool(why) == bool(reason(op))


def test_tflite_operators() -> None:
    text = (DOCS / "tflite.md").read_text()
    table = text[text.index("| not imported |") : text.index("A tensor of texts is")]
    assert {n for n in UNSUPPORTED - {"CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES"} if n not in table} == set()
