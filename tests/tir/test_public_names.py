"""The public face of tir is whole: every name that the documentation of TVM v0.18 lists."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright import tir

PASSES = """AnnotateDeviceRegions AnnotateEntryFunc AnnotateIrregularLoop Apply ApplyLayoutTransforms BF16ComputeLegalize
    BF16StorageLegalize BindTarget CoProcSync CombineContextCall CommonSubexprElimTIR CompactBufferAllocation
    ConvertBlocksToOpaque ConvertForLoopsToSerial ConvertSSA DecorateDeviceScope DefaultGPUSchedule
    ExtractPrimFuncConstants FP8ComputeLegalize FP8StorageLegalize Filter FlattenBuffer ForceNarrowIndexToInt32
    HoistExpression HoistIfThenElse HoistedConditionals HoistedLetBindings InferFragment InjectCopyIntrin
    InjectDoubleBuffer InjectPTXAsyncCopy InjectPTXLDG32 InjectPermutedLayout InjectPrefetch InjectRollingBuffer
    InjectSoftwarePipeline InjectVirtualThread InlinePrivateFunctions InstrumentBoundCheckers
    InstrumentProfileIntrinsics LegalizePackedCalls LiftAttrScope LiftThreadBinding LoopPartition LowerAsyncDMA
    LowerAutoCopy LowerCrossThreadReduction LowerCustomDatatypes LowerDeviceKernelLaunch LowerDeviceStorageAccessInfo
    LowerInitBlock LowerIntrin LowerMatchBuffer LowerOpaqueBlock LowerTVMBuiltin LowerThreadAllreduce LowerVtcmAlloc
    LowerWarpMemory MakePackedAPI MakeUnpackedAPI ManifestSharedMemoryLocalStage MergeSharedMemoryAllocations
    NarrowDataType PlanAndUpdateBufferAllocationLocation PointerValueTypeRewrite PrimFuncPass
    ReduceBranchingThroughOvercompute RemoveAssume RemoveNoOp RemoveStoreUndef RemoveWeightLayoutRewriteBlock
    RenormalizeSplitPattern RewriteUnsafeSelect Simplify SkipAssert SplitHostDevice StorageFlatten StorageRewrite
    TextureFlatten ThreadSync TransformMmaBufferLayout UnifyThreadBinding UnrollLoop UseAssumeToReduceBranches
    VectorizeLoop VerifyMemory prim_func_pass"""

ANALYSES = """OOBChecker apply_prim_func_arg_and_result_memory_constraints assert_pure_function calculate_allocated_bytes
    calculate_constant_bytes calculate_workspace_bytes detect_buffer_access_lca estimate_tir_flops expr_deep_equal
    find_anchor_block get_block_access_region get_block_read_write_region
    get_prim_func_arg_and_result_memory_constraints get_vtcm_compaction_passes has_if_then_else is_pure_function
    undefined_vars verify_gpu_code verify_memory verify_ssa verify_well_formed"""

FUNCTORS = "ir_transform post_order_visit pre_order_visit renew_defs substitute"

NODES = """Add Allocate AllocateConst And AssertStmt AttrStmt BijectiveLayout Block BlockDependenceInfo BlockRealize BlockScope Broadcast
    Buffer BufferLoad BufferRealize BufferRegion BufferStore Call CallEffectKind Cast CommReducer DataProducer DeclBuffer
    Div EQ Evaluate FloatImm FloorDiv FloorMod For ForKind GE GT IfThenElse IndexMap IntImm IterVar LE LT Layout Let
    LetStmt MatchBufferRegion Max Min Mod Mul NE Not Or Prefetch PrimExpr PrimFunc ProducerLoad ProducerRealize
    ProducerStore Ramp Reduce Schedule ScheduleError ScheduleState Select SeqStmt Shuffle SizeVar Stmt StmtSRef StringImm
    Sub TensorIntrin Var While"""

FUNCTIONS = """TVMBackendAllocWorkspace TVMBackendFreeWorkspace abs acos acosh add address_of all any anylist_getitem
    anylist_resetitem anylist_setitem_call_cpacked anylist_setitem_call_packed asin asinh assume atan atan2 atanh
    bijective_layout bitwise_and bitwise_not bitwise_or bitwise_xor call_cpacked call_cpacked_lowered call_extern
    call_intrin call_llvm_intrin call_llvm_pure_intrin call_packed call_packed_lowered call_pure_extern call_tir ceil
    ceildiv clz comm_reducer const copysign cos cosh create_barriers decl_buffer div dp4a end_profile_intrinsic erf exp
    exp10 exp2 floor floordiv floormod fmod get_active_lane_mask get_vscale_expr hypot if_then_else ignore_loop_partition
    indexdiv indexmod infinity isfinite isinf isnan isnullptr layout ldexp likely log log10 log1p log2 logaddexp
    lookup_param make_filled_simdgroup_matrix max max_value min min_value mma_fill mma_store multiply nearbyint nextafter
    popcount pow power ptx_arrive_barrier ptx_arrive_barrier_expect_tx ptx_commit_group ptx_cp_async
    ptx_cp_async_barrier ptx_cp_async_bulk ptx_init_barrier_thread_count ptx_ldmatrix ptx_mma ptx_mma_sp
    ptx_wait_barrier ptx_wait_group q_multiply_shift q_multiply_shift_per_axis reinterpret ret round rsqrt shift_left
    shift_right sigmoid simdgroup_load simdgroup_multiply_accumulate simdgroup_store sin sinh sqrt
    start_profile_intrinsic stmt_list stmt_seq subtract sum tan tanh trace trunc truncdiv truncmod tvm_access_ptr
    tvm_bmma_sync tvm_check_return tvm_fill_fragment tvm_load_matrix_sync tvm_mma_sync tvm_stack_alloca
    tvm_stack_make_array tvm_stack_make_shape tvm_storage_sync tvm_store_matrix_sync tvm_struct_get tvm_struct_set
    tvm_thread_allreduce tvm_thread_invariant tvm_throw_last_error tvm_tuple tvm_warp_activemask tvm_warp_shuffle
    tvm_warp_shuffle_down tvm_warp_shuffle_up type_annotation undef vectorcombine vectorhigh vectorlow vscale"""

ROOMS = "analysis ir_builder schedule stmt_functor transform"

OPTIONS = """tir.HoistExpression tir.HoistIfThenElse tir.InjectDoubleBuffer tir.LoopPartition
    tir.ReduceBranchingThroughOvercompute tir.RemoveNoOp tir.Simplify tir.UnrollLoop tir.add_lower_pass
    tir.debug_keep_trivial_loop tir.detect_global_barrier tir.disable_assert tir.disable_cse_tir
    tir.disable_storage_rewrite tir.disable_vectorize tir.enable_buffer_level_predication tir.enable_debug
    tir.enable_equiv_terms_in_cse_tir tir.experimental_dma_bypass_cache tir.instr_lwp tir.instr_siblings
    tir.instrument_bound_checkers tir.is_entry_func tir.lwp_disable_func_prof tir.lwp_max_depth tir.lwp_min_height
    tir.merge_static_smem tir.noalias tir.ptx_ldg32 tir.reset_start_id tir.use_async_copy tir.usmp.algorithm
    tir.usmp.custom_algorithm tir.usmp.enable tir.usmp.use_workspace_io tir.vtcm_capacity te.keep_schedule_record"""


@pytest.mark.parametrize(
    ("room", "names"),
    [
        (tir.transform, PASSES), (tir.analysis, ANALYSES), (tir.stmt_functor, FUNCTORS), (tir, NODES), (tir, FUNCTIONS),
        (tir, ROOMS),
    ],
    ids=["passes", "analyses", "functors", "nodes", "functions", "rooms"],
)  # fmt: skip
def test_every_name_is_there(room: object, names: str) -> None:
    missing = [name for name in names.split() if not hasattr(room, name)]
    assert not missing
    nameless = [name for name in names.split() if callable(getattr(room, name)) and not getattr(room, name).__doc__]
    assert not nameless, "each has a docstring"


def test_every_pass_is_listed() -> None:
    assert not [name for name in tir.transform.__all__ if not hasattr(tir.transform, name)]
    extra = {name for name in tir.transform.__all__ if name[0].isupper()} - set(PASSES.split())
    own = {
        "CompactThreadMemory",
        "ExposeEntryFunc",
        "FuseActivations",
        "InjectSoftwarePrefetch",
        "KeepNonzeroSteps",
        "LowerScalableVectors",
        "InjectWarpSpecialization",
        "MarkUnrollLoop",
        "OptimizeTileIterators",
        "VerifyGPUCode",
        "VerifySSA",
        "VerifyVTCMLimit",
    }
    assert extra == own, "our own"


def test_every_option_is_known() -> None:
    assert set(OPTIONS.split()) <= set(tvm.transform.PassContext.list_configs())


def test_options_are_refused_with_near_names() -> None:
    with pytest.raises(AttributeError, match=r"no option 'tir.UnrolLoop'; near it: tir.UnrollLoop"):
        tvm.transform.PassContext(config={"tir.UnrolLoop": {}})
    with pytest.raises(AttributeError, match=r"option 'tir.UnrollLoop' has no key 'max_step'; near it: auto_max_step"):
        tvm.transform.PassContext(config={"tir.UnrollLoop": {"max_step": 1}})
    with pytest.raises(
        TypeError, match=r"'auto_max_step' of option 'tir.UnrollLoop' must be of type int, but is str: 'a'"
    ):
        tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": "a"}})
    with pytest.raises(TypeError, match=r"option 'tir.disable_vectorize' must be of type bool, but is str: 'yes'"):
        tvm.transform.PassContext(config={"tir.disable_vectorize": "yes"})
