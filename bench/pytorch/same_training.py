#!/usr/bin/env python3
"""The same training in PyTorch and in Penstock, from the same weights: losses of every step and the weights at the end.

    same_training.py PENSTOCK DIRECTORY [NETWORK...]
    same_training.py PENSTOCK DIRECTORY FILE.npz...        one step of FILE.*.onnx with PyTorch's optimizers and the gradients
                                                           that FILE.npz has from PyTorch

Of 20 steps: the first and the last loss; the largest difference of two losses, and that of PyTorch's own in single and in
double precision; and the largest difference of two weights of a parameter, as a share of the longest way that one of its
weights went: the median of all parameters, and the worst. Of one step the worst, of parameters that go at least a hundredth
of the network's longest way. Where a gradient is zero but for rounding (of a bias before a norm) Adam goes its full way by the
sign of the rounding: of one step such elements are left out.

Status 1 where losses differ by more than 1e-4 and than twice PyTorch's own, or one step by more than 1e-3 of its way.
"""
import copy
import glob
import json
import os
import subprocess
import sys
import warnings

import numpy
import torch
from safetensors.torch import load_file, save_file
from torch import nn

STEPS, SAMPLES, WORKERS = 20, 16, 2


def grouped(model):
    """AdamW without decay of biases and norms, and faster in the second block."""
    groups = [{"params": [], "weight_decay": 0.0}, {"params": [], "lr": 0.004}, {"params": []}]
    for name, p in model.named_parameters():
        groups[0 if name.endswith(".bias") or ".ln_" in name else 1 if ".h.1." in name else 2]["params"].append(p)
    return torch.optim.AdamW(groups, lr=0.001, weight_decay=0.1)


def all_of(optimizer, **settings):
    return lambda model: optimizer([p for p in model.parameters() if p.requires_grad], **settings)


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
OPTIMIZERS = {
    "sgd": (all_of(SGD, lr=0.05), "--optimizer sgd --lr 0.05"),
    "sgdm": (all_of(SGD, lr=0.02, momentum=0.9, dampening=0.1, weight_decay=0.01),
             "--optimizer sgdm --lr 0.02 --momentum 0.9 --dampening 0.1 --weight-decay 0.01"),
    "adam": (all_of(ADAM, lr=0.001, weight_decay=0.01), "--optimizer adam --lr 0.001 --weight-decay 0.01"),
    "adamw": (all_of(ADAMW, lr=0.001, weight_decay=0.1), "--optimizer adamw --lr 0.001 --weight-decay 0.1"),
}
GPT2 = {
    "groups": (grouped, "--optimizer adamw --lr 0.001 --weight-decay 0.1 "
               "--groups *.bias:weight-decay=0;*.ln_*:weight-decay=0;*.h.1.*:lr=0.004"),
    "LoRA sgd": (all_of(SGD, lr=0.5), "--optimizer sgd --lr 0.5"),
    "LoRA adamw": (all_of(ADAMW, lr=0.01), "--optimizer adamw --lr 0.01 --weight-decay 0.01"),
}
differs = False


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel
        self.inner = GPT2LMHeadModel(GPT2Config(vocab_size=37, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0,
                                                embd_pdrop=0, attn_pdrop=0, use_cache=False))

    def forward(self, ids):
        return self.inner(ids).logits


