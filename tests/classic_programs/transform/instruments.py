import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = A[i] + 1


@tvm.instrument.pass_instrument
class Log:
    def __init__(self):
        self.events = []

    def enter_pass_ctx(self):
        self.events.append("enter")

    def exit_pass_ctx(self):
        self.events.append("exit")

    def should_run(self, mod, info):
        return info.name != "tir.UnrollLoop"

    def run_before_pass(self, mod, info):
        self.events.append("before " + info.name)

    def run_after_pass(self, mod, info):
        self.events.append("after " + info.name)


log = Log()
mod = tvm.IRModule({"main": f})
with tvm.transform.PassContext(instruments=[log]):
    tir.transform.Simplify()(mod)
    tir.transform.UnrollLoop()(mod)
assert log.events == ["enter", "before tir.Simplify", "after tir.Simplify", "exit"], log.events
timing = tvm.instrument.PassTimingInstrument()
with tvm.transform.PassContext(instruments=[timing]):
    tvm.lower(mod)
    text = timing.render()
assert "tir.Simplify" in text and "us [" in text
