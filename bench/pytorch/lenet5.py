"""LeNet-5 with PyTorch, as bench/learning/lenet5_pytorch.sh trains it with Penstock: prints one accuracy in percent for each seed.

Usage: lenet5.py IDX_DIRECTORY SEEDS
"""
import gzip
import os
import sys

import numpy
import torch
from torch import nn


def read_idx(directory, name, header):
    path = os.path.join(directory, name)
    opener = gzip.open if os.path.exists(path + ".gz") else open
    with opener(path + ".gz" if opener is gzip.open else path, "rb") as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=header)


def read_part(directory, part):
    images = read_idx(directory, part + "-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28).astype(numpy.float32)
    labels = read_idx(directory, part + "-labels-idx1-ubyte", 8).astype(numpy.int64)
    return (torch.from_numpy(images) / 255 - 0.1307) / 0.3081, torch.from_numpy(labels)


def train(seed, images, labels, batch=64):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    order = torch.randperm(len(images))
    for start in range(0, len(images) - batch + 1, batch):
        chosen = order[start:start + batch]
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    return net


def main():
    directory, seeds = sys.argv[1], int(sys.argv[2])
    images, labels = read_part(directory, "train")
    test_images, test_labels = read_part(directory, "t10k")
    for seed in range(seeds):
        net = train(seed, images, labels)
        with torch.no_grad():
            print(100 * (net(test_images).argmax(1) == test_labels).float().mean().item(), flush=True)


main()
