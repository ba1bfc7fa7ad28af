#!/usr/bin/env python3
"""Makes networks.json: what torchvision's networks say about shapes, one training step, and ten steps of each optimizer.

    python3 tests/golden/make_networks.py [NAME...]        (needs torch and torchvision, whatever their versions)

Weights and data come from the formula of make_goldens.py, computed in double precision, so the file holds only results: output
shapes of the convolutions and linear layers at full size; probabilities, loss and each parameter's gradient (its norm, and its
product with hashed numbers) on a small input; losses and some weights along ten steps.

Single precision may fall to the other side of a kink of a ReLU or a pool, which changes gradients by far more than rounding
does, and a deep network makes much of it (PyTorch's own single precision is percents away from its double). So normalisations
scale little and move each channel well to one side of 0 (`calm`), and of several data the ones are taken that stay farthest
from all kinks.

The rates of the ten steps are such that the loss falls and does not leap: where it leaps, each step multiplies what rounding made
before it. Adam's eps is 1e-3: with 1e-8 gradients that are 0 but for rounding move their weights as far as any others, up or down
by chance.
"""
import json
import math
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torchvision import models

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_goldens import fill, numbers  # noqa: E402

TRIES, STEPS, FOLLOWED = 20, 10, 6
PLAIN = dict(aux_logits=False, init_weights=False)
# specification here, torchvision's name and settings, samples and pixels of the small input, pixels of the shapes,
# rates of SGD and of Adam
NETWORKS = [
    ("alexnet,form=imagenet,dropout=0", "alexnet", {}, 3, 64, 224, (1e-5, 1e-6)),
    ("vgg16,dropout=0", "vgg16", {}, 1, 32, 224, (1e-5, 1e-6)),
    ("vgg19,dropout=0", "vgg19", {}, 1, 32, 224, (3e-6, 1e-6)),
    ("resnet50", "resnet50", {}, 4, 64, 224, (1e-4, 1e-5)),
    ("resnet101", "resnet101", {}, 4, 64, 224, (1e-4, 1e-5)),
    ("googlenet,dropout=0", "googlenet", PLAIN, 4, 64, 224, (1e-4, 1e-5)),
    ("inception_v3,dropout=0", "inception_v3", PLAIN, 4, 107, 299, (1e-3, 1e-5)),
    ("densenet121", "densenet121", {}, 4, 64, 224, (1e-3, 1e-5)),
]
CLASSES = 10
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, dict()),
    "sgdm": (torch.optim.SGD, dict(momentum=0.9)),
    "adam": (torch.optim.Adam, dict(eps=1e-3)),
    "adamw": (torch.optim.AdamW, dict(eps=1e-3)),
}


