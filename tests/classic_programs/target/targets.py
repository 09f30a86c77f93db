import tvm

t = tvm.target.Target("llvm -mcpu=skylake-avx512 -mattr=+avx512f,+avx512dq -num-cores=4")
assert t.kind.name == "llvm" and t.mcpu == "skylake-avx512" and t.attrs["num-cores"] == 4
assert list(t.mattr) == ["+avx512f", "+avx512dq"]
assert list(t.keys) == ["cpu"] and t.host is None
c = tvm.target.Target("cuda -arch=sm_80", host="llvm")
assert c.host.kind.name == "llvm" and c.arch == "sm_80" and c.max_num_threads == 1024 and c.thread_warp_size == 32
assert list(c.keys) == ["cuda", "gpu"]
d = tvm.target.Target({"kind": "cuda", "arch": "sm_70", "max_num_threads": 512, "host": {"kind": "llvm"}})
assert d.max_num_threads == 512 and d.host.kind.name == "llvm"
with tvm.target.Target("llvm -device=arm_cpu") as now:
    assert tvm.target.Target.current().same_as(now) and "arm_cpu" in list(now.keys)
assert tvm.target.Target.current(allow_none=True) is None
try:
    tvm.target.Target.current(allow_none=False)
except ValueError:
    pass
else:
    raise AssertionError
assert str(tvm.target.Target(str(t))) == str(t)
assert tvm.target.Target(t.export()).mcpu == t.mcpu
assert "llvm" in tvm.target.Target.list_kinds()
tagged = tvm.target.Target("nvidia/nvidia-a100")
assert tagged.arch == "sm_80" and tagged.tag == "nvidia/nvidia-a100"
for bad in ("no_such_kind", "llvm -no-such-option=1"):
    try:
        tvm.target.Target(bad)
    except (ValueError, tvm.TVMError) as error:
        assert bad.split()[-1].lstrip("-").split("=")[0] in str(error)
    else:
        raise AssertionError(bad)
