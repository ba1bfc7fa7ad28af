#!/usr/bin/env python3
"""Makes goldens.json: what PyTorch says about one training step of each network.

    python3 tests/golden/make_goldens.py        (Debian: apt install python3-torch)

Weights and data come from a formula that the test computes too (`numbers`), so the file holds only results: loss, hits, and
of each parameter's gradient (of a running statistic: its new value) the sum, the norm and a few elements. PyTorch computes in
double precision. Networks are written here from their papers, with torchvision's names, and share nothing with the C code.

A ReLU's input beside 0, or two nearly equal values in one pooling window, may fall to either side in single precision and
change gradients by far more than rounding does. So the data are the first of data0, data1, ... that keep MARGIN everywhere.
"""
import json
import math
import os

import numpy
import torch
from torch import nn

SAMPLED = 5
MARGIN = 1e-5


def name_hash(name):
    """FNV-1a, 32 bits."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def numbers(name, count, amplitude, centre=0.0):
    """Element i of what is called `name`: centre + amplitude * u, u in [-1, 1) hashed from both."""
    x = (numpy.arange(count, dtype=numpy.uint64) * 0x9E3779B1 + name_hash(name)) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> shift)) * factor) & 0xFFFFFFFF
    x ^= x >> 16
    u = (x >> 8).astype(numpy.float64) * 2.0**-23 - 1.0
    return torch.from_numpy((centre + amplitude * u).astype(numpy.float32).astype(numpy.float64))


class LeNet5(nn.Module):
    def __init__(self, channels=1):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(2)

    def forward(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.relu(self.fc1(x.flatten(1)))
        return self.fc3(self.relu(self.fc2(x)))


class Classified(nn.Module):
    """Features, flattening, a classifier: AlexNet and VGG."""

    def __init__(self, features, classifier):
        super().__init__()
        self.features, self.classifier = nn.Sequential(*features), nn.Sequential(*classifier)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Responses(nn.Module):
    """Local response normalisation, strong enough to see, between a convolution and a linear layer; the test builds the same."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(2, 9, 3, padding=1), nn.LocalResponseNorm(5, 2.0, 0.75, 1.5), nn.Linear(9 * 20, 10)

    def forward(self, x):
        return self.fc(self.norm(self.conv(x)).flatten(1))


def classifier(features, width):
    hidden = [nn.Identity(), nn.Linear(features, width), nn.ReLU(), nn.Identity(), nn.Linear(width, width), nn.ReLU()]
    return hidden + [nn.Linear(width, 10)]


def alexnet():
    def conv(i, o, stride=1):
        return [nn.Conv2d(i, o, 3, stride, 1), nn.ReLU()]

    pool = [nn.MaxPool2d(2)]
    features = conv(3, 64, 2) + pool + conv(64, 192) + pool + conv(192, 384) + conv(384, 256) + conv(256, 256) + pool
    return Classified(features, classifier(1024, 4096))


def vgg16(batch_norm=False):
    features, channels = [], 3
    for width, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            features += [nn.Conv2d(channels, width, 3, padding=1)] + [nn.BatchNorm2d(width)] * batch_norm + [nn.ReLU()]
            channels = width
        features.append(nn.MaxPool2d(2))
    return Classified(features, classifier(512, 512))


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.relu, self.downsample = nn.ReLU(), None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)

        def group(i, o):
            return nn.Sequential(*[Block(i if b == 0 else o, o, 2 if b == 0 and o > 16 else 1) for b in range(blocks)])

        self.layer1, self.layer2, self.layer3 = group(16, 16), group(16, 32), group(32, 64)
        self.relu, self.fc = nn.ReLU(), nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


def fill(model):
    """Weights as He would have them, small biases; scales about 1."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                values = numbers(name, p.numel(), math.sqrt(6.0 / p[0].numel()))
            else:
                values = numbers(name, p.numel(), 0.1, 1.0 if is_scale(model, name) else 0.0)
            p.copy_(values.reshape(p.shape))


def is_scale(model, name):
    owner, kind = name.rsplit(".", 1)
    return kind == "weight" and isinstance(model.get_submodule(owner), (nn.BatchNorm2d, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm))


def watch(model):
    """Returns a list to which every forward adds its distances from ReLUs' and pools' kinks."""
    distances = []

    def relu(module, inputs, output):
        distances.append(inputs[0].detach().abs().min().item())

    def pool(module, inputs, output):
        windows = inputs[0].detach().unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)
        best = windows.topk(2).values
        distances.append((best[..., 0] - best[..., 1])[best[..., 0] > 0].min().item())

    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(relu)
        elif isinstance(module, nn.MaxPool2d):
            module.register_forward_hook(pool)
    return distances


def find_data(model, samples, shape):
    """The name of data without kinks nearby, and the data."""
    distances = watch(model)
    for number in range(10000):
        name = f"data{number}"
        data = numbers(name, samples * math.prod(shape), 1.0).reshape(samples, *shape)
        distances.clear()
        with torch.no_grad():
            model(data)
        if min(distances, default=1) > MARGIN:
            return name, data
    raise SystemExit("no data found that keep the margin")


def summary(name, tensor):
    values = tensor.flatten()
    picks = [(k + 1) * values.numel() // (SAMPLED + 1) for k in range(SAMPLED)]
    elements = [values[i].item() for i in picks]
    return {"name": name, "sum": values.sum().item(), "norm": values.norm().item(), "elements": elements}


def golden(spec, make, samples, shape):
    model = make().double().train()
    fill(model)
    name, data = find_data(model, samples, shape)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    labels = torch.tensor([7 * n % 10 for n in range(samples)])
    logits = model(data)
    loss = nn.functional.cross_entropy(logits, labels)
    loss.backward()
    entries = [summary(name, p.grad) for name, p in model.named_parameters()]
    entries += [summary(name, b) for name, b in model.named_buffers() if "running" in name]
    correct = int((logits.argmax(1) == labels).sum())
    return {"model": spec, "data": name, "samples": samples, "loss": loss.item(), "correct": correct, "parameters": entries}


def main():
    goldens = [
        golden("lenet5", LeNet5, 8, (1, 28, 28)),
        golden("alexnet,dropout=0", alexnet, 3, (3, 32, 32)),
        golden("vgg16,dropout=0", vgg16, 1, (3, 32, 32)),
        golden("vgg16,dropout=0,batch_norm=1", lambda: vgg16(True), 2, (3, 32, 32)),
        golden("resnet", lambda: ResNet(1), 4, (3, 32, 32)),
        golden("resnet,blocks=3", lambda: ResNet(3), 2, (3, 32, 32)),
        golden("local_response_norm", Responses, 4, (2, 4, 5)),
    ]
    with open(os.path.join(os.path.dirname(__file__), "goldens.json"), "w") as file:
        json.dump({"format": "penstock-goldens", "version": 1, "goldens": goldens}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
