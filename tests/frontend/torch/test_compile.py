"""torch.compile(backend="tilewright"): whole graphs, parts of graphs, weights that change, gradients."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tilewright.ir import TupleType
from tilewright.node import structural_equal
from tilewright.relay.frontend.pytorch.compile import Piece, backend
from tilewright.support.errors import TVMError


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """The pieces that were compiled."""
    built: list[Piece] = []
    plain = Piece.build

    def build(self: Piece, args: Any) -> None:
        plain(self, args)
        assert not self.failed
        built.append(self)

    monkeypatch.setattr(Piece, "build", build)
    return built


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
    ).eval()


def test_name_is_known_to_pytorch() -> None:
    assert "tilewright" in torch._dynamo.list_backends(exclude_tags=())


def test_whole_graph(pieces: list[Piece]) -> None:
    module = net()
    compiled = torch.compile(module, backend="tilewright")
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), module(x))
        assert len(pieces) == 1
        assert len(pieces[0].frozen) >= 4
        module[5].weight.mul_(2.0)
        torch.testing.assert_close(compiled(x), module(x))
        # A written weight has the piece built again; another batch makes a graph of dynamic dimensions, which takes all others.
        for n in (3, 4, 5):
            x = torch.randn(n, 3, 8, 8)
            torch.testing.assert_close(compiled(x), module(x))
    assert len(pieces) == 3


class Parts(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x) * 2 + 1
        u = torch.special.airy_ai(y)
        return torch.tanh(u * 3) + y.sum(), y.mT @ y


def test_parts_of_a_graph(pieces: list[Piece]) -> None:
    x = torch.randn(4, 6)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(Parts(), backend=backend)(x), Parts()(x))
    assert len(pieces) >= 1
    assert not any("airy" in str(n.target) for p in pieces for n in p.graph.graph.nodes if n.op == "call_function")


def test_gradients(pieces: list[Piece]) -> None:
    module = net()
    x = torch.randn(2, 3, 8, 8)
    module(x).square().sum().backward()
    wanted = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    module.zero_grad()
    torch.compile(module, backend=backend)(x).square().sum().backward()
    for p, grad in zip(module.parameters(), wanted, strict=True):
        torch.testing.assert_close(p.grad, grad, rtol=1e-4, atol=1e-5)
    assert len(pieces) >= 2


def agree(f: Any, *inputs: Any) -> tuple[Any, Any]:
    """What the compiled function and the function itself answer: the same numbers, types and steps in memory."""
    copies = [
        [x.clone(memory_format=torch.preserve_format) if isinstance(x, Tensor) else x for x in inputs] for _ in range(2)
    ]
    with torch.no_grad():
        found, wanted = torch.compile(f, backend=backend)(*copies[0]), f(*copies[1])
    for a, b in zip(
        *[torch.utils._pytree.tree_leaves([r, c]) for r, c in ((found, copies[0]), (wanted, copies[1]))], strict=True
    ):
        torch.testing.assert_close(a, b)
        assert not isinstance(a, Tensor) or not a.numel() or a.stride() == b.stride()
    return found, copies[0]


def test_numbers_and_tensors_without_axes(pieces: list[Piece]) -> None:
    def f(x: Tensor, s: float) -> Any:
        return x * s + s, x.sum() * 2

    for s in (1.5, 2.5, 3.5):
        agree(f, torch.randn(3), s)
    agree(f, torch.tensor(2.0), 1.5)
    agree(f, torch.zeros(0, 3), 1.5)
    assert pieces


def test_numbers_that_are_no_extent(pieces: list[Piece]) -> None:
    def f(x: Tensor, n: int) -> Any:
        return x[:n] * 2, torch.arange(n) + 1

    compiled = torch.compile(f, backend=backend)
    x = torch.randn(9)
    for n in (2, 3, 4, 7):
        for a, b in zip(compiled(x, n), f(x, n), strict=True):
            torch.testing.assert_close(a, b)
    assert len(pieces) == 2


def test_steps_in_memory(pieces: list[Piece]) -> None:
    agree(lambda x: (x * 2).relu(), torch.randn(6, 4).t())
    conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval().to(memory_format=torch.channels_last)
    agree(conv, torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last))
    assert len(pieces) == 2


def test_outputs_that_share_elements() -> None:
    def f(x: Tensor) -> Any:
        y = (x + 1) * 2
        return y, y[0], y.view(-1)

    (whole, row, flat), _ = agree(f, torch.randn(3, 4))
    whole[0, 0] = 9
    assert row[0] == 9
    assert flat[0] == 9


def test_writes_to_inputs() -> None:
    def f(x: Tensor) -> Tensor:
        x.view(-1)[2:5] = 7
        x[0].mul_(2)
        return x.sum()

    agree(f, torch.randn(3, 4))


def test_constants_of_the_graph(pieces: list[Piece]) -> None:
    agree(lambda x: x * 3 + torch.tensor([1.0, 2.0]), torch.randn(3, 2))
    assert pieces


def test_random_numbers_are_those_of_pytorch() -> None:
    def f(x: Tensor) -> Any:
        return x * 2 + torch.rand_like(x), torch.randn(3) + 1, nn.functional.dropout(x, 0.5, True)

    x = torch.ones(3, 4)
    compiled = torch.compile(f, backend=backend)
    torch.manual_seed(0)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(0)
    for a, b, c in zip(first, f(x), second, strict=True):
        torch.testing.assert_close(a, b)
        assert not torch.equal(a, c)


def test_complex_numbers_stay_with_pytorch() -> None:
    agree(lambda x: (torch.fft.rfft(x * 2 + 1).abs() + 1).log(), torch.randn(3, 8))
    agree(lambda z: (z * 2, z.abs() * 2 + 1), torch.randn(3, 4, dtype=torch.complex64))


def test_other_devices_stay_with_pytorch(pieces: list[Piece]) -> None:
    compiled = torch.compile(lambda x: (x * 2 + 1).sum(0), backend=backend)
    assert compiled(torch.empty(3, 4, device="meta")).device.type == "meta"
    assert not pieces


def test_types(pieces: list[Piece]) -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.int8, torch.uint8, torch.int64):
        torch._dynamo.reset()
        agree(lambda x: (x * 2 + x, x > 1, x.float() / 3), torch.arange(12).reshape(3, 4).to(dtype))
    assert len(pieces) == 5


def test_inference_mode() -> None:
    x = torch.randn(2, 4)
    with torch.inference_mode():
        module = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
        compiled = torch.compile(module, backend=backend)
        torch.testing.assert_close(compiled(x), module(x))
        module[0].weight.mul_(2.0)
        torch.testing.assert_close(compiled(x), module(x))


def test_threads_take_turns(pieces: list[Piece]) -> None:
    module = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    compiled = torch.compile(module, backend=backend)
    inputs = [torch.randn(4, 32) for _ in range(4)]
    with torch.no_grad():
        wanted = [module(x) for x in inputs]
        compiled(inputs[0])

        def work(k: int) -> bool:
            with torch.no_grad():
                return all([torch.allclose(compiled(inputs[k]), wanted[k], atol=1e-5) for _ in range(30)])

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))
    assert len(pieces) == 1


def test_training_that_writes_statistics(pieces: list[Piece]) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).train()
    module = copy.deepcopy(plain)
    compiled = torch.compile(module, backend=backend)
    for _ in range(2):
        x = torch.randn(2, 3, 6, 6)
        for m, run in ((plain, plain), (module, compiled)):
            run(x).square().sum().backward()
            with torch.no_grad():
                for p in m.parameters():
                    p -= 0.01 * p.grad
    for a, b in zip(module.state_dict().values(), plain.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert pieces


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"taget": "llvm"},
            'torch.compile(backend="tilewright") has the option "target" only, but was given \'taget\'',
        ),
        ({"target": "llvmm"}, "there is no target kind 'llvmm'; nearest known: llvm"),
    ],
)
def test_options(options: dict[str, str], text: str) -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, backend="tilewright", options=options)
    for _ in range(2):
        with pytest.raises(TVMError, match=re.escape(text)):
            compiled(torch.ones(3))


def nested(depth: int) -> Any:
    t: Any = TupleType(())
    for _ in range(depth):
        t = TupleType((t,))
    return t


def test_deep_programs_beside_pytorch() -> None:
    """While PyTorch evaluates frames, as it does under torch.compile and after a back end failed, Python's calls take the stack of C:
    not those of the compiler."""

    def deep(graph: Any, inputs: Any) -> Any:
        assert structural_equal(nested(30_000), nested(30_000))
        return graph.forward

    def failing(graph: Any, inputs: Any) -> Any:
        raise ValueError("no")

    x = torch.ones(3)
    torch.testing.assert_close(torch.compile(lambda x: x * 2 + 1, backend=deep)(x), x * 2 + 1)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(lambda x: x * 3, backend=failing)(x)
    assert structural_equal(nested(30_000), nested(30_000))


def test_mode_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "tilewright"):
        torch.compile(lambda x: x * 2 + 1, backend="tilewright", mode="max-autotune")(torch.ones(3))
    assert "mode='max-autotune' is about PyTorch's own compiler" in caplog.text


class Tokens(nn.Module):
    """An encoder of token ids, as people write one."""

    def __init__(self, norm_first: bool = False, activation: str = "relu") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first, activation=activation)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor, padding: Tensor | None = None) -> Tensor:
        places = torch.arange(ids.shape[1]).unsqueeze(0)
        return self.layers(self.words(ids) + self.places(places), src_key_padding_mask=padding)  # type: ignore[no-any-return]


@pytest.mark.parametrize("dynamic", [None, True])
def test_every_new_length_runs_in_one_build(pieces: list[Piece], dynamic: bool | None) -> None:
    module = Tokens().eval()
    compiled = torch.compile(module, backend="tilewright", dynamic=dynamic)
    with torch.no_grad():
        for length in (12, 7, 30, 5, 64, 2, 17, 33, 8, 21):
            ids = torch.randint(0, 50, (1, length))
            torch.testing.assert_close(compiled(ids), module(ids))
    # The first length is taken as fixed unless the caller says that it is not; the second one opens it.
    assert len(pieces) == (1 if dynamic else 2)


@pytest.mark.parametrize(("norm_first", "activation"), [(False, "relu"), (True, "gelu")])
@pytest.mark.parametrize("masked", [False, True])
def test_layers_that_pytorch_calls_as_wholes(
    pieces: list[Piece], norm_first: bool, activation: str, masked: bool
) -> None:
    module = Tokens(norm_first, activation).eval()
    ids = torch.randint(0, 50, (2, 6))
    padding = torch.arange(6) >= torch.tensor([[6], [4]])
    args = (ids, padding) if masked else (ids,)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(module, backend="tilewright")(*args), module(*args))
    (piece,) = pieces
    assert any("_transformer_encoder_layer_fwd" in str(n.target) for n in piece.graph.graph.nodes)


class WholeAttention(nn.Module):
    """What nn.MultiheadAttention calls where its conditions for it hold."""

    def __init__(self, kind: int | None, weights: bool, average: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.MultiheadAttention(16, 2, batch_first=True)
        self.kind, self.weights, self.average = kind, weights, average

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        a = self.inner
        found, seen = torch._native_multi_head_attention(
            x, x, x, 16, 2, a.in_proj_weight, a.in_proj_bias, a.out_proj.weight, a.out_proj.bias, mask, self.weights,
            self.average, self.kind,
        )  # fmt: skip
        return (found, seen) if self.weights else found


@pytest.mark.parametrize(
    ("kind", "weights", "average"), [(None, True, True), (1, True, False), (0, False, True), (2, True, True)]
)
def test_attention_that_pytorch_calls_as_a_whole(
    pieces: list[Piece], kind: int | None, weights: bool, average: bool
) -> None:
    module = WholeAttention(kind, weights, average).eval()
    shapes = {0: (5, 5), 1: (2, 5), 2: (2, 2, 5, 5)}
    args = [torch.randn(2, 5, 16)]
    if kind is not None:
        args.append(torch.rand(shapes[kind]) > 0.7)
        args[1][..., 0] = False
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(module, backend="tilewright")(*args), module(*args))
    (piece,) = pieces
    assert any("_native_multi_head_attention" in str(n.target) for n in piece.graph.graph.nodes)
