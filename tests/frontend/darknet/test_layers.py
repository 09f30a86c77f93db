"""Each layer of Darknet against NumPy and PyTorch, from files as Darknet writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.darknet import reference
from tests.frontend.darknet.reference import Array, sigmoid, softmax
from tilewright import relay
from tilewright.formats.darknet import load_network
from tilewright.relay.testing.darknet import __darknetffi__
from tilewright.support.errors import ModelError, OpNotImplemented

RNG = np.random.default_rng(0)
NET = "[net]\nbatch=1\nheight={h}\nwidth={w}\nchannels={c}\n\n"
X = RNG.normal(size=(1, 4, 8, 6)).astype("float32")


def random(*shape: int) -> Array:
    return RNG.normal(size=shape).astype("float32")


def results(files: tuple[str, str], *inputs: Array, shape: Any = None, **more: Array) -> list[Array]:
    mod, params = relay.frontend.from_darknet(load_network(*files), shape=shape)
    found = relay.create_executor("graph", mod).evaluate()(*inputs, **{**params, **more})
    return [v.numpy() for v in (found if isinstance(found, (list, tuple)) or not hasattr(found, "numpy") else [found])]


def check(folder: Path, section: str, wanted: Array, *weights: Array, x: Array = X, **files: Any) -> None:
    """One layer between the input and the output."""
    _, c, h, w = x.shape
    flat = np.concatenate([v.reshape(-1) for v in weights]) if weights else np.zeros(0, "float32")
    paths = reference.write(folder, NET.format(c=c, h=h, w=w) + section, flat, **files)
    (got,) = results(paths, x)
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_activations(name: str, tmp_path: Path) -> None:
    x = (np.linspace(-6, 6, 64, dtype="float32") + 0.01).reshape(1, 1, 8, 8)
    check(tmp_path, f"[activation]\nactivation={name}\n", reference.ACTIVATIONS[name](x), x=x)


@pytest.mark.parametrize(
    "options, stride, pad, groups, dilation",
    [
        ("pad=1", 1, 1, 1, 1),
        ("padding=0\nstride=2", 2, 0, 1, 1),
        ("pad=1\ngroups=2", 1, 1, 2, 1),
        ("pad=1\ndilation=2", 1, 1, 1, 2),
    ],
)
def test_convolutional(options: str, stride: int, pad: int, groups: int, dilation: int, tmp_path: Path) -> None:
    w, b = random(6, 4 // groups, 3, 3), random(6)
    wanted = reference.conv(X, w, b, stride, pad, groups, dilation)
    check(tmp_path, f"[convolutional]\nfilters=6\nsize=3\n{options}\nactivation=linear\n", wanted, b, w)


def test_batch_normalisation(tmp_path: Path) -> None:
    w, b, scales, mean, variance = random(6, 4, 3, 3), random(6), random(6), random(6), abs(random(6))
    out = reference.normalised(reference.conv(X, w, np.zeros(6, "float32"), 1, 1), scales, mean, variance)
    section = "[convolutional]\nbatch_normalize=1\nfilters=6\nsize=3\npad=1\nactivation=leaky\n"
    wanted = reference.ACTIVATIONS["leaky"](out + b.reshape(1, -1, 1, 1))
    check(tmp_path, section, wanted, b, scales, mean, variance, w)
    given = [v[:4] for v in (scales, mean, variance)]
    check(tmp_path, "[batchnorm]\n", reference.normalised(X, *given), *given)


def test_deconvolutional(tmp_path: Path) -> None:
    w, b = random(4, 5, 4, 4), random(5)
    section = "[deconvolutional]\nfilters=5\nsize=4\nstride=2\npadding=1\nactivation=linear\n"
    check(tmp_path, section, reference.deconv(X, w, b, 2, 1), b, w)


@pytest.mark.parametrize("pad", [0, 1])
def test_local(pad: int, tmp_path: Path) -> None:
    rows, columns = ((d - (1 if pad else 3)) // 2 + 1 for d in (8, 6))
    w, b = random(rows * columns, 5, 4 * 9), random(5, rows, columns)
    section = f"[local]\nfilters=5\nsize=3\nstride=2\npad={pad}\nactivation=linear\n"
    check(tmp_path, section, reference.local(X, w, b, 3, 2, pad), b, w)


@pytest.mark.parametrize("major, transposed", [(0, False), (1001, True)])
def test_connected(major: int, transposed: bool, tmp_path: Path) -> None:
    w, b, scales, mean, variance = random(10, 192), random(10), random(10), random(10), abs(random(10))
    out = reference.normalised(X.reshape(1, -1) @ w.T, scales, mean, variance) + b
    section = "[connected]\noutput=10\nbatch_normalize=1\nactivation=tanh\n"
    given = w.T.copy() if transposed else w
    check(tmp_path, section, np.tanh(out), b, given, scales, mean, variance, major=major)


@pytest.mark.parametrize(
    "size, stride, pad", [(2, 2, None), (2, 1, None), (3, 2, None), (5, 1, None), (3, 2, 0), (3, 2, 3)]
)
def test_maxpool(size: int, stride: int, pad: int | None, tmp_path: Path) -> None:
    section = f"[maxpool]\nsize={size}\nstride={stride}\n" + ("" if pad is None else f"padding={pad}\n")
    check(tmp_path, section, reference.maxpool(X, size, stride, size - 1 if pad is None else pad))


def test_windows_and_sizes(tmp_path: Path) -> None:
    check(tmp_path, "[avgpool]\n", X.mean((2, 3)))
    check(tmp_path, "[upsample]\nstride=2\nscale=.5\n", X.repeat(2, 2).repeat(2, 3) / 2)
    check(tmp_path, "[crop]\ncrop_height=4\ncrop_width=2\n", X[:, :, 2:6, 2:4] * 2 - 1)
    check(tmp_path, "[crop]\ncrop_height=4\ncrop_width=2\nnoadjust=1\n", X[:, :, 2:6, 2:4])
    check(tmp_path, "[reorg]\nstride=2\n", reference.reorg(X, 2, False))
    check(tmp_path, "[reorg]\nstride=2\nreverse=1\n", reference.reorg(X, 2, True))
    check(tmp_path, "[dropout]\nprobability=.5\n\n[cost]\ntype=sse\n", X)
    check(tmp_path, "[l2norm]\n", X / np.sqrt((X * X).sum(1, keepdims=True)))


def test_softmax(tmp_path: Path) -> None:
    flat = X.reshape(1, 2, -1)
    check(tmp_path, "[softmax]\ngroups=2\ntemperature=2\n", softmax(flat / 2, 2).reshape(1, -1))
    check(tmp_path, "[softmax]\nspatial=1\n", softmax(X, 1))


def test_route_and_shortcut(tmp_path: Path) -> None:
    w, b = random(6, 4, 3, 3), random(6)
    out = reference.conv(X, w, b, 1, 1)
    front = "[convolutional]\nfilters=6\nsize=3\npad=1\nactivation=linear\n\n[maxpool]\nsize=3\nstride=1\n\n"
    pooled = reference.maxpool(out, 3, 1, 2)
    check(tmp_path, front + "[route]\nlayers=-1,0\n", np.concatenate([pooled, out], 1), b, w)
    halves = [v[:, 3:] for v in (pooled, out)]
    check(tmp_path, front + "[route]\nlayers=-1,0\ngroups=2\ngroup_id=1\n", np.concatenate(halves, 1), b, w)
    check(tmp_path, front + "[shortcut]\nfrom=-2\nactivation=relu\n", np.maximum(pooled + out, 0), b, w)
    # Fewer channels, and a smaller image: the common channels, every second place of the larger image.
    narrow, bias = random(3, 6, 1, 1), random(3)
    section = (
        "[convolutional]\nfilters=3\nsize=1\nstride=2\nactivation=linear\n\n[shortcut]\nfrom=0\nactivation=linear\n"
    )
    small = reference.conv(out, narrow, bias, 2, 0)
    front = "[convolutional]\nfilters=6\nsize=3\npad=1\nactivation=linear\n\n"
    check(tmp_path, front + section, small + out[:, :3, ::2, ::2], b, w, bias, narrow)


def recurrent_step(
    kind: str, w: list[tuple[Array, Array]], x: Array, h: Array, cell: Array
) -> tuple[Array, Array, Array]:
    def dense(k: int, v: Array) -> Array:
        return v @ w[k][1].T + w[k][0]

    if kind == "rnn":
        h = np.tanh(dense(0, x)) + np.tanh(dense(1, h))
        return np.tanh(dense(2, h)), h, cell
    if kind == "gru":
        z, r = sigmoid(dense(3, x) + dense(0, h)), sigmoid(dense(4, x) + dense(1, h))
        new = np.tanh(dense(5, x) + dense(2, h * r))
        h = z * h + (1 - z) * new
        return h, h, cell
    i, f, o = (sigmoid(dense(k, h) + dense(k + 4, x)) for k in range(3))
    cell = f * cell + i * np.tanh(dense(3, h) + dense(7, x))
    h = o * np.tanh(cell)
    return h, h, cell


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_recurrent(kind: str, tmp_path: Path) -> None:
    """Two steps: the second takes the states that the first gave."""
    sides = {"rnn": "xhh", "gru": "hhhxxx", "lstm": "hhhhxxxx"}[kind]
    w = [(random(5), random(5, 7 if s == "x" else 5)) for s in sides]
    cfg = f"[net]\ninputs=7\n\n[{kind}]\noutput=5\nactivation=tanh\ntanh=1\n"
    files = reference.write(tmp_path, cfg, np.concatenate([np.concatenate([b, v.reshape(-1)]) for b, v in w]))
    state: dict[str, Array] = {}
    h = cell = np.zeros((1, 5), "float32")
    for _ in range(2):
        x = random(1, 7)
        wanted, h, cell = recurrent_step(kind, w, x, h, cell)
        out, *states = results(files, x, **state)
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5)
        names = [f"{kind}0_cell", f"{kind}0_state"] if kind == "lstm" else [f"{kind}0_state"]
        state = dict(zip(names, states, strict=True))


def detector(kind: str, options: str) -> str:
    return f"[{kind}]\nclasses=3\n{options}\n"


def test_yolo(tmp_path: Path) -> None:
    x = random(1, 16, 2, 2)
    options = "mask=1,2\nanchors=1,2, 3,4, 5,6\nnum=3"
    files = reference.write(tmp_path, NET.format(c=16, h=2, w=2) + detector("yolo", options) * 2, np.zeros(0))
    # The first detector's result feeds the second only in this test; the last one's outputs come first.
    last, mask, bias, attr, first, *_ = results(files, x)
    apart = x.reshape(1, 2, 8, 2, 2).copy()
    for places in (slice(0, 2), slice(4, 8)):
        apart[:, :, places] = sigmoid(apart[:, :, places])
    np.testing.assert_allclose(first, apart.reshape(x.shape), rtol=1e-5, atol=1e-6)
    assert mask.tolist() == [1, 2] and bias.tolist() == [1, 2, 3, 4, 5, 6] and attr.tolist() == [2, 16, 2, 2, 3, 3]
    assert last.shape == x.shape and len(_) == 3


@pytest.mark.parametrize("background", [0, 1])
@pytest.mark.parametrize("soft", [0, 1])
def test_region(background: int, soft: int, tmp_path: Path) -> None:
    x = random(1, 16, 3, 3)
    options = f"num=2\nanchors=1,2,3,4\nsoftmax={soft}\nbackground={background}"
    files = reference.write(tmp_path, NET.format(c=16, h=3, w=3) + detector("region", options), np.zeros(0))
    out, bias, attr = results(files, x)
    wanted = x.reshape(1, 2, 8, 3, 3).copy()
    wanted[:, :, :2] = sigmoid(wanted[:, :, :2])
    if not background:
        wanted[:, :, 4] = sigmoid(wanted[:, :, 4])
    if not soft:
        wanted[:, :, 5:] = sigmoid(wanted[:, :, 5:])
    else:
        begin = 4 if background else 5
        wanted[:, :, begin:] = softmax(wanted[:, :, begin:], 2)
    np.testing.assert_allclose(out, wanted.reshape(x.shape), rtol=1e-5, atol=1e-6)
    assert bias.tolist() == [1, 2, 3, 4] and attr.tolist() == [2, 16, 3, 3, 3, 4, background]


def test_detection(tmp_path: Path) -> None:
    w, b = random(3 * 3 * (2 + 5), 192), random(3 * 3 * 7)
    out = X.reshape(1, -1) @ w.T + b
    likely = softmax(out[:, :18].reshape(1, 9, 2), 2).reshape(1, 18)
    section = "[connected]\noutput=63\nactivation=linear\n\n[detection]\nclasses=2\nside=3\nnum=1\nsoftmax=1\n"
    check(tmp_path, section, np.concatenate([likely, out[:, 18:]], 1), b, w)


def test_the_library_of_classic_programs(tmp_path: Path) -> None:
    """Weights may lie in a file whose name classic programs give as bytes; without them they are zero."""
    w, b = random(6, 4, 1, 1), random(6)
    cfg = NET.format(c=4, h=8, w=6) + "[convolutional]\nfilters=6\nactivation=linear\n"
    files = reference.write(tmp_path, cfg, np.concatenate([b, w.reshape(-1)]))
    library = __darknetffi__.dlopen("libdarknet2.0.so")
    net = library.load_network(files[0].encode(), files[1].encode(), 0)
    assert (net.c, net.h, net.w, net.n, net.layers[0].out_c) == (4, 8, 6, 1, 6)
    mod, params = relay.frontend.from_darknet(net, dtype="float32", shape=(2, 4, 8, 6))
    data = random(2, 4, 8, 6)
    got = relay.create_executor("graph", mod).evaluate()(data, **params).numpy()
    np.testing.assert_allclose(got, reference.conv(data, w, b, 1, 0), rtol=1e-4, atol=1e-5)
    empty = library.load_network(files[0], __darknetffi__.NULL, 0)
    assert not empty.layers[0].weights["weights"].any()
    same, _ = relay.frontend.from_darknet(files[0], shape={"data": (2, 4, 8, 6)})
    assert str(same) == str(mod)


@pytest.mark.parametrize(
    "cfg, message",
    [
        ("[convolutional]\nfilters=4\n", r"the first section must be \[net\]"),
        ("[net]\nheight=4\nwidth=4\nchannels=1\n[wavelet]\n", r"line 5: \[wavelet\] is no layer of Darknet"),
        (
            "[net]\nheight=4\nwidth=4\nchannels=1\n[maxpool]\nsize=big\n",
            r"\[maxpool\] has size=big; it must be a number",
        ),
        (
            "[net]\nheight=4\nwidth=4\nchannels=1\n[route]\nlayers=3\n",
            "layer 0 refers to the layer 3, which does not come before it",
        ),
        (
            "[net]\nheight=4\nwidth=4\nchannels=1\n[yolo]\nclasses=2\n",
            r"takes 1 x \(4 \+ 2 \+ 1\) channels, but its input has 1",
        ),
        ("[net]\nbatch=1\n[maxpool]\n", "neither height, width and channels nor inputs"),
        ("hello\n", "'hello' is neither a section nor an option"),
        (
            "[net]\nheight=4\nwidth=4\nchannels=1\n[connected]\noutput=9\n",
            "asks for 9 weights or more, but the file has 0",
        ),
    ],
)
def test_wrong_files(cfg: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        load_network(*reference.write(tmp_path, cfg, np.zeros(0)))


def test_unsupported_layers_are_listed(tmp_path: Path) -> None:
    cfg = NET.format(c=4, h=8, w=6) + "[normalization]\n\n[crnn]\noutput=3\n\n[activation]\nactivation=relu\n"
    with pytest.raises(
        OpNotImplemented,
        match=r"2 things are not supported\n  normalization \(1 layer: 'normalization0'\).*border\n  crnn",
    ):
        relay.frontend.from_darknet(load_network(*reference.write(tmp_path, cfg, np.zeros(0))))
    cfg = NET.format(c=4, h=8, w=6) + "[activation]\nactivation=relo\n"
    with pytest.raises(OpNotImplemented, match="its activation is 'relo'; nearest supported: relu"):
        relay.frontend.from_darknet(load_network(*reference.write(tmp_path, cfg, np.zeros(0))))
    with pytest.raises(ModelError, match="its weights are not beside it"):
        relay.frontend.from_darknet(str(tmp_path / "other.cfg"))
    with pytest.raises(ModelError, match="net is a list"):
        relay.frontend.from_darknet([])


@pytest.mark.parametrize(
    "section, message",
    [
        ("[convolutional]\nsize=inf\n", "size=inf; it must be an integer of 1 or more"),
        ("[convolutional]\nsize=nan\n", "size=nan; it must be an integer of 1 or more"),
        ("[convolutional]\nstride=0\n", "stride=0; it must be an integer of 1 or more"),
        ("[convolutional]\nstride=1.9\n", "stride=1.9; it must be an integer of 1 or more"),
        ("[convolutional]\ngroups=0\n", "groups=0; it must be an integer of 1 or more"),
        ("[convolutional]\nfilters=1e12\n", "filters=1e12; it must be an integer of 1 or more"),
        ("[connected]\noutput=-5\n", "output=-5; it must be an integer of 1 or more"),
        ("[connected]\noutput=20000000\n", "more than 2147483647"),
        ("[convolutional]\nstride_x=1\nstride_y=2\n", "stride_x=1 and stride_y=2; different strides are not supported"),
        ("[maxpool]\nstride=2\nstride_x=1\n", "stride_x=1 and stride_y=2; different strides are not supported"),
        ("[crop]\ncrop_height=9\ncrop_width=2\n", "takes 9 rows and 2 columns of an image of 8 and 6"),
        ("[avgpool]\n[route]\nlayers=0.5\n", "layers=0.5; it must be integers"),
        ("[avgpool]\n[route]\nlayers=0\ngroups=2\ngroup_id=2\n", "takes the group 2 of 2 groups of 4 channels"),
        ("[avgpool]\n[route]\nlayers=0\ngroups=3\n", "takes the group 0 of 3 groups of 4 channels"),
        ("[yolo]\nclasses=3\nnum=1\nscale_x_y=1.2\n", "scale_x_y or new_coords, which are not supported"),
        ("[yolo]\nclasses=3\nnum=1\nnew_coords=1\n", "scale_x_y or new_coords, which are not supported"),
    ],
)
def test_wrong_options(section: str, message: str, tmp_path: Path) -> None:
    files = reference.write(tmp_path, NET.format(c=4, h=8, w=6) + section, np.zeros(0))
    with pytest.raises(ModelError, match=message):
        load_network(files[0])


def test_equal_strides_by_axis(tmp_path: Path) -> None:
    w, b = random(6, 4, 3, 3), random(6)
    section = "[convolutional]\nfilters=6\nsize=3\nstride_x=2\nstride_y=2\nactivation=linear\n"
    check(tmp_path, section, reference.conv(X, w, b, 2, 0), b, w)
    check(tmp_path, "[maxpool]\nsize=2\nstride_x=2\nstride_y=2\n", reference.maxpool(X, 2, 2, 1))


def test_states_of_a_batch(tmp_path: Path) -> None:
    w = [(random(5), random(5, 5 if k < 3 else 7)) for k in range(6)]
    cfg = "[net]\ninputs=7\n\n[gru]\noutput=5\ntanh=1\n"
    files = reference.write(tmp_path, cfg, np.concatenate([np.concatenate([b, v.reshape(-1)]) for b, v in w]))
    mod, params = relay.frontend.from_darknet(load_network(*files), shape=(2, 7))
    assert params["gru0_state"].shape == (2, 5)
    x, h = random(2, 7), random(2, 5)
    out, state = relay.create_executor("graph", mod).evaluate()(x, **{**params, "gru0_state": h})
    wanted, *_ = recurrent_step("gru", w, x, h, h)
    for got in (out, state):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match="channels=-3; it must be an integer of 0 or more"):
        load_network(reference.write(tmp_path, "[net]\nchannels=-3\n", np.zeros(0))[0])
    with pytest.raises(OpNotImplemented, match="the batch, which its state has too"):
        relay.frontend.from_darknet(load_network(*reference.write(tmp_path, cfg, np.zeros(300))), shape=(-1, 7))


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cfg is a NoneType"):
        load_network(None)  # type: ignore[arg-type]
    net = load_network(reference.write(tmp_path, NET.format(c=4, h=8, w=6) + "[avgpool]\n", np.zeros(0))[0])
    for dtype in ("int8", np.float32, {"other": "float32"}):
        with pytest.raises(ModelError, match="it must be one of float16, float32, float64"):
            relay.frontend.from_darknet(net, dtype=dtype)  # type: ignore[arg-type]
    for shape in (5, "abcd", (1.5, 4, 8, 6)):
        with pytest.raises(ModelError, match="shape gives "):
            relay.frontend.from_darknet(net, shape=shape)  # type: ignore[arg-type]
