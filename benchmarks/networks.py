"""Networks that the benchmarks need and `transformers` does not have, in PyTorch, from their published descriptions; weights are random."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

LITE0 = (
    (1, 16, 3, 1, 1),
    (2, 24, 3, 2, 6),
    (2, 40, 5, 2, 6),
    (3, 80, 3, 2, 6),
    (3, 112, 5, 1, 6),
    (4, 192, 5, 2, 6),
    (1, 320, 3, 1, 6),
)
"""EfficientNet-Lite0: blocks of each stage, their channels, kernel, stride of the first, expansion."""


def efficientnet_lite0(classes: int = 1000) -> Any:
    """EfficientNet-Lite0 at 224 x 224: inverted residuals with ReLU6 and without squeeze and excitation; padding as TensorFlow's SAME."""
    from torch import nn

    def layer(inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1, act: bool = True) -> Any:
        # SAME puts the odd column of padding behind; sizes are even wherever a stride is 2.
        rest = kernel - stride
        steps: list[Any] = []
        if rest % 2:
            steps.append(nn.ZeroPad2d((rest // 2, rest - rest // 2, rest // 2, rest - rest // 2)))
        pad = 0 if rest % 2 else rest // 2
        steps.append(nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False))
        steps.append(nn.BatchNorm2d(outputs, eps=1e-3))
        return nn.Sequential(*steps, *([nn.ReLU6()] if act else []))

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
            super().__init__()
            wide = inputs * expansion
            steps = [layer(inputs, wide, 1, 1)] if expansion > 1 else []
            steps += [layer(wide, wide, kernel, stride, wide), layer(wide, outputs, 1, 1, act=False)]
            self.steps = nn.Sequential(*steps)
            self.residual = stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            return x + self.steps(x) if self.residual else self.steps(x)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            blocks, channels = [], 32
            for count, outputs, kernel, stride, expansion in LITE0:
                for i in range(count):
                    blocks.append(Block(channels, outputs, kernel, stride if i == 0 else 1, expansion))
                    channels = outputs
            self.stem = layer(3, 32, 3, 2)
            self.blocks = nn.Sequential(*blocks)
            self.head = layer(320, 1280, 1, 1)
            self.classifier = nn.Linear(1280, classes)

        def forward(self, pixel_values: Any) -> Any:
            x = self.head(self.blocks(self.stem(pixel_values)))
            return OrderedDict(logits=self.classifier(x.mean((2, 3))))

    return Network()


def decoding_gpt2() -> tuple[Any, int, int, int]:
    """GPT-2 that reads keys and values of the tokens before and answers logits, and the longer keys and values; and its sizes:
    layers, heads, width of a head. The cache goes in and out as tensors: past_key_0, past_value_0, past_key_1, ...
    """
    import torch
    import transformers

    config = transformers.GPT2Config(use_cache=True)
    net = transformers.GPT2LMHeadModel(config)

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, input_ids: Any, attention_mask: Any, **cache: Any) -> Any:
            past = transformers.DynamicCache()
            for i in range(config.n_layer):
                past.update(cache[f"past_key_{i}"], cache[f"past_value_{i}"], i)
            out = self.net(input_ids=input_ids, attention_mask=attention_mask, past_key_values=past)
            result = OrderedDict(logits=out.logits)
            for i, layer in enumerate(out.past_key_values.layers):
                result[f"key_{i}"], result[f"value_{i}"] = layer.keys, layer.values
            return result

    return Decoder(), config.n_layer, config.n_head, config.n_embd // config.n_head
