import tvm
from tvm.target import Target

tvm.target.register_tag(
    "classic/board", {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
)
board = Target("classic/board")
assert board.mcpu == "cortex-a72" and board.attrs["num-cores"] == 4 and board.tag == "classic/board"
assert "classic/board" in tvm.target.list_tags()
both, host = Target.canon_target_and_host("cuda", "llvm")
assert both.host.kind.name == "llvm" and host.kind.name == "llvm"
assert [t.kind.name for t in Target.canon_multi_target(["llvm", "cuda"])] == ["llvm", "cuda"]
k = Target("llvm").kind
assert k.name == "llvm" and "mcpu" in k.options if hasattr(k, "options") else True
device = Target("nvidia/geforce-rtx-3090")
assert device.attrs["arch"] == "sm_86" and int(device.attrs["max_threads_per_block"]) == 1024
