#!/usr/bin/env python3
"""Compares the step that gradients.c has written with PyTorch's in double precision, next to PyTorch's own in single precision.

    gradients.py MODEL FILE

In precision bf16 or mixed, which MODEL then names, PyTorch's rows are those of autocast, from the same weights in f32.

The networks are torchvision's, and those of tests/golden for sequences, whose sizes MODEL must all name. A row for Penstock, one
for PyTorch, and one for PyTorch with the channels last in memory, as in Penstock: each compared with double precision, as norms
of differences divided by norms.

    loss, forward    the loss; the probabilities
    all, worst       all gradients as one vector; the parameter whose own gradient has the largest error
    kinks            signs of ReLUs and winners of pools that differ from double precision
    *all, *worst     the same again, with double precision taking those decisions as they were here; and which parameter is worst

NOTHING: a gradient that is exactly zero in theory (what shifts all keys of an attention) cannot be the measure of its own error.
"""
import copy
import json
import os
import sys

import numpy
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden"))
NOTHING = 1e-5  # of the largest


def read(path):
    """The tensors of a safetensors file, by name."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    data = numpy.memmap(path, dtype=numpy.float32, mode="c", offset=8 + length)
    return {name: torch.from_numpy(data[t["data_offsets"][0] // 4:t["data_offsets"][1] // 4].reshape(t["shape"]))
            for name, t in header.items() if "dtype" in t}


def images(name, classes):
    from make_networks import NETWORKS
    from torchvision import models
    settings = {network[1]: network[2] for network in NETWORKS}[name]
    return getattr(models, name)(num_classes=classes, **settings)


def sequences(name, o):
    import make_sequences
    import make_transformers
    if name == "residual_lstm":
        return make_sequences.ResidualLSTM(o["vocab"], o["hidden"], o["layers"], 2)
    if name == "gnmt8":
        return make_sequences.GNMT(o["vocab"], o["target_vocab"], o["hidden"], 8, o["seq"])
    make = {"gpt2": make_transformers.GPT2, "bert48": make_transformers.Bert}[name]
    return make(o["seq"], o["vocab"], o["layers"], o["width"], o["heads"])


def create(spec, given):
    """A function that makes the network with the weights given, and its input and labels. Sequences come by their lengths."""
    name, *pairs = spec.split(",")
    options = {key: int(value) for key, value in (pair.split("=") for pair in pairs) if value.isdigit()}
    weights = {n[len("weight."):]: t for n, t in given.items() if n.startswith("weight.")}
    data, labels = given["data"], given["labels"].long()
    if data.dim() == 4:
        make, sizes = images, given["probabilities"].shape[1]
        inputs, labels = (data.permute(0, 3, 1, 2).contiguous(),), labels[:, 0]
    else:
        data, lengths = data.long(), (data[:, : options["seq"]] != 0).sum(1)
        order = lengths.argsort(descending=True, stable=True)
        given["probabilities"] = given["probabilities"].unflatten(0, (len(data), -1))[order].flatten(0, 1)
        make, sizes, inputs, labels = sequences, options, (data[order], lengths[order]), labels[order]
        labels = labels[:, 0] if name == "residual_lstm" else labels

    made = make(name, sizes).train()
    for module in made.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    missing, unknown = made.load_state_dict(weights, strict=False)
    assert not unknown and not [m for m in missing if "running" not in m and "num_batches" not in m], (missing, unknown)
    return lambda: copy.deepcopy(made), inputs, labels


class Decisions:
    """While it is entered: notes how ReLUs and pools decide, or makes them decide as was noted; `values`: what the ReLUs gave
    elsewhere, which is put in the place of what they give here."""

    apart_at_most = 0.1  # of their norm: ReLUs that are the same one

    def __init__(self, values=None, noted=None):
        self.values, self.noted = values, noted
        self.signs, self.winners = (noted.signs, noted.winners) if noted else ([], [])

    def __enter__(self):
        self.relu, self.pool, self.at = F.relu, F.max_pool2d, [0, 0]
        F.relu, F.max_pool2d = self.decide_sign, self.decide_winner
        return self

    def __exit__(self, *_):
        F.relu, F.max_pool2d = self.relu, self.pool

    def turn(self, kind):
        self.at[kind] += 1
        return self.at[kind] - 1

    def decide_sign(self, x, inplace=False):
        number = self.turn(0)
        if self.noted:
            return x * self.signs[number]
        y = self.relu(x)
        if self.values:
            theirs = self.values[number]
            theirs = theirs.permute(0, 3, 1, 2) if theirs.dim() == 4 else theirs
            assert theirs.shape == y.shape and (theirs - y).norm() <= self.apart_at_most * y.norm(), f"ReLU {number} is another one"
            y = theirs.to(y.dtype)
        self.signs.append(y > 0)
        return y

    def decide_winner(self, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if self.noted:
            winners = self.winners[self.turn(1)]
            return x.flatten(2).gather(2, winners.flatten(2)).view(winners.shape)
        y, winners = self.pool(x, kernel_size, stride, padding, ceil_mode=ceil_mode, return_indices=True)
        self.winners.append(winners)
        return y

    def apart(self, other):
        """Of all decisions how many differ; an equal value of another element is none."""
        signs = sum((a != b).sum().item() for a, b in zip(self.signs, other.signs))
        return signs + sum((a != b).sum().item() for a, b in zip(self.winners, other.winners))


def step(network, inputs, labels, narrow=False):
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        logits = network(*inputs)
        loss = F.cross_entropy(logits, labels, ignore_index=-1)
    logits = logits.float() if narrow else logits
    loss.backward()
    probabilities = logits.detach().softmax(1).movedim(1, -1).flatten(0, -2)
    gradients = {name: p.grad for name, p in network.named_parameters()}
    return {"loss": loss.detach(), "probabilities": probabilities, "gradients": gradients}


def relative(a, b):
    return ((a.double() - b).norm() / b.norm()).item()


def compare(result, truth):
    norms = {name: gradient.norm().item() for name, gradient in truth.items()}
    largest = max(norms.values())
    apart = {name: relative(result[name], gradient) for name, gradient in truth.items() if norms[name] > NOTHING * largest}
    worst = max(apart, key=apart.get)
    total = sum((apart[name] * norms[name]) ** 2 for name in apart) ** 0.5 / sum(n * n for n in norms.values()) ** 0.5
    return total, apart[worst], worst


def row(who, result, decisions, again):
    """`decisions`: how ReLUs and pools decided on the way; `again(decisions)`: double precision in which they do the same."""
    loss, forward = (relative(result[what], again.truth[what]) for what in ("loss", "probabilities"))
    total, worst, name = compare(result["gradients"], again.truth["gradients"])
    line, kinks = f"{who:14s} {loss:8.1e} {forward:8.1e} {total:8.1e} {worst:8.1e}", decisions.apart(again.truly)
    if kinks:
        total, worst, name = compare(result["gradients"], again(decisions))
    print(f"{line} {kinks:6d} {total:8.1e} {worst:8.1e} {name}", flush=True)


class Again:
    """Double precision, once as it decides itself (`truly`) and then as it is told."""

    def __init__(self, network, inputs, labels):
        wide = [i.double() if i.is_floating_point() else i for i in inputs]
        self.step = lambda: step(network().double(), wide, labels)
        with Decisions() as self.truly:
            self.truth = self.step()

    def __call__(self, decisions):
        with Decisions(noted=decisions):
            return self.step()["gradients"]


def main():
    spec, given = sys.argv[1], read(sys.argv[2])
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    network, inputs, labels = create(spec, given)
    narrow = "precision=bf16" in spec or "precision=mixed" in spec
    Decisions.apart_at_most = 0.5 if narrow else Decisions.apart_at_most
    again = Again(network, inputs, labels)
    values = [given[f"value.{n}"] for n in range(sum(name.startswith("value.") for name in given))]
    with Decisions(values) as decisions, torch.no_grad():
        network()(*inputs)
    assert len(decisions.signs) == len(values)
    ours = {"loss": given["loss"][0], "probabilities": given["probabilities"],
            "gradients": {name[len("gradient."):]: t for name, t in given.items() if name.startswith("gradient.")}}
    row("penstock", ours, decisions, again)
    for layout in ("default", "channels_last") if inputs[0].dim() == 4 else ("default",):
        form = {"memory_format": torch.channels_last if layout == "channels_last" else torch.contiguous_format}
        with Decisions() as decisions:
            result = step(network().to(**form), [i.contiguous(**form) if i.dim() == 4 else i for i in inputs], labels, narrow)
        row(("autocast" if narrow else "pytorch") if layout == "default" else layout, result, decisions, again)


if __name__ == "__main__":
    main()
