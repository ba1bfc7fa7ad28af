"""VGG-16 in its CIFAR form with PyTorch, as `penstock train --model vgg16` trains it where nothing else is said: Adam at 0.0003,
mini-batches of 64, torchvision's initial values, cifar10's normalisation. Prints the accuracy on the test images in percent after
each epoch.

Usage: vgg16.py CIFAR10_DIRECTORY SEED EPOCHS
"""
import sys

import numpy
import torch
from torch import nn

from single_worker import vgg16

RECORD = 1 + 3 * 32 * 32
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def read_part(directory, name):
    records = torch.from_numpy(numpy.fromfile(f"{directory}/{name}", numpy.uint8).reshape(-1, RECORD))
    images = records[:, 1:].reshape(-1, 3, 32, 32).float() / 255
    images = (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)
    return images.contiguous(memory_format=torch.channels_last), records[:, 0].long()


def initialize(module):
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, 0, 0.01)
        nn.init.zeros_(module.bias)


def main():
    directory, seed, epochs, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 64
    images, labels = read_part(directory, "data_batch_1.bin")
    test_images, test_labels = read_part(directory, "test_batch.bin")
    torch.manual_seed(seed)
    network = vgg16()[0].apply(initialize).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), 3e-4)
    for _ in range(epochs):
        network.train()
        order = torch.randperm(len(images))
        for start in range(0, len(images) - batch + 1, batch):
            chosen = order[start:start + batch]
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[chosen]), labels[chosen]).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            found = torch.cat([network(part).argmax(1) for part in test_images.split(200)])
        print(100 * (found == test_labels).float().mean().item(), flush=True)


main()
