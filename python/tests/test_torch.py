"""Modules of the real PyTorch: export, the same losses, weights back, and schedules that torch.distributed.pipelining runs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import penstock

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2))
        self.body = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2))
        self.drop = nn.Dropout(dropout) if dropout > 0 else nn.Identity()
        self.hidden = nn.Linear(8 * 4 * 4, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, image):
        return self.head(torch.tanh(self.hidden(self.drop(self.body(self.stem(image)).flatten(1)))))
"""
BATCH = 32


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    directory = tmp_path_factory.mktemp("torch")
    (directory / "net.py").write_text(MODEL)
    draw = numpy.random.default_rng(0)
    numpy.savez(directory / "data.npz", image=draw.normal(0, 1, (BATCH, 1, 16, 16)).astype(numpy.float32),
                labels=draw.integers(0, 4, BATCH))
    return directory


def make(**options):
    names = {}
    exec(MODEL, names)
    torch.manual_seed(0)
    return names["Net"](**options)


@pytest.fixture(scope="module")
def exported():
    model = make()
    return model, penstock.export(model, torch.zeros(2, 1, 16, 16))


def own_losses(model, images, labels, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def tensors(work):
    data = numpy.load(work / "data.npz")
    return torch.from_numpy(data["image"]), torch.from_numpy(data["labels"])


def test_export_trains_as_pytorch_does(exported, work):
    model, network = exported
    images, labels = tensors(work)
    assert network.info.classes == 4 and model.training
    run = penstock.train(network, (images, labels), workers=2, schedule="1f1b", weights="sync", micro_batches=4, batch=BATCH,
                         steps=5, lr=0.05, momentum=0.9)
    twin = make()
    assert run.steps["loss"] == pytest.approx(own_losses(twin, images, labels, 5), rel=1e-4)
    loaded = run.load_into(make())
    for name, value in twin.state_dict().items():
        assert torch.allclose(loaded.state_dict()[name], value, rtol=1e-3, atol=1e-5), name
    assert penstock.evaluate(run, (images, labels)).loss == pytest.approx(
        torch.nn.functional.cross_entropy(twin(images), labels).item(), rel=1e-4)
    weights = run.weights()
    del weights["head.bias"]
    with pytest.raises(KeyError, match="head.bias"):
        penstock.load(make(), weights)


def test_export_keeps_dropout_and_restores_the_mode(work):
    model = make(dropout=0.5).eval()
    network = penstock.export(model, torch.zeros(2, 1, 16, 16), work / "drops.onnx")
    assert not model.training and (work / "drops.onnx").exists()
    losses = [penstock.train(network, tensors(work), workers=1, batch=BATCH, steps=1, seed=seed).info.loss for seed in (0, 1)]
    assert losses[0] != losses[1]


class Tabular(torch.nn.Module):
    """Several inputs, a whole number for each sample among them, and one number out of each."""

    def __init__(self, dropout):
        super().__init__()
        self.kinds, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(9, 1)
        self.drop = torch.nn.Dropout(dropout)

    def forward(self, numbers, kind):
        return self.head(self.drop(torch.cat([numbers, self.kinds(kind)], 1))).squeeze(-1)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_tables(dropout):
    torch.manual_seed(0)
    model, numbers, kind, goal = Tabular(dropout), torch.randn(64, 6), torch.randint(0, 5, (64,)), torch.randn(64)
    network = penstock.export(model, (numbers[:4], kind[:4]))
    assert [one.name for one in network.inputs] == ["numbers", "kind"]
    named = {"numbers": numbers, "kind": kind}
    ways = [(named, goal), (numbers, kind, goal), {**named, "labels": goal}, torch.utils.data.TensorDataset(numbers, kind, goal)]
    runs = [penstock.train(network, data, workers=2, batch=BATCH, steps=4) for data in ways]
    assert len({run.info.loss for run in runs}) == 1
    runs[0].load_into(model.eval())
    assert penstock.predict(runs[0], named).ravel() == pytest.approx(model(numbers, kind).detach().numpy(), abs=1e-5)


def test_buffers_and_constants_need_no_weights():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3)
            self.register_buffer("mean", torch.randn(4))
            self.register_buffer("unused", torch.randn(4))

        def forward(self, numbers):
            return self.head(self.norm((numbers - self.mean) * torch.tensor([1.0, 2.0, 3.0, 4.0])))

    torch.manual_seed(0)
    model, numbers, labels = Scaled(), torch.randn(32, 4), torch.randint(0, 3, (32,))
    run = penstock.train(penstock.export(model, numbers[:2]), (numbers, labels), workers=1, batch=8, epochs=2)
    run.load_into(model.eval())
    assert penstock.predict(run, numbers) == pytest.approx(model(numbers).detach().numpy(), abs=1e-5)
    weights = {name: value for name, value in run.weights().items() if name in model.state_dict()}
    del weights["norm.running_var"]
    with pytest.raises(KeyError, match="'norm.running_var' has no weights"):
        penstock.load(model, weights)


