#!/usr/bin/env python3
"""Makes operators.json: what PyTorch says about operators whose definition has many cases.

    python3 tests/golden/make_operators.py        (Debian: apt install python3-torch)

Each entry is a small network as a network file: a layer with parameters, so that the operator's gradient of its input is seen in
its gradients; the operator; a classifier. Weights, data and what is written about them are make_goldens.py's.
"""
import json
import os

import torch
import torch.nn.functional as F
from make_goldens import golden
from torch import nn

CLASSES, WIDTH = 10, 8


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def around(module, before=None, after=None):
    """The module with something before and after it; its parameters keep their names."""
    if before is not None:
        module.register_forward_pre_hook(lambda module, inputs: (before(inputs[0]),))
    if after is not None:
        module.register_forward_hook(lambda module, inputs, output: after(output))
    return module


def turned(module):
    """Of a module for (N, D, T) on (N, T, D)."""
    return around(module, lambda x: x.transpose(1, 2), lambda x: x.transpose(1, 2))


class Image(nn.Module):
    """The parameters' names are those of the network file below."""

    shape, layer = (4, 9, 11), {"operator": "convolution", "channels": WIDTH, "kernel": 1}

    def __init__(self, operator):
        super().__init__()
        self.first, self.op = nn.Conv2d(4, WIDTH, 1), operator
        self.fc = nn.Linear(operator(torch.zeros(2, WIDTH, 9, 11)).numel() // 2, CLASSES)

    def forward(self, x):
        return self.fc(self.op(self.first(x)).flatten(1))


class Sequence(nn.Module):
    """The operator gets (N, T, D)."""

    shape, layer = (5, 7, 1), {"operator": "linear", "channels": 2 * WIDTH}

    def __init__(self, operator):
        super().__init__()
        self.first, self.op = nn.Linear(5, 2 * WIDTH), operator
        self.fc = nn.Linear(operator(torch.zeros(2, 7, 2 * WIDTH)).numel() // 2, CLASSES)

    def forward(self, x):
        x = self.op(self.first(x.squeeze(3).transpose(1, 2)))
        return self.fc(x.transpose(1, 2).flatten(1))


def grouped(x):
    """Four heads of queries, two of keys and of values, of WIDTH / 4 features."""
    q, k, v = x.unflatten(2, (8, -1)).transpose(1, 2).split((4, 2, 2), 1)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.9, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def rotary(x, interleaved):
    """As complex numbers (Llama's own code), and with halves as in transformers."""
    heads = x.unflatten(2, (2, WIDTH))
    angles = torch.arange(1, x.shape[1] + 1)[:, None] * 50.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    if interleaved:
        turned = torch.view_as_complex(heads.unflatten(3, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)[:, None]
        return torch.view_as_real(turned).flatten(2)
    a, b = heads.chunk(2, 3)
    cos, sin = (torch.cat((f(angles), f(angles)), 1)[:, None] for f in (torch.cos, torch.sin))
    return (heads * cos + torch.cat((-b, a), 3) * sin).flatten(2)


def resized(mode, **options):
    return Lambda(lambda x: F.interpolate(x, (7, 20), mode=mode, **options))


# Which operator and which case of it, what it is tested on, its attributes, PyTorch's module.
OPERATORS = [
    ("convolution:dilated", Image,
     dict(channels=8, kernel=[3, 2], stride=[2, 1], pad=[1, 0], pad_extra=[1, 2], dilation=[2, 3], groups=2),
     lambda: around(nn.Conv2d(WIDTH, 8, (3, 2), (2, 1), 0, (2, 3), 2), lambda x: F.pad(x, (0, 2, 1, 2)))),
    ("convolution:depthwise", Image, dict(channels=WIDTH, kernel=5, pad=2, groups=WIDTH),
     lambda: nn.Conv2d(WIDTH, WIDTH, 5, 1, 2, 1, WIDTH)),
    ("convolution:sequence", Sequence, dict(channels=5, kernel=[3, 1], pad=[2, 0], dilation=[2, 1], dims=1),
     lambda: turned(nn.Conv1d(2 * WIDTH, 5, 3, 1, 2, 2))),
    ("deconvolution:image", Image,
     dict(channels=4, kernel=[3, 4], stride=[2, 3], pad=1, output_pad=[1, 2], dilation=[2, 1], groups=2),
     lambda: nn.ConvTranspose2d(WIDTH, 4, (3, 4), (2, 3), 1, (1, 2), 2, True, (2, 1))),
    ("deconvolution:sequence", Sequence, dict(channels=3, kernel=[4, 1], stride=[2, 1], pad=[1, 0], dims=1),
     lambda: turned(nn.ConvTranspose1d(2 * WIDTH, 3, 4, 2, 1))),
    ("max_pool:dilated", Image, dict(kernel=[3, 2], stride=[2, 3], pad=1, dilation=[1, 3], ceiling=True),
     lambda: Lambda(lambda x: F.max_pool2d(x, (3, 2), (2, 3), 1, (1, 3), True))),
    ("average_pool:padding", Image, dict(kernel=[4, 3], stride=3, pad=[2, 1], ceiling=True),
     lambda: nn.AvgPool2d((4, 3), 3, (2, 1), True, True)),
    ("average_pool:pixels", Image, dict(kernel=[4, 3], stride=3, pad=[2, 1], ceiling=True, count_padding=False),
     lambda: nn.AvgPool2d((4, 3), 3, (2, 1), True, False)),
    ("attention:grouped", Sequence, dict(heads=4, key_heads=2, causal=True, scale=0.9), lambda: Lambda(grouped)),
    ("rms_norm", Sequence, dict(epsilon=0.001), lambda: nn.RMSNorm(2 * WIDTH, 0.001)),
    ("layer_norm:plain", Sequence, dict(weight=False, bias=False), lambda: nn.LayerNorm(2 * WIDTH, elementwise_affine=False)),
    ("group_norm", Image, dict(groups=2), lambda: nn.GroupNorm(2, WIDTH)),
    ("group_norm:instance", Image, dict(groups=WIDTH, epsilon=0.01, weight=False, bias=False), lambda: nn.InstanceNorm2d(WIDTH, 0.01)),
    ("rotary:halves", Sequence, dict(heads=2, base=50, first=1), lambda: Lambda(lambda x: rotary(x, False))),
    ("rotary:neighbours", Sequence, dict(heads=2, base=50, first=1, interleaved=True), lambda: Lambda(lambda x: rotary(x, True))),
    ("resize:nearest", Image, dict(out=[7, 20], coordinates="asymmetric", rounding="floor"), lambda: resized("nearest")),
    ("resize:nearest-exact", Image, dict(out=[7, 20]), lambda: resized("nearest-exact")),
    ("resize:linear", Image, dict(out=[7, 20], mode="linear"), lambda: resized("bilinear", align_corners=False)),
    ("resize:corners", Image, dict(out=[7, 20], mode="linear", coordinates="align_corners"),
     lambda: resized("bilinear", align_corners=True)),
    ("resize:cubic", Image, dict(out=[7, 20], mode="cubic"), lambda: resized("bicubic", align_corners=False)),
    ("pad:constant", Image, dict(before=[0, 1, -2], after=[0, 0, 3], value=0.5), lambda: Lambda(lambda x: F.pad(x, (-2, 3, 1, 0), value=0.5))),
    ("pad:reflect", Image, dict(before=[0, 1, 4], after=[0, 5, 2], mode="reflect"), lambda: nn.ReflectionPad2d((4, 2, 1, 5))),
    ("pad:edge", Image, dict(before=[0, 1, 4], after=[0, 5, 2], mode="edge"), lambda: nn.ReplicationPad2d((4, 2, 1, 5))),
    ("pad:wrap", Image, dict(before=[0, 1, 4], after=[0, 5, 2], mode="wrap"), lambda: nn.CircularPad2d((4, 2, 1, 5))),
    ("gru", Sequence, dict(channels=5), lambda: around(nn.GRU(2 * WIDTH, 5, batch_first=True), None, lambda y: y[0])),
    ("lstm", Sequence, dict(channels=5), lambda: around(nn.LSTM(2 * WIDTH, 5, batch_first=True), None, lambda y: y[0])),
]  # fmt: skip


def entry(name, kind, attributes, operator):
    nodes = [
        {"name": "first", **kind.layer},
        {"name": "op", "operator": name.split(":")[0], **attributes},
        {"name": "flatten", "operator": "flatten"},
        {"name": "fc", "operator": "linear", "channels": CLASSES},
        {"name": "loss", "operator": "cross_entropy"},
    ]
    inputs = [{"name": "data", "shape": kind.shape}]
    network = {"format": "penstock-network", "version": 1, "name": "operator", "inputs": inputs, "nodes": nodes}
    return {"network": network, **golden(name, lambda: kind(operator()), 3, kind.shape)}


def main():
    torch.set_default_dtype(torch.float64)
    lines = ",\n".join(json.dumps(entry(*row), separators=(",", ":")) for row in OPERATORS)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "operators.json"), "w") as file:
        file.write('{"format": "penstock-goldens", "version": 1, "goldens": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
