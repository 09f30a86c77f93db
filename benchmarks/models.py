"""Makers of the ONNX models that tests and benchmarks share: exported once, with fixed random weights, and cached under build/models.

Every maker returns the path of an .onnx file. Names:

    resnet50 mobilenetv2 bert_base gpt2 vit_b16 convnext_t          full size, from the transformers configurations
    bert_six                                                        BERT of six layers
    segformer_b0                                                    SegFormer-B0 on images of 512 x 512 pixels
    gpt2_decode                                                     one token of GPT-2 behind 128 whose keys and values are inputs
    efficientnet_lite0                                              full size, from benchmarks/networks.py
    resnet_small mobilenet_small bert_small gpt2_small vit_small    the same graphs with few layers and small widths
    light_alexnet ... light_zfnet512                                the nine networks inside the onnx package; all weights of
                                                                    a tensor are one number, so their outputs are all alike
    light_alexnet_random ...                                        the same with random weights, whose outputs say something
    ppocr_det ppocr_cls ppocr_rec                                   trained; inside the rapidocr_onnxruntime package

With `_int8` behind its name (QUANTISED), a model is what ONNX Runtime's quantiser makes of it, between QuantizeLinear and DequantizeLinear.
`make(name)` gives the path, `inputs(name)` a dictionary of deterministic input arrays, `shapes(name)` the shapes to pin.
With `_dynamic` behind its name, an exported model is the same network with its batch (and the number of tokens) dynamic;
`sized_inputs(name, batch, tokens)` are inputs for it. With `_b8` (any number) behind its name, a model takes a batch of 8.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CACHE = Path(__file__).resolve().parent.parent / "build" / "models"
OPSET = 18
LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
PPOCR = {
    "ppocr_det": ("ch_PP-OCRv4_det_infer.onnx", (1, 3, 640, 480)),
    "ppocr_cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192)),
    "ppocr_rec": ("ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
}


def _vision(
    config: str, model: str, image: int, **options: Any
) -> Callable[[], tuple[Any, tuple[Any, ...], list[str]]]:
    def build() -> tuple[Any, tuple[Any, ...], list[str]]:
        import torch
        import transformers

        net = getattr(transformers, model)(getattr(transformers, config)(**options))
        return net, (torch.zeros(1, 3, image, image),), ["pixel_values"]

    return build


def _language(
    config: str, model: str, tokens: int, **options: Any
) -> Callable[[], tuple[Any, tuple[Any, ...], list[str]]]:
    def build() -> tuple[Any, tuple[Any, ...], list[str]]:
        import torch
        import transformers

        net = getattr(transformers, model)(getattr(transformers, config)(**options))
        ids = torch.ones(1, tokens, dtype=torch.int64)
        return net, (ids, torch.ones(1, tokens, dtype=torch.int64)), ["input_ids", "attention_mask"]

    return build


def _efficientnet() -> tuple[Any, tuple[Any, ...], list[str]]:
    import torch

    from benchmarks.networks import efficientnet_lite0

    return efficientnet_lite0(), (torch.zeros(1, 3, 224, 224),), ["pixel_values"]


def _decoder(past: int) -> tuple[Any, tuple[Any, ...], list[str]]:
    import torch

    from benchmarks.networks import decoding_gpt2

    net, layers, heads, width = decoding_gpt2()
    cache = [torch.zeros(1, heads, past, width) for _ in range(2 * layers)]
    ids, mask = torch.ones(1, 1, dtype=torch.int64), torch.ones(1, past + 1, dtype=torch.int64)
    return net, (ids, mask, *cache), ["input_ids", "attention_mask", *decoder_names(layers)]


def decoder_names(layers: int) -> list[str]:
    """Names of the cached keys and values, layer by layer."""
    return [f"past_{kind}_{i}" for i in range(layers) for kind in ("key", "value")]


_GPT = {"use_cache": False}
PAST = 128
"""Tokens in the cache of a decoder."""
_MAKERS: dict[str, Callable[[], tuple[Any, tuple[Any, ...], list[str]]]] = {
    "efficientnet_lite0": _efficientnet,
    "gpt2_decode": functools.partial(_decoder, PAST),
    "convnext_t": _vision("ConvNextConfig", "ConvNextForImageClassification", 224, num_labels=1000),
    "resnet50": _vision("ResNetConfig", "ResNetForImageClassification", 224, num_labels=1000),
    "mobilenetv2": _vision("MobileNetV2Config", "MobileNetV2ForImageClassification", 224, num_labels=1001),
    "vit_b16": _vision("ViTConfig", "ViTForImageClassification", 224, num_labels=1000),
    "segformer_b0": _vision("SegformerConfig", "SegformerForSemanticSegmentation", 512, num_labels=150),
    "bert_base": _language("BertConfig", "BertModel", 128),
    "bert_six": _language("BertConfig", "BertModel", 128, num_hidden_layers=6),
    "gpt2": _language("GPT2Config", "GPT2LMHeadModel", 128, **_GPT),
    "resnet_small": _vision(
        "ResNetConfig",
        "ResNetForImageClassification",
        32,
        embedding_size=16,
        hidden_sizes=[32, 64],
        depths=[1, 2],
        num_labels=10,
    ),
    "mobilenet_small": _vision(
        "MobileNetV2Config",
        "MobileNetV2ForImageClassification",
        32,
        depth_multiplier=0.25,
        num_labels=10,
    ),
    "vit_small": _vision(
        "ViTConfig",
        "ViTForImageClassification",
        32,
        image_size=32,
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=10,
    ),
    "bert_small": _language(
        "BertConfig",
        "BertModel",
        16,
        vocab_size=97,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    ),
    "gpt2_small": _language(
        "GPT2Config",
        "GPT2LMHeadModel",
        16,
        vocab_size=97,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=32,
        **_GPT,
    ),
}

FULL = (
    "resnet50",
    "mobilenetv2",
    "efficientnet_lite0",
    "vit_b16",
    "convnext_t",
    "bert_base",
    "bert_six",
    "gpt2",
    "gpt2_decode",
    "segformer_b0",
)
SMALL = ("resnet_small", "mobilenet_small", "bert_small", "gpt2_small", "vit_small")
LIGHT_NAMES = tuple("light_" + name.removeprefix("bvlc_") for name in LIGHT)
RANDOM_NAMES = tuple(name + "_random" for name in LIGHT_NAMES)
QUANTISED = tuple(
    f"{name}_int8" for name in ("resnet50", "mobilenetv2", "bert_base", "resnet_small", "mobilenet_small", "bert_small")
)
DYNAMIC_NAMES = tuple(name + "_dynamic" for name in _MAKERS if name != "gpt2_decode")
ALL = FULL + SMALL + LIGHT_NAMES + tuple(PPOCR)
BENCHMARKED = (
    "resnet50",
    "mobilenetv2",
    "efficientnet_lite0",
    "light_densenet121_random",
    "light_inception_v2_random",
    "light_squeezenet_random",
    "vit_b16",
    "convnext_t",
    "bert_base",
    "gpt2",
    "gpt2_decode",
    "segformer_b0",
    "ppocr_det",
    "ppocr_rec",
)
"""The models whose latency, compile time and memory are promised."""


def split_batch(name: str) -> tuple[str, int]:
    """A model's name without its batch, and the batch (1 where none is named)."""
    found = re.fullmatch(r"(.+)_b([1-9]\d*)", name)
    return (found[1], int(found[2])) if found and found[1] in known() else (name, 1)