def test_parameters_of_five_dimensions():
    class Deep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.deep, self.head = torch.nn.Parameter(torch.randn(1, 2, 2, 3, 5)), torch.nn.Linear(60, 3)

        def forward(self, image):
            return self.head((image.reshape(-1, 2, 2, 3, 5) + self.deep).flatten(1))

    torch.manual_seed(0)
    model, image, labels = Deep(), torch.randn(16, 4, 3, 5), torch.randint(0, 3, (16,))
    run = penstock.train(penstock.export(model, image[:2]), (image, labels), workers=1, batch=8, steps=2)
    assert run.weights()["deep"].shape == (1, 2, 2, 3, 5)
    run.load_into(model)
    assert penstock.predict(run, image) == pytest.approx(model(image).detach().numpy(), abs=1e-5)


def test_torch_datasets_and_initial_weights(exported, work):
    images, labels = tensors(work)
    data = torch.utils.data.TensorDataset(images, labels)
    model, network = exported
    runs = [penstock.train(network, given, workers=1, batch=BATCH, steps=2) for given in (data, (images, labels))]
    assert runs[0].info.loss == runs[1].info.loss
    other = make()
    with torch.no_grad():
        other.head.bias += 1
    fresh = penstock.export(make(), torch.zeros(2, 1, 16, 16)).initialize(other.state_dict())
    assert penstock.predict(fresh, images) == pytest.approx(other(images).detach().numpy(), abs=1e-4)


@pytest.fixture(scope="module")
def profile(exported):
    return penstock.profile(exported[1], 8, device="fpga:vcu118")


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b", "1f1b-so", "interleaved", "hanayo", "zb-h1", "zb-h2", "zb-v"])
def test_schedules_load(profile, schedule, tmp_path):
    """PyTorch's own checks of what is loaded, and its lowering with communication."""
    from torch.distributed.pipelining import schedules

    plan = penstock.plan(profile, 2, schedule=schedule, weights="sync", micro_batches=4, method="uniform")
    (tmp_path / "schedule.csv").write_text(plan.torch_csv())

    class Stage:
        num_stages, group_size, group_rank, is_last, submod = plan.info.stages, 2, 0, False, None
        stage_index, has_backward, is_first, stage_index_to_group_rank = 0, True, True, None

    runtime = schedules._PipelineScheduleRuntime([Stage()], 4)
    runtime._load_csv(str(tmp_path / "schedule.csv"))
    owners = runtime.stage_index_to_group_rank
    assert owners == {stage: one["forward"] for stage, one in enumerate(plan.json()["stages"])}
    order = schedules._add_send_recv(runtime.pipeline_order, owners.get, plan.info.stages)
    assert schedules._simulate_comms_compute(order, owners.get, plan.info.stages)


