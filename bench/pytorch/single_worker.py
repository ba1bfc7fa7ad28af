#!/usr/bin/env python3
"""What single_worker.c measures, in PyTorch: training steps (forward, backward, SGD with momentum) of the same network.

    single_worker.py [MODEL [BATCH [THREADS [STEPS [FORMAT]]]]]

FORMAT: default (N, C, H, W) or channels_last; with ",bf16" under autocast to bf16, with ",tf32" products of f32 in TF32, with ",compile"
compiled. DEVICE is the device (cpu); on a GPU the times are between events, and the host runs ahead. Prints the median of a step in milliseconds (TAKE, PROCESSOR_TIME: as in single_worker.c). Debian: apt install python3-torch.
"""
import contextlib
import os
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


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride):
        super().__init__()
        steps = []
        for before, after, kernel, step in ((i, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)):
            steps += [nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(after),
                      nn.ReLU(inplace=True)]
        self.body, self.shortcut = nn.Sequential(*steps[:-1]), nn.Sequential()
        if i != 4 * width or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(i, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet50(pixels=224):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for group, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 << group, 2 if group > 0 and block == 0 else 1))
            channels = 4 * (64 << group)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)), (3, pixels, pixels)


class Residual(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.lstm, self.projection = nn.LSTM(hidden, hidden, batch_first=True), nn.Linear(hidden, hidden)

    def forward(self, x):
        return x + self.projection(self.lstm(x)[0])


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


def residual_lstm(positions=200, vocabulary=10000, hidden=128, layers=4):
    blocks = [Residual(hidden) for _ in range(layers)]
    return nn.Sequential(nn.Embedding(vocabulary, hidden), *blocks, Mean(), nn.Linear(hidden, 2)), (positions, vocabulary, 2)


class Gnmt(nn.Module):
    """MLPerf's GNMT with an embedding for each language; its time-major layout."""

    def __init__(self, positions, vocabulary, hidden, layers, dropout=0.2):
        super().__init__()
        self.positions, half = positions, layers // 2
        self.embed = nn.ModuleList(nn.Embedding(vocabulary, hidden, padding_idx=0) for _ in range(2))
        sizes = [hidden, 2 * hidden] + [hidden] * (half - 2)
        self.encoder = nn.ModuleList(nn.LSTM(size, hidden, bidirectional=n == 0) for n, size in enumerate(sizes))
        self.first, self.dropout = nn.LSTM(hidden, hidden), nn.Dropout(dropout)
        self.decoder = nn.ModuleList(nn.LSTM(2 * hidden, hidden) for _ in range(half - 1))
        self.query, self.key = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.att, self.bias = nn.Parameter(torch.rand(hidden) - 0.5), nn.Parameter(torch.zeros(hidden))
        self.scalar, self.classifier = nn.Parameter(torch.ones(1)), nn.Linear(hidden, vocabulary)

    def attend(self, query, encoded, padding):
        sums = self.query(query).transpose(0, 1)[:, :, None] + self.key(encoded).transpose(0, 1)[:, None] + self.bias
        scores = torch.tanh(sums) @ (self.att / self.att.norm() * self.scalar)
        weights = scores.masked_fill(padding[:, None], -65504.0).softmax(-1)
        return torch.bmm(weights, encoded.transpose(0, 1)).transpose(0, 1)

    def forward(self, tokens):
        source, target = tokens[:, : self.positions], tokens[:, self.positions :]
        packed = nn.utils.rnn.pack_padded_sequence(self.embed[0](source.t()), (source != 0).sum(1))
        x = nn.utils.rnn.pad_packed_sequence(self.encoder[0](packed)[0], total_length=self.positions)[0]
        x = self.encoder[1](self.dropout(x))[0]
        for lstm in self.encoder[2:]:
            x = x + lstm(self.dropout(x))[0]
        y = self.first(self.embed[1](target.t()))[0]
        answer = self.attend(y, x, source == 0)
        for number, lstm in enumerate(self.decoder):
            z = lstm(torch.cat((self.dropout(y), answer), 2))[0]
            y = z + y if number > 0 else z
        return self.classifier(y).permute(1, 2, 0)


def gnmt8(positions=50, vocabulary=32320, hidden=1024):
    return Gnmt(positions, vocabulary, hidden, 8), (positions, vocabulary, positions)


class Transformer(nn.Module):
    """Of PyTorch's own layers: BERT's are normalised behind each half, GPT-2's before it and causal."""

    def __init__(self, causal, positions, vocabulary, layers, width, heads):
        super().__init__()
        gelu = (lambda x: nn.functional.gelu(x, approximate="tanh")) if causal else nn.functional.gelu
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(positions, width))
        self.begin = nn.Sequential(*([] if causal else [nn.LayerNorm(width)]), nn.Dropout(0.1))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, gelu, batch_first=True,
                                                               norm_first=causal) for _ in range(layers))
        self.register_buffer("unseen", torch.ones(positions, positions).triu(1).bool() if causal else None)
        transform = [] if causal else [nn.Linear(width, width), nn.GELU()]
        self.end = nn.Sequential(*transform, nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=not causal))

    def forward(self, tokens):
        x = self.begin(self.words(tokens) + self.places)
        for block in self.blocks:
            x = block(x, self.unseen, is_causal=self.unseen is not None)
        return self.end(x).transpose(1, 2)