class Lora(nn.Module):
    """Low-rank adapter of a linear layer, or of one of GPT-2's, whose weights are transposed."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        transposed = not isinstance(base, nn.Linear)
        outputs, inputs = base.weight.T.shape if transposed else base.weight.shape
        self.base, self.scale = base, alpha / rank
        self.lora_A, self.lora_B = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + self.scale * self.lora_B(self.lora_A(x))


def vision(name):
    from torchvision import models
    return getattr(models, name)(num_classes=10)


NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 64), nn.Tanh(), nn.Linear(64, 10)),
    "resnet18": lambda: vision("resnet18"),
    "gpt2": Gpt2,
}


def data(name):
    torch.manual_seed(1)
    if name == "gpt2":
        ids = torch.randint(0, 37, (SAMPLES, 12))
        return ids, (ids * 5 + 3) % 37
    return torch.randn(SAMPLES, 3, 32, 32), torch.arange(SAMPLES) % 10


def train_there(model, create, x, labels):
    optimizer, losses = create(model), []
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_exactly(model, create, x, labels):
    return train_there(copy.deepcopy(model).double(), create, x.double() if x.is_floating_point() else x, labels)


def run(*arguments):
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)


def train_here(penstock, place, network, batch, steps, workers, options):
    run("rm", "-rf", place + "/run")
    run(penstock, "train", "--model", network, "--data", f"npz:{place}/data.npz", "--batch", str(batch), "--micro-batch",
        str(batch), "--workers", str(workers), "--schedule", "1f1b", "--weights", "sync", "--steps", str(steps), "--out",
        place + "/run", "-q", *options.split())
    run(penstock, "export", "--run", place + "/run", "-o", place + "/trained.safetensors")
    with open(place + "/run/log.jsonl") as log:
        losses = [line["loss"] for line in map(json.loads, log) if "loss" in line]
    return losses, load_file(place + "/trained.safetensors")


def way(a, b):
    return (a.double() - b.double()).abs().max().item()


def difference(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def report(name, what, exact, there, here, before, after, got):
    global differs
    loss, own = difference(there, here), difference(there, exact)
    shares = sorted(way(got[k], after[k]) / way(after[k], before[k])
                    for k in before if k in got and after[k].is_floating_point() and before[k].ne(after[k]).any())
    print(f"{name:14} {what:10} {there[0]:9.6f} {there[-1]:9.6f} {loss:10.1e} {own:10.1e} "
          f"{shares[len(shares) // 2]:10.1e} {shares[-1]:10.1e}", flush=True)
    differs |= loss > max(1e-4, 2 * own)


def compare(penstock, place, name):
    x, labels = data(name)
    torch.manual_seed(0)
    model = NETWORKS[name]()
    begin = {k: v.clone() for k, v in model.state_dict().items()}
    torch.onnx.export(model.eval(), (x[:2],), place + "/net.onnx", input_names=["x"], dynamo=True, optimize=False,
                      external_data=False, verbose=False)
    numpy.savez(place + "/data.npz", x=x.numpy(), labels=labels.numpy())
    own = {"groups": GPT2["groups"]} if name == "gpt2" else {}
    for optimizer, (create, options) in (OPTIMIZERS | own).items():
        model.load_state_dict(begin)
        exact = train_exactly(model, create, x, labels)
        there = train_there(model, create, x, labels)
        here, got = train_here(penstock, place, place + "/net.onnx", SAMPLES, STEPS, WORKERS, options)
        report(name, optimizer, exact, there, here, begin, model.state_dict(), got)
    if name == "gpt2":
        for optimizer in ("LoRA sgd", "LoRA adamw"):
            compare_lora(penstock, place, begin, x, labels, optimizer)


def compare_lora(penstock, place, begin, x, labels, optimizer):
    create, options = GPT2[optimizer]
    model = Gpt2()
    model.load_state_dict(begin)
    model.requires_grad_(False)
    torch.manual_seed(2)
    for block in model.inner.transformer.h:
        block.attn.c_attn, block.mlp.c_proj = Lora(block.attn.c_attn, 4, 8), Lora(block.mlp.c_proj, 4, 8)

    def adapters():
        return {k: v.clone() for k, v in model.state_dict().items() if "lora_" in k}
    before = adapters()
    save_file({"base_model.model." + k: v for k, v in before.items()}, place + "/adapter.safetensors")
    exact, there = train_exactly(model, create, x, labels), train_there(model, create, x, labels)
    options += f" --lora rank=4,alpha=8,target=*c_attn+*mlp.c_proj --init {place}/adapter.safetensors"
    here, got = train_here(penstock, place, place + "/net.onnx", SAMPLES, STEPS, WORKERS, options)
    report("gpt2", optimizer, exact, there, here, before, adapters(), got)


def one_step(penstock, place, reference):
    """SGD with momentum and AdamW, from the weights of the ONNX file and the gradients of the reference."""
    global differs
    import onnx
    file = sorted(glob.glob(reference[:-4] + ".dyn*.onnx"))[0]
    initial = {t.name: onnx.numpy_helper.to_array(t).copy() for t in onnx.load(file).graph.initializer}
    numbers = numpy.load(reference)
    numpy.savez(place + "/data.npz", labels=numbers["labels"],
                **{k[len("input/"):]: numbers[k] for k in numbers if k.startswith("input/")})
    gradients = {k[len("gradient/"):]: torch.from_numpy(numbers[k]).float() for k in numbers if k.startswith("gradient/")}
    gradients = {k: g for k, g in gradients.items() if k in initial}
    most = max(g.abs().max() for g in gradients.values())
    worst = {}
    for optimizer in ("sgdm", "adamw"):
        model = nn.ParameterDict()
        for k, g in gradients.items():
            model[k.replace(".", "/")] = nn.Parameter(torch.from_numpy(initial[k]).clone())
            model[k.replace(".", "/")].grad = g
        create, options = OPTIMIZERS[optimizer]
        create(model).step()
        _, got = train_here(penstock, place, file, len(numbers["labels"]), 1, 1, options)
        ways = {}
        for k, g in gradients.items():
            counts = g.abs() > (1e-5 * most if optimizer == "adamw" else -1)
            after = model[k.replace(".", "/")].detach()
            if counts.any():
                ways[k] = (way(got[k][counts], after[counts]), way(after[counts], torch.from_numpy(initial[k])[counts]))
        longest = max(w for _, w in ways.values())
        worst[optimizer] = max(d / max(w, longest / 100) for d, w in ways.values())
    print(f"{os.path.basename(file):24} {len(gradients):10} {worst['sgdm']:10.1e} {worst['adamw']:10.1e}", flush=True)
    differs |= max(worst.values()) > 1e-3


def main():
    penstock, place = os.path.abspath(sys.argv[1]), sys.argv[2]
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if sys.argv[3:] and sys.argv[3].endswith(".npz"):
        print(f"PyTorch {torch.__version__}, one step\n{'network':24} {'parameters':>10} {'sgdm':>10} {'adamw':>10}")
        for reference in sys.argv[3:]:
            one_step(penstock, place, reference)
        sys.exit(differs)
    print(f"PyTorch {torch.__version__}, {WORKERS} workers, {STEPS} steps of {SAMPLES} samples")
    print(f"{'network':14} {'optimizer':10} {'first':>9} {'last loss':>9} {'difference':>10} {'own':>10} {'median':>10} "
          f"{'worst':>10}")
    for name in sys.argv[3:] or NETWORKS:
        compare(penstock, place, name)
    sys.exit(differs)


main()
