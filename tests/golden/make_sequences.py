#!/usr/bin/env python3
"""Makes sequences.json: what PyTorch says about recurrent networks, one step's gradients and ten training steps.

    python3 tests/golden/make_sequences.py        (Debian: apt install python3-torch)

Weights, tokens and labels come from the formula of make_goldens.py, which the test computes too; PyTorch computes in double
precision. The networks are written from their descriptions in src/graph/models, with the reference implementations' names.
Sample n has n tokens of padding at the end of each sequence.
"""
import json
import os

import torch
from make_goldens import fill, numbers, summary
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

STEPS = 10
OPTIMIZERS = [
    ("sgd", torch.optim.SGD, dict(lr=0.1)),
    ("sgdm", torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=5e-4)),
    ("adam", torch.optim.Adam, dict(lr=0.003)),
    ("adamw", torch.optim.AdamW, dict(lr=0.003, weight_decay=0.01)),
]


class ResidualBlock(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.LSTM, self.projection_matrix = nn.LSTM(hidden, hidden, batch_first=True), nn.Linear(hidden, hidden)

    def forward(self, x):
        return x + self.projection_matrix(self.LSTM(x)[0])


class ResidualLSTM(nn.Module):
    def __init__(self, vocabulary, hidden, layers, classes):
        super().__init__()
        for layer in range(layers):
            setattr(self, f"stage{layer}", ResidualBlock(hidden))
        self.stage0.embeddings = nn.Embedding(vocabulary, hidden)
        self.layers, last = layers, getattr(self, f"stage{layers - 1}")
        last.output = nn.Linear(hidden, classes)

    def forward(self, tokens, lengths):
        x = self.stage0.embeddings(tokens)
        for layer in range(self.layers):
            x = getattr(self, f"stage{layer}")(x)
        return getattr(self, f"stage{self.layers - 1}").output(x.mean(1))


class Encoder(nn.Module):
    def __init__(self, vocabulary, hidden, layers):
        super().__init__()
        self.embedder = nn.Embedding(vocabulary, hidden, padding_idx=0)
        sizes = [hidden, 2 * hidden] + [hidden] * (layers - 2)
        self.rnn_layers = nn.ModuleList(nn.LSTM(i, hidden, batch_first=True, bidirectional=n == 0) for n, i in enumerate(sizes))

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedder(tokens), lengths, batch_first=True)
        x = pad_packed_sequence(self.rnn_layers[0](packed)[0], batch_first=True, total_length=tokens.shape[1])[0]
        x = self.rnn_layers[1](x)[0]
        for rnn in self.rnn_layers[2:]:
            x = x + rnn(x)[0]
        return x


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.linear_q, self.linear_k = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.linear_att, self.normalize_bias = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(hidden))
        self.normalize_scalar = nn.Parameter(torch.zeros(1))

    def forward(self, query, encoded, tokens):
        sums = self.linear_q(query)[:, :, None] + self.linear_k(encoded)[:, None] + self.normalize_bias
        scores = torch.tanh(sums) @ (self.linear_att / self.linear_att.norm() * self.normalize_scalar)
        return scores.masked_fill((tokens == 0)[:, None], -65504.0).softmax(-1) @ encoded


class Decoder(nn.Module):
    def __init__(self, vocabulary, hidden, layers):
        super().__init__()
        self.embedder = nn.Embedding(vocabulary, hidden, padding_idx=0)
        self.att_rnn, self.classifier = nn.Module(), nn.Module()
        self.att_rnn.rnn, self.att_rnn.attn = nn.LSTM(hidden, hidden, batch_first=True), Attention(hidden)
        self.rnn_layers = nn.ModuleList(nn.LSTM(2 * hidden, hidden, batch_first=True) for _ in range(layers - 1))
        self.classifier.classifier = nn.Linear(hidden, vocabulary)

    def forward(self, tokens, encoded, source):
        x = self.att_rnn.rnn(self.embedder(tokens))[0]
        answer = self.att_rnn.attn(x, encoded, source)
        for number, rnn in enumerate(self.rnn_layers):
            y = rnn(torch.cat((x, answer), 2))[0]
            x = x + y if number > 0 else y
        return self.classifier.classifier(x)


