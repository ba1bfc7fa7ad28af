#!/usr/bin/env python3
"""Networks of torchvision and transformers: written as ONNX files that Penstock trains, and timed in PyTorch.

    imported.py export NAME FILE                            with an example of two samples
    imported.py time NAME BATCH THREADS STEPS FORMAT        FORMAT: default or channels_last; prints milliseconds a step

A step is forward, backward and SGD with momentum, as in single_worker.c.
"""
import statistics
import sys
import time
import warnings

import torch
from torch import nn

WARMUP, POSITIONS, VOCABULARY = 2, 128, 50257
IMAGES = {"resnet18": {}, "resnet50": {}, "vgg16": {"dropout": 0.0}, "mobilenet_v3_large": {"dropout": 0.0}, "vit_b_16": {}}


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel
        self.model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False))

    def forward(self, tokens):
        return self.model(tokens).logits


def create(name):
    if name == "gpt2":
        return Gpt2()
    from torchvision import models
    return getattr(models, name)(**IMAGES[name])


def example(name, batch):
    if name == "gpt2":
        return torch.randint(1, VOCABULARY, (batch, POSITIONS))
    return torch.rand(batch, 3, 224, 224) - 0.5


def export(name, path):
    warnings.filterwarnings("ignore")
    torch.onnx.export(create(name), (example(name, 2),), path, dynamo=True, optimize=False, opset_version=20,
                      external_data=False, verbose=False)


def measure(name, batch, threads, steps, layout):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, x = create(name).train(), example(name, batch)
    labels = torch.randint(1, VOCABULARY, (batch, POSITIONS)) if name == "gpt2" else torch.arange(batch) % 1000
    if layout == "channels_last" and name != "gpt2":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    times = []
    for step in range(WARMUP + steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        out = model(x)
        nn.functional.cross_entropy(out.flatten(0, -2), labels.flatten()).backward()
        optimizer.step()
        if step >= WARMUP:
            times.append(1e3 * (time.perf_counter() - begin))
    print(f"{name}: {statistics.median(times):.2f} ms a step")


if __name__ == "__main__":
    if sys.argv[1:2] == ["export"] and len(sys.argv) == 4:
        export(*sys.argv[2:])
    elif sys.argv[1:2] == ["time"] and len(sys.argv) == 7:
        measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
    else:
        sys.exit(__doc__)