@pytest.mark.parametrize("schedule", ["zb-v"])
def test_plan_runs_on_pytorch(profile, exported, work, schedule):
    """The losses of torch.distributed.pipelining are those of PyTorch alone, and Penstock's."""
    images, labels = tensors(work)
    plan = penstock.plan(profile, 2, schedule=schedule, weights="sync", micro_batches=4, micro_batch=8, method="uniform")
    plan.to_torch(work / schedule)
    torch.save(make().state_dict(), work / "initial.pt")
    out = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", work / schedule / "run.py",
                          "--model", f"{work / 'net.py'}:Net", "--data", work / "data.npz", "--init", work / "initial.pt",
                          "--steps", "3"], capture_output=True, text=True, timeout=300,
                         env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert out.returncode == 0, out.stderr[-3000:]
    losses = [float(line.split()[-1]) for line in out.stdout.splitlines() if line.startswith("step")]
    assert losses == pytest.approx(own_losses(make(), images, labels, 3), rel=1e-4)
    run = penstock.train(plan, (images, labels), steps=3, lr=0.05, momentum=0.9)
    assert run.steps["loss"] == pytest.approx(losses, rel=1e-4)


def test_notebook(tmp_path):
    """It runs from top to bottom, and its last cell says that PyTorch agrees."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    path = Path(os.environ.get("PENSTOCK_SOURCE", Path(__file__).parents[2])) / "python" / "notebooks" / "first_pipeline.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "PyTorch finds the same accuracy" in printed


class Shifted(torch.nn.Module):
    """A buffer that is used as it is, one that becomes another constant, and a constant."""

    def __init__(self):
        super().__init__()
        self.kinds, self.head = torch.nn.Embedding(7, 8), torch.nn.Linear(8, 7)
        self.register_buffer("places", torch.randn(5, 8))
        self.register_buffer("hidden", torch.rand(5, 8) > 0.5)

    def forward(self, ids):
        shifted = torch.tanh(self.kinds(ids) + self.places) * torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8])
        return self.head(shifted.masked_fill(self.hidden, -1.0))


def test_constants_are_the_networks_and_buffers_the_modules(tmp_path):
    torch.manual_seed(0)
    model, ids = Shifted(), torch.randint(0, 7, (16, 5))
    network = penstock.export(model, ids[:2])
    run = penstock.train(network, (ids, ids), workers=2, batch=8, steps=2, lr=0.1, out=tmp_path / "run")
    assert sorted(run.weights()) == ["head.bias", "head.weight", "kinds.weight"]
    before = model.places.clone()
    stopped = penstock.train(network, (ids, ids), workers=1, batch=8, steps=50, on_step=lambda step: True)
    for one, weights in ((run, penstock.load_weights(tmp_path / "run")), (stopped, stopped.weights())):
        assert weights["hidden"].dtype == bool
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        assert torch.equal(model.places, before)
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).item()
        assert penstock.evaluate(one, (ids, ids)).loss == pytest.approx(loss, rel=1e-5)


class Tempered(torch.nn.Module):
    """Parameters that are single numbers."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(6, 4)
        self.scale, self.shift = torch.nn.Parameter(torch.tensor(0.5)), torch.nn.Parameter(torch.tensor(-0.25))

    def forward(self, numbers):
        return torch.tanh(self.head(numbers) + self.shift) * self.scale.exp()


def test_single_numbers_are_trained():
    torch.manual_seed(0)
    model, numbers, labels = Tempered(), torch.randn(BATCH, 6), torch.randint(0, 4, (BATCH,))
    network = penstock.export(model, numbers[:2])
    run = penstock.train(network, (numbers, labels), workers=2, schedule="1f1b", weights="sync", batch=BATCH, steps=5, lr=0.05,
                         momentum=0.9)
    assert run.steps["loss"] == pytest.approx(own_losses(model, numbers, labels, 5), rel=1e-4)
    loaded = run.load_into(Tempered())
    for name, value in model.state_dict().items():
        assert run.weights()[name].shape == value.shape
        assert torch.allclose(loaded.state_dict()[name], value, rtol=1e-3, atol=1e-5), name


class Padded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = torch.nn.Embedding(9, 4, padding_idx=2), torch.nn.Linear(4, 4)
        self.places = torch.nn.Embedding(8, 4, padding_idx=1)

    def forward(self, ids):
        return self.head(torch.tanh(self.words(ids) + self.places(torch.arange(ids.shape[1])) + 0.1).mean(1))