class GNMT(nn.Module):
    def __init__(self, source_vocabulary, target_vocabulary, hidden, layers, source):
        super().__init__()
        self.encoder, self.decoder = Encoder(source_vocabulary, hidden, layers // 2), Decoder(target_vocabulary, hidden, layers // 2)
        self.source = source

    def forward(self, tokens, lengths):
        source = tokens[:, : self.source]
        return self.decoder(tokens[:, self.source :], self.encoder(source, lengths), source).transpose(1, 2)


def tokens(name, samples, length, vocabulary):
    """1 to vocabulary - 1, and 0 in the last n places of sample n."""
    u = numbers(name, samples * length, 0.5, 0.5).reshape(samples, length)
    values = 1 + (u * (vocabulary - 1)).long()
    for n in range(1, samples):
        values[n, length - n :] = 0
    return values


def step(model, data, lengths, labels):
    logits = model(data, lengths)
    loss = nn.functional.cross_entropy(logits, labels, ignore_index=-1)
    loss.backward()
    return loss.item(), int((logits.argmax(1) == labels).sum())


def golden(spec, make, data, labels, source):
    samples = len(data)
    lengths = [source - n for n in range(samples)]
    model = make().double()
    fill(model)
    loss, correct = step(model, data, lengths, labels)
    result = {"model": spec, "samples": samples, "loss": loss, "correct": correct, "runs": []}
    result["parameters"] = [summary(name, p.grad) for name, p in model.named_parameters()]
    for name, kind, settings in OPTIMIZERS:
        fill(model)
        start = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer, losses = kind(model.parameters(), **settings), []
        for _ in range(STEPS):
            optimizer.zero_grad()
            losses.append(step(model, data, lengths, labels)[0])
            optimizer.step()
        after = []
        for parameter, p in model.named_parameters():
            entry = summary(parameter, p.detach())
            entry["change"] = (p.detach() - start[parameter]).norm().item()
            after.append(entry)
        result["runs"].append({"optimizer": name, "settings": settings, "losses": losses, "parameters": after})
    return result


def residual(samples, length, vocabulary, hidden, layers):
    data = tokens("source", samples, length, vocabulary)
    spec = f"residual_lstm,seq={length},vocab={vocabulary},hidden={hidden},layers={layers}"
    labels = torch.tensor([n % 2 for n in range(samples)])
    return golden(spec, lambda: ResidualLSTM(vocabulary, hidden, layers, 2), data, labels, length)


def gnmt(name, samples, sizes, vocabularies, hidden, layers):
    source, target = (tokens(n, samples, s, v) for n, s, v in zip(("source", "target"), sizes, vocabularies))
    labels = tokens("labels", samples, sizes[1], vocabularies[1])
    labels[labels == 0] = -1
    spec = f"{name},seq={sizes[0]},target={sizes[1]},vocab={vocabularies[0]},target_vocab={vocabularies[1]},hidden={hidden},dropout=0"
    return golden(spec, lambda: GNMT(*vocabularies, hidden, layers, sizes[0]), torch.cat((source, target), 1), labels, sizes[0])


def write(name, goldens):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "w") as file:
        head = {"format": "penstock-sequence-goldens", "version": 1, "torch": torch.__version__}
        file.write(json.dumps(head)[:-1] + ', "goldens": [\n' + ",\n".join(json.dumps(g) for g in goldens) + "\n]}\n")


def main():
    goldens = [
        residual(3, 7, 20, 16, 2),
        gnmt("gnmt-l,layers=4", 3, (6, 5), (17, 23), 16, 4),
        gnmt("gnmt8", 4, (7, 6), (31, 19), 20, 8),
    ]
    write("sequences.json", goldens)


if __name__ == "__main__":
    main()