class Kinks:
    """While it is entered: the least distance from a kink, in standard deviations of the values there."""

    def __enter__(self):
        self.distance, self.relu, self.pool = math.inf, F.relu, F.max_pool2d
        F.relu, F.max_pool2d = self.watch_relu, self.watch_pool
        return self

    def __exit__(self, *_):
        F.relu, F.max_pool2d = self.relu, self.pool

    def note(self, distances, values):
        if distances.numel():
            self.distance = min(self.distance, (distances.min() / values.std()).item())

    def watch_relu(self, x, inplace=False):
        self.note(x.abs(), x)
        return self.relu(x)

    def watch_pool(self, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        over = kernel_size if ceil_mode else 0
        wide = F.pad(x, (padding, padding + over) * 2, value=-1e30)
        windows = F.unfold(wide, kernel_size, stride=stride).reshape(x.shape[0], x.shape[1], kernel_size**2, -1)
        best = windows.topk(2, 2).values
        apart = best[:, :, 0] - best[:, :, 1]
        self.note(apart[(best[:, :, 0] > 0) & (apart > 0)], x)  # equal ones are one element, come by two windows
        return self.pool(x, kernel_size, stride, padding, ceil_mode=ceil_mode)


def calm(network):
    with torch.no_grad():
        for name, module in network.named_modules():
            if isinstance(module, nn.BatchNorm2d):
                count = module.weight.numel()
                module.weight.copy_(numbers(name + ".weight", count, 0.05, 0.25))
                u = numbers(name + ".bias", count, 1.0)
                module.bias.copy_((torch.where(u < 0, -1.0, 1.0) + 0.5 * u).float())


def make(name, settings, classes, pixels):
    network = getattr(models, name)(num_classes=classes, **settings).double().train()
    if name.startswith("vgg") and pixels <= 64:  # the form for small images
        hidden = [nn.Identity(), nn.Linear(512, 512), nn.ReLU(), nn.Identity(), nn.Linear(512, 512), nn.ReLU()]
        network.avgpool, network.classifier = nn.Identity(), nn.Sequential(*hidden, nn.Linear(512, classes)).double()
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    fill(network)
    calm(network)
    return network


def shapes(network, pixels):
    """Output shapes of the convolutions and linear layers, in the order of their parameters."""
    found = {}

    def note(name, output):
        found[name] = list(output.shape[1:])

    for name, module in network.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(lambda m, i, o, name=name: note(name, o))
    network.eval()
    with torch.no_grad():
        network.float()(torch.zeros(1, 3, pixels, pixels))
    return found


def find_data(network, samples, pixels):
    best = (-1.0, None, None)
    for number in range(TRIES):
        name = f"data{number}"
        data = numbers(name, samples * 3 * pixels * pixels, 1.0).reshape(samples, 3, pixels, pixels)
        with torch.no_grad(), Kinks() as kinks:
            network(data)
        if kinks.distance > best[0]:
            best = (kinks.distance, name, data)
    return best


def projection(name, tensor):
    values = tensor.detach().flatten()
    return torch.dot(values, numbers("projection." + name, values.numel(), 1.0)).item()


def train(network, data, labels, kind, rates):
    optimizer_class, settings = OPTIMIZERS[kind]
    settings = {"lr": rates["adam" in kind], **settings}
    start = {name: p.detach().clone() for name, p in network.named_parameters()}
    optimizer = optimizer_class(network.parameters(), **settings)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(data), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    parameters = list(network.named_parameters())
    picks = [parameters[k * (len(parameters) - 1) // (FOLLOWED - 1)] for k in range(FOLLOWED)]
    moved = [[name, (p.detach() - start[name]).norm().item(), projection(name, p - start[name])] for name, p in picks]
    return {"optimizer": kind, "settings": settings, "losses": losses, "moved": moved}


def golden(spec, name, settings, samples, pixels, full, rates):
    network = make(name, settings, CLASSES, pixels)
    distance, data_name, data = find_data(network, samples, pixels)
    labels = torch.tensor([7 * n % CLASSES for n in range(samples)])
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    logits = network(data)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    gradients = [[n, p.grad.norm().item(), projection(n, p.grad)] for n, p in network.named_parameters()]
    statistics = [[n, b.norm().item(), projection(n, b)] for n, b in network.named_buffers() if "running" in n]
    runs = [train(make(name, settings, CLASSES, pixels), data, labels, kind, rates) for kind in OPTIMIZERS]
    print(f"{spec}: distance {distance:.2g}, loss {loss.item():.4f}", runs[0]["losses"][-1], runs[2]["losses"][-1], flush=True)
    return {"model": f"{spec},input={pixels},classes={CLASSES}", "samples": samples, "data": data_name,
            "loss": loss.item(), "probabilities": logits.softmax(1).flatten().tolist(), "gradients": gradients,
            "statistics": statistics, "runs": runs, "full": f"{spec},input={full},classes=1000",
            "parameters": sum(p.numel() for p in getattr(models, name)(**settings).parameters()),
            "shapes": shapes(make(name, settings, 1000, full), full)}


def compact(value):
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, dict):
        return {k: compact(v) for k, v in value.items()}
    return [compact(v) for v in value] if isinstance(value, list) else value


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks.json")
    wanted, kept = sys.argv[1:], []
    if wanted and os.path.exists(path):
        with open(path) as file:
            kept = json.load(file)["networks"]
    made = [golden(*network) for network in NETWORKS if not wanted or network[1] in wanted]
    fresh = {entry["model"] for entry in made}
    networks = [compact(entry) for entry in [e for e in kept if e["model"] not in fresh] + made]
    with open(path, "w") as file:
        file.write('{"format": "penstock-networks", "version": 1, "networks": [\n')
        file.write(",\n".join(json.dumps(entry, separators=(",", ":")) for entry in networks))
        file.write("\n]}\n")


if __name__ == "__main__":
    main()
