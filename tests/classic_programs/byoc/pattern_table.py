import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
from tvm.relay.op.contrib import get_pattern_table, register_pattern_table


def conv_bias_relu():
    conv = is_op("nn.conv2d")(wildcard(), is_constant())
    return is_op("nn.relu")(is_op("nn.bias_add")(conv, is_constant()))


def small(call):
    conv = call.args[0].args[0]
    return conv.attrs.channels is None or int(conv.attrs.channels) <= 16


@register_pattern_table("classic_table")
def table():
    return [
        ("classic_table.conv_bias_relu", conv_bias_relu(), small),
        ("classic_table.relu", is_op("nn.relu")(wildcard())),
    ]


assert [row[0] for row in get_pattern_table("classic_table")] == ["classic_table.conv_bias_relu", "classic_table.relu"]
x = relay.var("x", shape=(1, 4, 8, 8))


def model(channels):
    w = relay.const(tvm.nd.empty((channels, 4, 3, 3)))
    y = relay.nn.conv2d(x, w, channels=channels, kernel_size=(3, 3))
    return tvm.IRModule.from_expr(
        relay.Function([x], relay.nn.relu(relay.nn.bias_add(y, relay.const(tvm.nd.empty((channels,))))))
    )


passes = tvm.transform.Sequential(
    [
        relay.transform.InferType(),
        relay.transform.MergeComposite(get_pattern_table("classic_table")),
        relay.transform.AnnotateTarget(["classic_table"]),
        relay.transform.PartitionGraph(),
    ]
)
for channels, composite in ((8, "classic_table.conv_bias_relu"), (32, "classic_table.relu")):
    mod = passes(model(channels))
    (name,) = [g.name_hint for g in mod.get_global_vars() if g.name_hint.startswith("tvmgen_default_classic_table")]
    text = mod[name].astext()
    assert f'Composite="{composite}"' in text, text