@functools.cache
def known() -> frozenset[str]:
    """Every name that `make` takes, without batches."""
    return frozenset(ALL + RANDOM_NAMES + DYNAMIC_NAMES + QUANTISED)


def is_known(name: str) -> bool:
    return split_batch(name)[0] in known()


def batched(names: tuple[str, ...] | list[str], batches: list[int]) -> list[str]:
    """The models at each batch, by name."""
    return [name if b == 1 else f"{name}_b{b}" for name in names for b in batches]


def _settle(net: Any, args: tuple[Any, ...]) -> None:
    """Give BatchNorm the statistics of random data, then disturb them, so that folding them matters and activations stay in range."""
    import torch

    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    if not norms:
        return
    for m in norms:
        m.weight.data.uniform_(0.6, 1.4)
        m.bias.data.uniform_(-0.3, 0.3)
        m.momentum = None  # cumulative average: the statistics become exactly those of the batches seen
    net.train()
    with torch.no_grad():
        for _ in range(2):
            net(torch.randn(4, *args[0].shape[1:]))
    net.eval()
    for m in norms:
        m.running_mean += 0.1 * torch.randn_like(m.running_mean)
        m.running_var *= torch.empty_like(m.running_var).uniform_(0.8, 1.25)


def _by_keyword(net: Any, names: list[str]) -> Any:
    """The network as a function of positional tensors that returns only tensors (model outputs also hold caches)."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, *args: Any) -> tuple[Any, ...]:
            return tuple(
                v for v in self.net(**dict(zip(names, args, strict=True))).values() if isinstance(v, torch.Tensor)
            )

    return Wrapped().eval()


def has_torch(name: str) -> bool:
    """Whether a model is made by PyTorch, so that `torch_module` has it."""
    return split_batch(name)[0] in _MAKERS


def torch_module(name: str) -> tuple[Any, tuple[Any, ...], list[str]]:
    """The network that is exported under this name, with the same weights; example inputs, and their names."""
    import torch

    base, batch = split_batch(name)
    torch.manual_seed(0)
    net, args, names = _MAKERS[base]()
    net.eval()
    _settle(net, args)
    args = tuple(a.expand(batch, *a.shape[1:]).clone() for a in args)
    return _by_keyword(net, names), args, names


def _export(name: str, path: Path) -> None:
    import torch

    net, args, names = torch_module(name.removesuffix("_dynamic"))
    sizes = None
    if name.endswith("_dynamic"):
        # The exporter takes an axis that is 1 in its example for one that is always 1.
        args = tuple(a.expand(2, *a.shape[1:]).clone() for a in args)
        axes = (0,) if args[0].ndim == 4 else (0, 1)
        sizes = (tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for _ in args),)
    # A model under 2 GB stays one file: benchmarks copy and hash it.
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            args,
            str(path),
            input_names=names,
            opset_version=OPSET,
            dynamo=True,
            dynamic_shapes=sizes,
            external_data=False,
            verbose=False,
        )


def _randomize(source: Path, target: Path) -> None:
    """Replace the generated weights of a light model: products keep the size of activations, scales and variances lie around 1."""
    import onnx

    model = onnx.load(source)
    graph = model.graph
    rng = np.random.default_rng(0)
    made = {n.output[0]: n for n in graph.node if n.op_type == "ConstantOfShape"}
    shapes_ = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    around_one: set[str] = set()
    # Sums of branches grow from block to block; smaller scales keep the last softmax from saturating.
    below_one: set[str] = set()
    residual = any(n.op_type == "Sum" for n in graph.node)
    spread = {n.input[0]: n.output[0] for n in graph.node if n.op_type == "Unsqueeze"}
    for n in graph.node:
        if n.op_type == "BatchNormalization":
            around_one.add(n.input[4])
            (below_one if residual else around_one).add(n.input[1])
        if n.op_type == "Mul":
            around_one |= {*n.input}
    kept = []
    for name, node in made.items():
        if node.input[0] not in shapes_:
            kept.append(node)
            continue
        shape = [int(d) for d in shapes_[node.input[0]]]
        last = name
        while last in spread:
            last = spread[last]
        if len(shape) > 1:
            value = rng.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(2 / np.prod(shape[1:])))
        elif name in below_one:
            value = rng.uniform(0.2, 0.4, shape).astype(np.float32)
        elif name in around_one or last in around_one:
            value = rng.uniform(0.8, 1.2, shape).astype(np.float32)
        else:
            value = rng.uniform(-0.1, 0.1, shape).astype(np.float32)
        graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    others = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    used = {i for n in [*kept, *others] for i in n.input}
    initializers = [t for t in graph.initializer if t.name in used]
    inputs_ = [i for i in graph.input if i.name not in shapes_]
    for field, values in (("node", [*kept, *others]), ("initializer", initializers), ("input", inputs_)):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    model.ir_version = 8
    onnx.save(model, str(target))


def _rebatch(source: Path, target: Path, batch: int) -> None:
    """The same network of a file whose batch is 1, for another: its inputs, and the shapes that it is reshaped to."""
    import onnx

    model = onnx.load(source)
    graph = model.graph
    weights = {t.name: t for t in graph.initializer}
    for value in [*graph.input, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        if value.name not in weights and dims and dims[0].dim_value == 1:
            dims[0].dim_value = batch
    del graph.value_info[:]
    for shape in {n.input[1] for n in graph.node if n.op_type == "Reshape"} & set(weights):
        to = onnx.numpy_helper.to_array(weights[shape]).copy()
        to[0] = batch if to[0] == 1 else to[0]
        weights[shape].CopyFrom(onnx.numpy_helper.from_array(to, shape))
    onnx.save(model, str(target))


class UnknownModel(LookupError):
    """No model of this benchmark has the name."""


def make(name: str) -> Path:
    """Path of the model's .onnx file; exports it on first use (torch and transformers are needed only then)."""
    base, batch = split_batch(name)
    if base in PPOCR:
        return _package_dir("rapidocr_onnxruntime") / "models" / PPOCR[base][0]
    if name in LIGHT_NAMES:
        file = LIGHT[LIGHT_NAMES.index(name)]
        return _package_dir("onnx") / "backend" / "test" / "data" / "light" / f"light_{file}.onnx"
    if base not in known():
        raise UnknownModel(f"there is no model {name!r}; there are {', '.join(ALL + RANDOM_NAMES + QUANTISED)}")
    path = CACHE / f"{name}.onnx"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            if base in QUANTISED:
                from benchmarks.quantised import quantize

                real = name.replace("_int8", "")
                quantize(make(real), Path(folder) / path.name, inputs(real))
            elif batch > 1 and base not in _MAKERS:
                _rebatch(make(base), Path(folder) / path.name, batch)
            elif name in RANDOM_NAMES:
                _randomize(make(name.removesuffix("_random")), Path(folder) / path.name)
            else:
                _export(name, Path(folder) / path.name)
            os.replace(Path(folder) / path.name, path)
    return path


