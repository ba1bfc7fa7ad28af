#!/usr/bin/env python3
"""What single_worker.c measures, in PyTorch: training steps (forward, backward, SGD with momentum) of the same network.

    single_worker.py [MODEL [BATCH [THREADS [STEPS [FORMAT]]]]]

MODEL may also be bert48 or gpt2 with layers=, width=, heads=, seq= and vocab=, as in Penstock.
FORMAT: default (N, C, H, W) or channels_last. Prints the median of a step in milliseconds. Debian: apt install python3-torch.
"""
import statistics
import sys
import time

import torch
from torch import nn

WARMUP = 3


def convolution(i, o, kernel=3, stride=1):
    return [nn.Conv2d(i, o, kernel, stride, 1), nn.ReLU(inplace=True)]


def classifier(features, width):
    return [nn.Flatten(), nn.Dropout(), nn.Linear(features, width), nn.ReLU(inplace=True), nn.Dropout(),
            nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, 10)]


def lenet5():
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True),
              nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(inplace=True), nn.Linear(120, 84),
              nn.ReLU(inplace=True), nn.Linear(84, 10)]
    return nn.Sequential(*layers), (1, 28, 28)


def alexnet():
    pool = [nn.MaxPool2d(2)]
    layers = (convolution(3, 64, 3, 2) + pool + convolution(64, 192) + pool + convolution(192, 384) + convolution(384, 256) +
              convolution(256, 256) + pool + classifier(1024, 4096))
    return nn.Sequential(*layers), (3, 32, 32)


def vgg16(batch_norm=False):
    layers, channels = [], 3
    for width, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            conv, relu = convolution(channels, width)
            layers += [conv] + ([nn.BatchNorm2d(width)] if batch_norm else []) + [relu]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, *classifier(512, 512)), (3, 32, 32)


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                                  nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.shortcut = nn.Sequential()
        if i != o:
            self.shortcut = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet(blocks=1):
    layers, channels = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)], 16
    for width in (16, 32, 64):
        for _ in range(blocks):
            layers.append(Block(channels, width, 1 if width == channels else 2))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)), (3, 32, 32)


class Transformer(nn.Module):
    """PyTorch's own layers: of BERT normalised behind each half, of GPT-2 before it and causal."""

    def __init__(self, kind, layers=2, width=768, heads=12, seq=128, vocab=1000):
        super().__init__()
        before = kind == "gpt2"
        gelu = (lambda x: nn.functional.gelu(x, approximate="tanh")) if before else nn.functional.gelu
        self.words, self.positions = nn.Embedding(vocab, width), nn.Parameter(torch.randn(seq, width))
        self.begin = nn.Sequential(*([] if before else [nn.LayerNorm(width)]), nn.Dropout(0.1))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, gelu, batch_first=True,
                                                               norm_first=before) for _ in range(layers))
        self.unseen = torch.ones(seq, seq).triu(1).bool() if before else None
        transform = [] if before else [nn.Linear(width, width), nn.GELU()]
        self.end = nn.Sequential(*transform, nn.LayerNorm(width), nn.Linear(width, vocab))

    def forward(self, tokens):
        x = self.begin(self.words(tokens) + self.positions)
        for block in self.blocks:
            x = block(x, self.unseen)
        return self.end(x).flatten(0, 1)


def transformer(spec):
    kind, *options = spec.split(",")
    sizes = {key: int(value) for key, value in (option.split("=") for option in options)}
    return Transformer(kind, **sizes), sizes


MODELS = {"lenet5": lenet5, "alexnet": alexnet, "vgg16": vgg16, "vgg16,batch_norm=1": lambda: vgg16(True), "resnet": resnet,
          "resnet,blocks=3": lambda: resnet(3), "resnet,blocks=9": lambda: resnet(9)}


def main():
    given = sys.argv[1:] + ["vgg16", "64", "1", "9", "default"][len(sys.argv) - 1:]
    name, batch, threads, steps, layout = given[0], int(given[1]), int(given[2]), int(given[3]), given[4]
    tokens = name.split(",")[0] in ("bert48", "gpt2")
    if not (tokens or name in MODELS) or layout not in ("default", "channels_last"):
        sys.exit(f"single_worker.py: known models: {', '.join(MODELS)}; formats: default, channels_last")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if tokens:
        model, sizes = transformer(name)
        labels = torch.arange(batch * sizes["seq"]) % sizes["vocab"]
        x = labels.reshape(batch, -1)
    else:
        model, shape = MODELS[name]()
        x, labels = torch.rand(batch, *shape) - 0.5, torch.arange(batch) % 10
    if layout == "channels_last" and not tokens:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    times = []
    for step in range(WARMUP + steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        if step >= WARMUP:
            times.append(1e3 * (time.perf_counter() - begin))
    median = statistics.median(times)
    print(f"pytorch {torch.__version__} {layout} {name} batch {batch} threads {threads}: {median:.2f} ms a step, "
          f"{1e3 * batch / median:.1f} samples/s, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
