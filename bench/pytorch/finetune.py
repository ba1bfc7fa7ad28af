#!/usr/bin/env python3
"""A network that is trained in PyTorch on the first half of CIFAR-10, for bench/finetune.sh to go on with.

    finetune.py train CIFAR_DIRECTORY EPOCHS NET.onnx      prints its accuracy on the test images
    finetune.py evaluate CIFAR_DIRECTORY WEIGHTS            the same with weights of a safetensors file
"""
import sys
import warnings

import numpy
import torch
from safetensors.torch import load_file
from torch import nn

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def create():
    def block(before, after, stride):
        return [nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*block(3, 16, 1), *block(16, 32, 2), *block(32, 64, 2), *block(64, 64, 1), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(64, 10))


def read(directory, name):
    records = numpy.fromfile(f"{directory}/{name}", numpy.uint8).reshape(-1, 1 + 3 * 32 * 32)
    images = records[:, 1:].reshape(-1, 3, 32, 32).astype(numpy.float32) / 255
    normalised = (images - numpy.float32(MEAN)[:, None, None]) / numpy.float32(DEVIATION)[:, None, None]
    return torch.from_numpy(normalised), torch.from_numpy(records[:, 0].astype(numpy.int64))


def accuracy(model, directory):
    images, labels = read(directory, "test_batch.bin")
    model.eval()
    with torch.no_grad():
        hits = torch.cat([model(x) for x in images.split(250)]).argmax(1) == labels
    return f"{100 * hits.double().mean().item():.2f}%"


def train(directory, epochs, path):
    torch.manual_seed(0)
    model = create()
    images, labels = read(directory, "data_batch_1.bin")
    half = len(images) // 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for _ in range(epochs):
        model.train()
        for batch in torch.randperm(half).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    torch.onnx.export(model.eval(), (images[:2],), path, dynamo=True, optimize=False, external_data=False, verbose=False)
    print(accuracy(model, directory))


warnings.filterwarnings("ignore")
torch.set_num_threads(1)
if sys.argv[1] == "train":
    train(sys.argv[2], int(sys.argv[3]), sys.argv[4])
else:
    trained = create()
    missing = trained.load_state_dict(load_file(sys.argv[3]), strict=False).missing_keys
    assert all(name.endswith("num_batches_tracked") for name in missing), missing
    print(accuracy(trained, sys.argv[2]))
