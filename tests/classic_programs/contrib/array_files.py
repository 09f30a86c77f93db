import json
import os

import numpy as np
import tvm
from tvm.contrib import tvmjs

rng = np.random.default_rng(0)
params = {
    "weight": tvm.nd.array(rng.standard_normal((300, 1000)).astype("float32")),
    "bias": rng.standard_normal(7).astype("float32"),
    "table": np.arange(12, dtype="int64").reshape(3, 4),
}
tvmjs.dump_ndarray_cache(
    params, "exact", encode_format="raw", meta_data={"model": "small"}, shard_cap_mb=1, show_progress=False
)
found, about = tvmjs.load_ndarray_cache("exact", tvm.cpu())
assert about == {"model": "small"} and list(found) == ["weight", "bias", "table"]
for name, value in params.items():
    np.testing.assert_array_equal(found[name].numpy(), value.numpy() if hasattr(value, "numpy") else value)
shards = json.load(open("exact/ndarray-cache.json"))["records"]
assert [len(s["records"]) for s in shards] == [1, 2] and os.path.getsize("exact/params_shard_0.bin") == 1200000

# In half of the bytes.
tvmjs.dump_ndarray_cache(params, "short", show_progress=False)
found, _ = tvmjs.load_ndarray_cache("short/ndarray-cache.json", tvm.cpu())
assert str(found["weight"].dtype) == "float32" and os.path.getsize("short/params_shard_0.bin") == 600000 + 14 + 96
np.testing.assert_allclose(found["weight"].numpy(), params["weight"].numpy(), rtol=1e-2)
(shard,) = json.load(open("short/ndarray-cache-b16.json"))["records"]
assert [r["dtype"] for r in shard["records"]] == ["bfloat16", "bfloat16", "int64"]

# One array in its place, the others as they were.
tvmjs.dump_ndarray_cache({"bias": np.ones(7, "float32")}, "exact", "raw", show_progress=False, update_if_exists=True)
found, about = tvmjs.load_ndarray_cache("exact", tvm.cpu())
assert about == {"model": "small"} and found["bias"].numpy().tolist() == [1.0] * 7
np.testing.assert_array_equal(found["table"].numpy(), params["table"])

# A folder stays as it was where the writing ends early: at an array of another size, or of a name that was there.
files = {name: open(f"exact/{name}", "rb").read() for name in os.listdir("exact")}
for later in ([("table", np.ones(5, "int64"))], [("new", np.ones(2)), ("new", np.ones(2))]):
    for update in (True, False):
        pairs = [("weight", np.zeros((300, 1000), "float32")), ("bias", np.zeros(7, "float32")), *later]
        pairs += [] if update else pairs[:1]
        try:
            tvmjs.dump_ndarray_cache(
                pairs, "exact", "raw", shard_cap_mb=1, show_progress=False, update_if_exists=update
            )
        except ValueError:
            pass
        else:
            raise AssertionError
        assert {name: open(f"exact/{name}", "rb").read() for name in os.listdir("exact")} == files
manager = tvmjs.NDArrayCacheShardingManager(".", "part", 8)
for name in "abc":
    manager.append_or_update(b"12345", name, (5,), "int8", "raw")
assert manager.pending_nbytes == 5 and [r["nbytes"] for r in manager.finish()] == [5, 5, 5]
manager = tvmjs.NDArrayCacheShardingManager("absent", "part", 8)
manager.append_or_update(b"12345", "a", (5,), "int8", "raw")
try:
    manager.finish()
except tvm.TVMError as error:
    assert "arrays cannot be written into absent: " in str(error)
else:
    raise AssertionError

with open("short/params_shard_0.bin", "ab") as file:
    file.write(b"more")
try:
    tvmjs.load_ndarray_cache("short", tvm.cpu())
except tvm.TVMError as error:
    assert "params_shard_0.bin" in str(error)
else:
    raise AssertionError
