"""What `tvm.te` offers under its classic names, and the parameters that its documentation lists."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tilewright import te

NAMES = {
    "te": """
        AXIS_SEPARATOR ComputeOp ExternOp HybridOp PlaceholderOp ScanOp Schedule SpecializedCondition Stage
        TensorComputeOp abs acos acosh add all any asin asinh atan atanh ceil comm_reducer compute const cos cosh
        create_prim_func create_schedule decl_tensor_intrin div erf exp extern extern_primfunc floor floordiv floormod
        any_dim fmod gradient hybrid if_then_else indexdiv indexmod isfinite isinf isnan log log10 log2 max max_value min
        min_value multiply nearbyint placeholder popcount power reduce_axis round rsqrt scan sigmoid sin sinh size_var
        sqrt subtract sum tag_scope tan tanh thread_axis trace trunc truncdiv truncmod var""",
    "te.tensor": """
        BaseComputeOp ComputeOp ExternOp HybridOp Operation PlaceholderOp ScanOp Tensor TensorComputeOp
        TensorIntrinCall TensorSlice""",
    "te.operation": """
        AXIS_SEPARATOR compute const create_prim_func extern extern_primfunc placeholder reduce_axis scan size_var
        thread_axis var""",
    "te.schedule": """
        AutoInlineBroadcast AutoInlineElemWise AutoInlineInjective Buffer CreateAttachPath CreateReadGraph Fuse
        InferBound PostDFSOrder ScanFixPointAnalysis ScanGetBody Schedule ScheduleOps SchedulePostProcToPrimFunc
        Singleton SpecializedCondition Split Stage VerifyCompactBuffer create_schedule""",
    "te.tensor_intrin": "TensorIntrin decl_tensor_intrin",
    "te.tag": "TagScope tag_scope",
    "te.autodiff": "gradient",
    "te.hybrid": "HybridModule build decorate script",
}

PARAMETERS = {
    "placeholder": "shape, dtype=None, name='placeholder'",
    "compute": "shape, fcompute, name='compute', tag='', attrs=None, varargs_names=None",
    "scan": "init, update, state_placeholder, inputs=None, name='scan', tag='', attrs=None",
    "extern": (
        "shape, inputs, fcompute, name='extern', dtype=None, in_buffers=None, out_buffers=None, tag='', attrs=None"
    ),
    "extern_primfunc": "input_tensors, primfunc, **kwargs",
    "var": "name='tindex', dtype='int32', span=None",
    "size_var": "name='size', dtype='int32', span=None",
    "any_dim": "name='any_dim', dtype='int32', span=None",
    "thread_axis": "dom=None, tag='', name='', span=None",
    "reduce_axis": "dom, name='rv', thread_tag='', span=None",
    "create_prim_func": "ops, index_dtype_override=None",
    "create_schedule": "ops",
    "decl_tensor_intrin": (
        "op, fcompute, name='tensor_intrin', binds=None, scalar_params=None, default_buffer_params=None"
    ),
    "gradient": "output, inputs, head=None",
    "comm_reducer": "fcombine, fidentity, name='reduce'",
    "tag_scope": "tag",
    "hybrid.script": "pyfunc",
    "hybrid.build": "sch, inputs, outputs, name='hybrid_func'",
    "Schedule.cache_read": "self, tensor, scope, readers",
    "Schedule.cache_write": "self, tensor, scope",
    "Schedule.rfactor": "self, tensor, axis, factor_axis=0",
    "Schedule.create_group": "self, outputs, inputs, include_inputs=False",
    "Schedule.normalize": "self",
    "Stage.split": "self, parent, factor=None, nparts=None, disable_predication=False",
    "Stage.fuse": "self, *args",
    "Stage.reorder": "self, *args",
    "Stage.tile": "self, x_parent, y_parent, x_factor, y_factor",
    "Stage.set_scope": "self, scope",
    "Stage.bind": "self, ivar, thread_ivar",
    "Stage.env_threads": "self, threads",
    "Stage.set_store_predicate": "self, predicate",
    "Stage.compute_at": "self, parent, scope",
    "Stage.compute_inline": "self",
    "Stage.compute_root": "self",
    "Stage.vectorize": "self, var",
    "Stage.tensorize": "self, var, tensor_intrin",
    "Stage.unroll": "self, var",
    "Stage.parallel": "self, var",
    "Stage.pragma": "self, var, pragma_type, pragma_value=None",
    "Stage.prefetch": "self, tensor, var, offset",
    "Stage.storage_align": "self, axis, factor, offset",
    "Stage.double_buffer": "self",
    "Stage.rolling_buffer": "self",
    "Stage.transform_layout": "self, mapping_function",
}


@pytest.mark.parametrize("module", NAMES)
def test_names(module: str) -> None:
    found = importlib.import_module(f"tilewright.{module}")
    assert [n for n in NAMES[module].split() if not hasattr(found, n)] == []


def test_all_names_those_that_can_be_imported() -> None:
    assert sorted(te.__all__) == te.__all__
    assert set(NAMES["te"].split()) <= set(te.__all__)
    for name in te.__all__:
        getattr(te, name)


@pytest.mark.parametrize("path", PARAMETERS)
def test_parameters(path: str) -> None:
    found: object = te
    for part in path.split("."):
        found = getattr(found, part)
    parameters = inspect.signature(found).parameters.values()  # type: ignore[arg-type]
    shown = [str(p.replace(annotation=inspect.Parameter.empty)) for p in parameters]
    assert ", ".join(shown) == PARAMETERS[path]


def test_modules_name_the_same_objects() -> None:
    assert te.tensor.ComputeOp is te.ComputeOp and te.operation.compute is te.compute  # type: ignore[attr-defined]
    assert te.tensor.TensorSlice is te.TensorSlice and te.schedule.Stage is te.Stage
