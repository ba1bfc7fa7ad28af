#!/usr/bin/env python3
"""Makes transformers.json: what PyTorch says about the transformers, one step's gradients and ten training steps.

    python3 tests/golden/make_transformers.py        (Debian: apt install python3-torch)

As make_sequences.py, whose helpers it uses. The networks are written from their descriptions in src/graph/models, with Hugging
Face's names. A bias that is added to every key has no gradient but rounding, which Adam would make a step of: so epsilon is
large here.
"""
import math

import make_sequences
import torch
from make_sequences import golden, tokens, write
from torch import nn

make_sequences.OPTIMIZERS = [
    ("sgd", torch.optim.SGD, dict(lr=0.1)),
    ("sgdm", torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=5e-4)),
    ("adam", torch.optim.Adam, dict(lr=0.003, eps=1e-3)),
    ("adamw", torch.optim.AdamW, dict(lr=0.003, weight_decay=0.01, eps=1e-3)),
]


class GPT2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        length = x.shape[1]
        unseen = torch.ones(length, length).triu(1).bool()
        y = attend(*self.attn["c_attn"](self.ln_1(x)).chunk(3, 2), self.heads, unseen)
        x = x + self.attn["c_proj"](y)
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, positions, vocabulary, layers, width, heads):
        super().__init__()
        self.transformer = nn.ModuleDict({"wte": nn.Embedding(vocabulary, width), "wpe": nn.Embedding(positions, width)})
        self.transformer["h"] = nn.ModuleList([GPT2Block(width, heads) for _ in range(layers)])
        self.transformer["ln_f"], self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, lengths):
        t = self.transformer
        x = t["wte"](tokens) + t["wpe"](torch.arange(tokens.shape[1]))
        for block in t["h"]:
            x = block(x)
        return self.lm_head(t["ln_f"](x)).transpose(1, 2)


def attend(query, key, value, heads, unseen):
    def split(x):
        return x.unflatten(2, (heads, -1)).transpose(1, 2)

    query, key, value = split(query), split(key), split(value)
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
    return (scores.masked_fill(unseen, -math.inf).softmax(3) @ value).transpose(1, 2).flatten(2)


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()

        def end(inside):
            return nn.ModuleDict({"dense": nn.Linear(inside, width), "LayerNorm": nn.LayerNorm(width, 1e-12)})

        names = ("query", "key", "value")
        self.attention = nn.ModuleDict({"self": nn.ModuleDict({name: nn.Linear(width, width) for name in names})})
        self.attention["output"], self.heads = end(width), heads
        self.intermediate, self.output = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)}), end(4 * width)

    def forward(self, x, unseen):
        own = self.attention["self"]
        y = attend(own["query"](x), own["key"](x), own["value"](x), self.heads, unseen)
        x = self.attention["output"]["LayerNorm"](x + self.attention["output"]["dense"](y))
        y = nn.functional.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](x + self.output["dense"](y))


class Bert(nn.Module):
    def __init__(self, positions, vocabulary, layers, width, heads):
        super().__init__()
        embeddings = {"word_embeddings": nn.Embedding(vocabulary, width, padding_idx=0),
                      "position_embeddings": nn.Embedding(positions, width),
                      "token_type_embeddings": nn.Embedding(2, width), "LayerNorm": nn.LayerNorm(width, 1e-12)}
        stack = nn.ModuleDict({"layer": nn.ModuleList([BertLayer(width, heads) for _ in range(layers)])})
        self.bert = nn.ModuleDict({"embeddings": nn.ModuleDict(embeddings), "encoder": stack})
        transform = {"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, 1e-12)}
        predictions = {"transform": nn.ModuleDict(transform), "decoder": nn.Linear(width, vocabulary)}
        self.cls = nn.ModuleDict({"predictions": nn.ModuleDict(predictions)})

    def forward(self, tokens, lengths):
        e, p = self.bert["embeddings"], self.cls["predictions"]
        x = e["word_embeddings"](tokens) + e["position_embeddings"](torch.arange(tokens.shape[1]))
        x = e["LayerNorm"](x + e["token_type_embeddings"](torch.zeros_like(tokens)))
        for layer in self.bert["encoder"]["layer"]:
            x = layer(x, (tokens == 0)[:, None, None, :])
        x = p["transform"]["LayerNorm"](nn.functional.gelu(p["transform"]["dense"](x)))
        return p["decoder"](x).transpose(1, 2)


def tie(model):
    """The head's weights are the embedding's, as in the released networks."""
    if isinstance(model, GPT2):
        model.lm_head.weight = model.transformer["wte"].weight
    else:
        model.cls["predictions"]["decoder"].weight = model.bert["embeddings"]["word_embeddings"].weight
    return model


def language_model(kind, make, samples, length, vocabulary, layers, width, heads, tied=False):
    data, labels = tokens("source", samples, length, vocabulary), tokens("labels", samples, length, vocabulary)
    labels[labels == 0] = -1
    spec = f"{kind},seq={length},vocab={vocabulary},layers={layers},width={width},heads={heads},dropout=0"
    if tied:
        return golden(spec + ",tied=1", lambda: tie(make(length, vocabulary, layers, width, heads)), data, labels, length)
    return golden(spec, lambda: make(length, vocabulary, layers, width, heads), data, labels, length)


def main():
    goldens = [
        language_model("gpt2", GPT2, 3, 10, 31, 2, 24, 3),
        language_model("bert48", Bert, 3, 10, 31, 2, 24, 3),
        language_model("gpt2", GPT2, 3, 10, 31, 2, 24, 3, tied=True),
        language_model("bert48", Bert, 3, 10, 31, 2, 24, 3, tied=True),
    ]
    write("transformers.json", goldens)


if __name__ == "__main__":
    main()
