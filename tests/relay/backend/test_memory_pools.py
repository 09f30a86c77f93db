"""Memories that a model is built for: what lies where, and models that need more than there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.node import load_json, save_json, structural_equal
from tilewright.relay.backend.planning.constants import ConstantPool


def workspace(*pools: tuple[str, int]) -> tvm.WorkspaceMemoryPools:
    made = [
        tvm.WorkspacePoolInfo(n, [tvm.target.Target("llvm")], tvm.PoolInfoProperties(size_hint_bytes=b))
        for n, b in pools
    ]
    return tvm.WorkspaceMemoryPools(made)


def constants(*pools: tuple[str, int]) -> tvm.ConstantMemoryPools:
    made = [tvm.ConstantPoolInfo(n, ["llvm"], None, tvm.PoolInfoProperties(size_hint_bytes=b)) for n, b in pools]
    return tvm.ConstantMemoryPools(made)


def model() -> Any:
    x = relay.var("x", shape=(1, 64))
    weight = relay.const(np.ones((256, 64), "float32"))
    e = relay.nn.softmax(relay.nn.dense(x, weight))
    return tvm.IRModule.from_expr(
        relay.Function([x], relay.nn.softmax(relay.nn.dense(e, relay.const(np.ones((8, 256), "float32")))))
    )


def test_the_first_pool_that_is_large_enough_is_taken() -> None:
    given = workspace(("sram", 256), ("dram", 1 << 20), ("disk", -1))
    lib = relay.build(model(), "llvm", workspace_memory_pools=given, constant_memory_pools=constants(("flash", -1)))
    assert lib.metadata["memory_pools"] == {"workspace": "dram", "constants": "flash"}
    assert 256 < lib.metadata["workspace_bytes"] <= 1 << 20
    assert "memory_pools" not in relay.build(model(), "llvm").metadata


def test_models_that_need_more_are_refused_before_they_are_compiled() -> None:
    with pytest.raises(
        tvm.TVMError,
        match=r"the model needs [\d,]+ bytes for its workspace, but no memory pool .*: sram 128, more 256\.",
    ):
        relay.build(model(), "llvm", workspace_memory_pools=workspace(("sram", 128), ("more", 256)))
    with pytest.raises(tvm.TVMError, match=r"the model needs [\d,]+ bytes for its constants, .*: flash 65,536\."):
        relay.build(model(), "llvm", constant_memory_pools=constants(("flash", 65536)))
    with pytest.raises(
        TypeError, match="memory pools for the workspace are given as a WorkspaceMemoryPools, not a list"
    ):
        relay.build(model(), "llvm", workspace_memory_pools=[])


def test_pools_are_nodes() -> None:
    given = constants(("flash", 10))
    assert structural_equal(load_json(save_json(given)), given)
    assert tvm.ir.memory_pools.PoolInfo is tvm.PoolInfo and issubclass(tvm.WorkspacePoolInfo, tvm.PoolInfo)
    one = tvm.PoolInfoProperties()
    assert (one.size_hint_bytes, one.clock_frequency_hz, one.read_latency_cycles, dict(one.target_burst_bytes)) == (
        -1,
        -1,
        0,
        {},
    )
    info = tvm.ir.ConstantInfo("w", 0, tvm.nd.array(np.ones(2, "float32")))
    assert tvm.ConstantPoolInfo("rom", [], [info]).constant_info_array[0].name_hint == "w"


def test_small_constants_of_boards_come_first() -> None:
    """The bytes of one may be those of another type; what lies in the memories of several devices stays where it is."""
    arrays = [
        np.arange(300, dtype="int32"),
        np.array([7, 1], "int32"),
        np.array([7, 1], "uint32"),
        np.array([9], "int32"),
    ]
    pool = ConstantPool(8)
    assert [pool.add(a) for a in arrays] == [0, 1, 2, 3] and pool.bytes == 1224
    pool.arrange()
    assert pool.offsets == [16, 8, 8, 0] and pool.bytes == 1216
    blob = pool.blob()
    for array, offset in zip(arrays, pool.offsets, strict=True):
        np.testing.assert_array_equal(blob[offset : offset + array.nbytes].view(array.dtype), array)
    apart = ConstantPool(8)
    for home, array in enumerate(arrays):
        apart.add(array, home)
    before = [*apart.offsets]
    apart.arrange()
    assert apart.offsets == before