def _package_dir(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"package {package} is not installed; pip install {package.replace('_', '-')}")
    return Path(spec.origin).parent


def shapes(name: str) -> dict[str, list[int]]:
    """Shapes of the inputs that the benchmarks use; all dimensions are numbers."""
    return {key: list(value.shape) for key, value in inputs(name).items()}


def inputs(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Input arrays by name: normal float32 images, or int64 token numbers with a full attention mask."""
    rng = np.random.default_rng(seed)
    name, batch = split_batch(name)
    name = name.removesuffix("_random").removesuffix("_int8")
    if name in PPOCR:
        return {"x": rng.standard_normal((batch, *PPOCR[name][1][1:]), dtype=np.float32)}
    if name in LIGHT_NAMES:
        key = "data_0" if name not in ("light_resnet50", "light_shufflenet", "light_zfnet512") else "gpu_0/data_0"
        return {key: rng.standard_normal((batch, 3, 224, 224), dtype=np.float32)}
    small = name.endswith("_small")
    if name == "gpt2_decode":
        ids = rng.integers(0, 30000, (batch, 1), dtype=np.int64)
        cache = {n: rng.standard_normal((batch, 12, PAST, 64), dtype=np.float32) for n in decoder_names(12)}
        return {"input_ids": ids, "attention_mask": np.ones((batch, PAST + 1), np.int64), **cache}
    if name.startswith(("bert", "gpt2")):
        tokens, vocabulary = (16, 97) if small else (128, 30000)
        ids = rng.integers(0, vocabulary, (batch, tokens), dtype=np.int64)
        return {"input_ids": ids, "attention_mask": np.ones((batch, tokens), np.int64)}
    size = 32 if small else 512 if name.startswith("segformer") else 224
    return {"pixel_values": rng.standard_normal((batch, 3, size, size), dtype=np.float32)}


def sized_inputs(name: str, batch: int, tokens: int | None = None, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of a model with dynamic dimensions: deterministic arrays as `inputs` makes them, for a batch and a number of tokens."""
    rng = np.random.default_rng(seed)
    fixed = inputs(name.removesuffix("_dynamic"))
    if "input_ids" not in fixed:
        ((key, value),) = fixed.items()
        return {key: rng.standard_normal((batch, *value.shape[1:]), dtype=np.float32)}
    shape = (batch, tokens or fixed["input_ids"].shape[1])
    ids = rng.integers(0, int(fixed["input_ids"].max()) + 1, shape, dtype=np.int64)
    return {"input_ids": ids, "attention_mask": np.ones(shape, np.int64)}