def test_the_row_of_the_padding_stays():
    torch.manual_seed(0)
    model, ids, labels = Padded(), torch.randint(0, 5, (BATCH, 6)), torch.randint(0, 4, (BATCH,))
    network = penstock.export(model, ids[:2])
    run = penstock.train(network, (ids, labels), workers=1, weights="sync", batch=BATCH, steps=5, lr=0.05, momentum=0.9)
    assert run.steps["loss"] == pytest.approx(own_losses(model, ids, labels, 5), rel=1e-4)
    assert not run.weights()["words.weight"][2].any() and not run.weights()["places.weight"][1].any()


def test_a_norm_without_weights_has_none():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4, affine=False), torch.nn.Flatten(),
                                 torch.nn.Linear(64, 4))
    images, labels = torch.randn(BATCH, 3, 6, 6), torch.randint(0, 4, (BATCH,))
    network = penstock.export(module, images[:2])
    run = penstock.train(network, (images, labels), workers=2, batch=BATCH, steps=2, lr=0.1)
    assert sorted(run.weights()) == sorted(name for name in module.state_dict() if name != "1.num_batches_tracked")
    run.load_into(module)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(module.eval()(images), labels).item()
    assert penstock.evaluate(run, (images, labels)).loss == pytest.approx(loss, rel=1e-4)


class Film(torch.nn.Module):
    """Pictures one after the other: a convolution of each, and recurrent layers along rows and along time."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.see = nn.Sequential(nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(4, 4, (3, 1), padding=(1, 0)), nn.Tanh(), nn.AvgPool2d(2, 1))
        self.turn = nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.rows = nn.GRU(8, 5, batch_first=True)
        self.remember = nn.LSTM(5, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, film):
        samples, pictures = film.shape[:2]
        seen = self.turn(self.see(film.flatten(0, 1)))
        seen = torch.nn.functional.interpolate(seen, scale_factor=2)
        rows = self.rows(seen.permute(0, 2, 1, 3).flatten(2)[:, :, :8])[0][:, -1]
        return self.head(self.remember(rows.reshape(samples, pictures, 5))[0][:, -1])


@pytest.mark.parametrize("dynamo", [True, False])
def test_several_pictures_of_a_sample(dynamo, tmp_path):
    torch.manual_seed(0)
    model, film, labels = Film(), torch.randn(8, 3, 2, 16, 12), torch.randint(0, 3, (8,))
    torch.onnx.export(model, (film[:2],), str(tmp_path / "film.onnx"), input_names=["film"],
                      **(dict(dynamo=True, optimize=False) if dynamo else dict(
                          dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)))
    network = penstock.Network(str(tmp_path / "film.onnx"))
    run = penstock.train(network, (film, labels), batch=8, steps=4, lr=0.05, momentum=0.9)
    split = penstock.train(network, (film, labels), workers=2, schedule="1f1b", weights="sync", micro_batches=1, batch=8, steps=4,
                           lr=0.05, momentum=0.9)
    assert run.steps["loss"] == pytest.approx(own_losses(model, film, labels, 4), rel=1e-4)
    assert list(run.steps["loss"]) == list(split.steps["loss"])


class Pair(torch.nn.Module):
    """One network for both pictures, which ends in a layer of a picture that was made a vector."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.see = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, pair):
        return self.head((self.see(pair[:, :1]) - self.see(pair[:, 1:])).abs())


def test_shared_layers_of_flattened_pictures():
    torch.manual_seed(0)
    model, pairs, labels = Pair(), torch.randn(8, 2, 8, 8), torch.randint(0, 3, (8,))
    run = penstock.train(penstock.export(model, pairs[:2]), (pairs, labels), batch=8, steps=4, lr=0.05, momentum=0.9)
    assert run.steps["loss"] == pytest.approx(own_losses(model, pairs, labels, 4), rel=1e-4)