def gpt2(positions=1024, vocabulary=50257, layers=12, width=768, heads=12):
    return Transformer(True, positions, vocabulary, layers, width, heads), (positions, vocabulary, positions)


def bert48(positions=512, vocabulary=30522, layers=48, width=1024, heads=16):
    return Transformer(False, positions, vocabulary, layers, width, heads), (positions, vocabulary, positions)


def given_sizes(name, names):
    """The network and its options: "gnmt8,seq=20,vocab=8000"."""
    network, *options = name.split(",")
    return {names[option.split("=")[0]]: int(option.split("=")[1]) for option in options} if network in SEQUENCES else None


SEQUENCES = {"residual_lstm": residual_lstm, "gnmt8": gnmt8, "gpt2": gpt2, "bert48": bert48}
SIZES = {"seq": "positions", "vocab": "vocabulary", "hidden": "hidden", "layers": "layers", "width": "width", "heads": "heads"}

MODELS = {"lenet5": lenet5, "alexnet": alexnet, "vgg16": vgg16, "vgg16,batch_norm=1": lambda: vgg16(True), "resnet": resnet,
          "resnet,blocks=3": lambda: resnet(3), "resnet,blocks=9": lambda: resnet(9), "resnet50": resnet50, "resnet50,input=64": lambda: resnet50(64)}


def main():
    given = sys.argv[1:] + ["vgg16", "64", "1", "9", "default"][len(sys.argv) - 1:]
    name, batch, threads, steps, layout = given[0], int(given[1]), int(given[2]), int(given[3]), given[4]
    network, (layout, *how) = name.split(",")[0], layout.split(",")
    if (name not in MODELS and network not in SEQUENCES) or layout not in ("default", "channels_last") or {*how} - {"bf16", "tf32", "compile"}:
        sys.exit(f"single_worker.py: known models: {', '.join([*MODELS, *SEQUENCES])}; formats: default, channels_last, "
                 "and with them bf16, tf32, compile")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if network in SEQUENCES:
        model, (positions, vocabulary, labels) = SEQUENCES[network](**given_sizes(name, SIZES))
        length = 2 * positions if network == "gnmt8" else positions
        x = torch.randint(1, vocabulary, (batch, length))
        labels = torch.arange(batch) % 2 if labels == 2 else torch.randint(1, vocabulary, (batch, labels))
    else:
        model, shape = MODELS[name]()
        x, labels = torch.rand(batch, *shape) - 0.5, torch.arange(batch) % 10
    if layout == "channels_last" and network not in SEQUENCES:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    device = os.environ.get("DEVICE", "cpu")
    model, x, labels = model.to(device), x.to(device), labels.to(device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = "tf32" in how
    torch.backends.cudnn.benchmark = True
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if "compile" in how:
        model = torch.compile(model)
    autocast = torch.autocast(device, torch.bfloat16) if "bf16" in how else contextlib.nullcontext()
    clock = time.process_time if "PROCESSOR_TIME" in os.environ else time.perf_counter
    times, events = [], []
    for step in range(WARMUP + steps):
        begin = clock()
        if device == "cuda":
            events.append(torch.cuda.Event(enable_timing=True))
            events[-1].record()
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        if step >= WARMUP:
            times.append(1e3 * (clock() - begin))
    if device == "cuda":
        torch.cuda.synchronize()
        times = [a.elapsed_time(b) for a, b in zip(events[WARMUP:], events[WARMUP + 1:])]
    median = min(times) if os.environ.get("TAKE") == "least" else statistics.median(times)
    print(f"pytorch {torch.__version__} {given[4]} {name} batch {batch} threads {threads}: {median:.2f} ms a step, "
          f"{1e3 * batch / median:.1f} samples/s, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
