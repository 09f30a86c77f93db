from tvm import autotvm
from tvm.autotvm.task.space import ConfigEntity, ConfigSpace

space = ConfigSpace()
space.define_split("tile", space.axis(16), num_outputs=3)
space.define_knob("flag", [0, 1, 2])
assert len(space) == 15 * 3
entity = space.get(10)
assert isinstance(entity, ConfigEntity) and entity["flag"].val in (0, 1, 2)
sizes = entity["tile"].size
assert sizes[0] * sizes[1] * sizes[2] == 16 or sizes[0] == -1
back = ConfigEntity.from_json_dict(entity.to_json_dict())
assert back["flag"].val == entity["flag"].val
with autotvm.FallbackContext():
    assert isinstance(autotvm.task.DispatchContext.current, autotvm.FallbackContext)
