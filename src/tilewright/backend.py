"""The interface by which ONNX's tools run models (onnx.backend.base): prepare, run_model, run_node, supports_device.

    import tilewright.backend as backend
    outputs = backend.prepare(onnx.load("model.onnx")).run([x])

Models are compiled; no other runtime computes results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tilewright.relay.frontend.onnx.program import Program
from tilewright.support.errors import TVMError

__all__ = ["TilewrightBackend", "TilewrightRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class TilewrightRep(BackendRep):  # type: ignore[misc]
    """A model made ready to run."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, also by name, from inputs in order or by name."""
        single = isinstance(inputs, np.ndarray) and len(self.program.infos) == 1
        results = self.program([inputs] if single else inputs)
        made: tuple[Any, ...] = namedtupledict("Outputs", self.program.outputs)(*results)
        return made


class TilewrightBackend(Backend):  # type: ignore[misc]
    """The backend as a class, as onnx.backend.test takes it."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> TilewrightRep:
        """A model checked and made ready. Raises TVMError for a device that is not supported."""
        if not cls.supports_device(device):
            raise TVMError(f"the backend runs models on CPU, not on {device!r}")
        super().prepare(model, device, **kwargs)
        return TilewrightRep(Program(model))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node. kwargs: opset_version."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        names = [n for n in node.input if n]
        values = [inputs[n] for n in names] if isinstance(inputs, Mapping) else list(inputs)
        arrays = [np.asarray(v) for v in values]
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in zip(names, arrays, strict=True)
            ],
            [helper.make_empty_tensor_value_info(n) for n in node.output if n],
        )
        version: Any = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        imports = [helper.make_opsetid("", version)]
        if node.domain not in ("", "ai.onnx"):
            known = [s.since_version for s in onnx.defs.get_all_schemas() if s.domain == node.domain]
            imports.append(helper.make_opsetid(node.domain, max(known, default=1)))
        program = Program(helper.make_model(graph, opset_imports=imports))
        return TilewrightRep(program).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models can run on a device ("CPU", "CUDA:0")."""
        return device.split(":")[0] == "CPU"


is_compatible = TilewrightBackend.is_compatible
prepare = TilewrightBackend.prepare
run_model = TilewrightBackend.run_model
run_node = TilewrightBackend.run_node
supports_device = TilewrightBackend.supports_device
