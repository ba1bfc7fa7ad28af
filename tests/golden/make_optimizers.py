#!/usr/bin/env python3
"""Makes optimizers.json: weights after some steps of PyTorch's optimizers.

    python3 tests/golden/make_optimizers.py        (Debian: apt install python3-torch)

All cases start from the same weights and see the same gradients, which the file holds too; PyTorch computes in double precision.
"""
import json
import os

import torch

COUNT, STEPS, SHOWN = 8, 10, (1, 2, 10)

CASES = [
    ("sgd", dict(lr=0.01)),
    ("sgd", dict(lr=0.1, weight_decay=0.05)),
    ("sgdm", dict(lr=0.01, momentum=0.9)),
    ("sgdm", dict(lr=0.05, momentum=0.8, dampening=0.3)),
    ("sgdm", dict(lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.05)),
    ("sgdm", dict(lr=0.05, momentum=0, weight_decay=0.05)),
    ("adam", dict(lr=0.001)),
    ("adam", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    ("adamw", dict(lr=0.001)),
    ("adamw", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
]
CLASSES = {"sgd": torch.optim.SGD, "sgdm": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def single(values):
    """Numbers of single precision, so that the test starts from exactly these."""
    return values.float().double()


def run(name, settings, weights, gradients):
    parameter = torch.nn.Parameter(weights.clone())
    optimizer = CLASSES[name]([parameter], **settings)
    shown = []
    for step, gradient in enumerate(gradients, 1):
        parameter.grad = gradient.clone()
        optimizer.step()
        if step in SHOWN:
            shown.append({"step": step, "weights": parameter.tolist()})
    written = dict(settings)
    written["beta1"], written["beta2"] = written.pop("betas", (None, None))
    return {"optimizer": name, "settings": {k: v for k, v in written.items() if v is not None}, "after": shown}


def main():
    torch.manual_seed(1)
    weights, gradients = single(torch.randn(COUNT, dtype=torch.double)), single(torch.randn(STEPS, COUNT, dtype=torch.double))
    gradients *= torch.tensor([1.0, 1e-3, 10, 1, 1, 0.1, 1, 1], dtype=torch.double)
    gradients = single(gradients)
    cases = [run(name, settings, weights, gradients) for name, settings in CASES]
    document = {"format": "penstock-optimizers", "version": 1, "torch": torch.__version__, "weights": weights.tolist(),
                "gradients": gradients.tolist(), "cases": cases}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers.json"), "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
