"""The package with NumPy alone: profile, plan, simulate, train with callbacks, weights, errors, signals."""

import copy
import gc
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy
import pytest

import penstock

BOARD = "fpga:vcu118"  # costs that are worked out: nothing is measured


def images(count, seed, classes=4, side=16, channels=1):
    """Pictures with a bright quarter, which is the class."""
    draw = numpy.random.default_rng(seed)
    labels = draw.integers(0, classes, count)
    pictures = draw.normal(0, 0.3, (count, channels, side, side)).astype(numpy.float32)
    for picture, label in zip(pictures, labels):
        row, column = side // 2 * (label // 2), side // 2 * (label % 2)
        picture[:, row:row + side // 2, column:column + side // 2] += 1
    return pictures, labels


@pytest.fixture(scope="module")
def network():
    return penstock.Network("lenet5,input=16,classes=4")


@pytest.fixture(scope="module")
def profile(network):
    return penstock.profile(network, [4, 8], device=BOARD)


@pytest.fixture(scope="module")
def plan(profile):
    return penstock.plan(profile, 2, schedule="1f1b", weights="sync", micro_batch=8, micro_batches=4)


def test_network(network):
    assert network.info.classes == 4 and network.info.layers == len(network.layers)
    assert network.inputs[0].shape == (1, 16, 16) and network.inputs[0].type == "f32"
    assert sum(layer.parameters for layer in network.layers) == network.info.parameters


def test_profile(profile, tmp_path):
    costs = profile.costs()
    assert sorted(costs) == [4, 8] and costs[4]["name"][0] == "conv1"
    assert (costs[8]["forward_s"] > costs[4]["forward_s"]).any()
    profile.write(tmp_path / "profile.json")
    assert penstock.Profile(tmp_path / "profile.json").costs()[4]["forward_s"].tolist() == costs[4]["forward_s"].tolist()
    document = json.loads((tmp_path / "profile.json").read_text())
    document["costs"][0]["layers"][1]["output_i32"] = 5  # said of one layer, and not of the first
    (tmp_path / "profile.json").write_text(json.dumps(document))
    numbers = penstock.Profile(tmp_path / "profile.json").costs()[4]["output_i32"]
    assert numbers[1] == 5 and numpy.isnan(numbers[0])


def test_plan_and_simulation(plan, tmp_path):
    assert plan.info.stages == 2 and plan.info.schedule == "1f1b" and "worker" in str(plan)
    assert plan.torch_csv().splitlines()[0].startswith("0F0,")
    simulation = penstock.simulate(plan, batches=3)
    info, events = simulation.info, simulation.events
    assert info.batches == 3 and simulation.workers.shape == (2,)
    assert simulation.workers["busy_s"].sum() == pytest.approx((1 - info.bubble) * info.makespan_s * 2)
    assert (events["op"] == "F").sum() == 2 * 4 * 3
    assert events["end_s"].max() == pytest.approx(info.makespan_s, rel=1e-3)
    assert simulation._repr_svg_().startswith("<svg") or "<svg" in simulation._repr_svg_()
    plan.write(tmp_path / "plan.json")
    again = penstock.Plan(tmp_path / "plan.json", plan.profile)
    assert penstock.simulate(again, batches=3).info == info


def test_errors_have_status_line_and_hint(profile):
    with pytest.raises(penstock.UsageError) as caught:
        penstock.plan(profile, 2, schedule="1f1c")
    assert caught.value.status == penstock.Status.USAGE
    assert caught.value.message == "schedule: '1f1c' is not known; did you mean '1f1b'?"
    assert caught.value.hint.startswith("known: ")
    with pytest.raises(penstock.NoPlanError, match="stage 0 .* needs"):
        penstock.plan(profile, 2, memory_bytes=1000)
    with pytest.raises(penstock.BadInputError, match="nowhere.json"):
        penstock.Plan("nowhere.json")
    with pytest.raises(ValueError):  # as other packages' users expect
        penstock.Network("lenet6")
    with pytest.raises(penstock.BadInputError, match="^weights: parameter 'conv1.bias': its values have shape 2"):
        penstock.Network("lenet5").initialize({"conv1.bias": numpy.zeros(2)})
    with pytest.raises(TypeError, match="no option 'shedule'; did you mean 'schedule'"):
        penstock.plan(profile, 2, shedule="1f1b")
    with pytest.raises(TypeError, match="no option 'learning_rate'; there are .*micro_batch, "):
        penstock.plan(profile, 2, learning_rate=1)
    with pytest.raises(TypeError, match="schedule: a text is wanted, not list"):
        penstock.plan(profile, 2, schedule=["1f1b"])
    with pytest.raises(penstock.UsageError, match="schedule: '1' is not known"):  # and no address of a text
        penstock.plan(profile, 2, schedule=1)
    with pytest.raises(penstock.UsageError, match="1f1b-async: weights are updated"):
        penstock.plan(profile, 2, schedule="1f1b-async").torch_csv()


def test_train_and_weights_back(plan, network):
    points, steps = [], []
    run = penstock.train(plan, images(256, 1), images(64, 2), epochs=6, lr=0.1, on_epoch=points.append, on_step=steps.append)
    assert run.info.steps == 48 == len(steps) == len(run.steps) and run.steps["step"].tolist() == list(range(1, 49))
    assert [point.epoch for point in points] == run.points["epoch"].tolist() == [1, 2, 3, 4, 5, 6]
    assert run.info.valid_accuracy == points[-1].valid_accuracy > 0.9
    weights = run.weights()
    assert weights["conv1.weight"].shape == (6, 1, 5, 5)
    assert sum(array.size for array in weights.values()) == network.info.parameters
    found = penstock.evaluate(run, images(64, 2))
    assert found.accuracy == points[-1].valid_accuracy and found.samples == 64
    pictures, labels = images(64, 2)
    outputs = penstock.predict(run, pictures)
    assert outputs.shape == (64, 4) and (outputs.argmax(1) == labels).mean() == pytest.approx(found.accuracy)
    other = penstock.Network("lenet5,input=16,classes=4").initialize(weights)
    assert penstock.evaluate(other, (pictures, labels)).loss == found.loss


def test_runs_are_copied_and_other_objects_refuse(plan, network):
    for one in network, plan, plan.profile, plan.cluster, penstock.Dataset("synthetic:images", network):
        for way in copy.copy, copy.deepcopy, pickle.dumps:
            with pytest.raises(TypeError, match=f"^a {type(one).__name__} is an object of the library's, and cannot be copied"):
                way(one)
    run = penstock.train(plan, images(64, 1), steps=2)
    loss = penstock.evaluate(run, images(64, 2)).loss
    for again in copy.copy(run), copy.deepcopy(run), pickle.loads(pickle.dumps(run)):
        assert penstock.evaluate(again, images(64, 2)).loss == loss and again.network is not run.network
        assert repr(again) == repr(run) and again.steps.tolist() == run.steps.tolist()
    del again
    assert run.network.info == network.info


def test_keywords_describe_the_machines_of_a_plan(plan):
    def took_s(**keywords):
        return penstock.train(plan, images(64, 1), steps=1, emulate=True, **keywords).points["training_s"][-1]

    slow = penstock.Cluster(workers=2, latency_s=0.1)
    for said in {"latency_s": 0.1}, {"latency_s": 0.1, "workers": 2}, {"cluster": slow}:
        assert took_s(**said) > 0.2  # there and back
    with pytest.raises(penstock.UsageError, match="`workers`: the plan is for 2 workers, not 4"):
        took_s(workers=4)
    for said in {"workers": 2}, {"bandwidth_bytes_per_s": 1e9}, {"memory_bytes": 2**30}:
        with pytest.raises(TypeError, match="a cluster says its workers and links itself"):
            took_s(cluster=slow, **said)


def test_texts_are_numbered_as_in_training(tmp_path):
    draw = numpy.random.default_rng(0)
    for name, letters in ("train", "abcdefgh "), ("test", "hgf "):
        (tmp_path / name).write_text("".join(draw.choice(list(letters), 2000)))
    data = f"text:{tmp_path}/train", f"text:{tmp_path}/test"
    run = penstock.train("gpt2,layers=1,width=16,heads=2,seq=8,vocab=13", *data, workers=1, batch=8, steps=20, evaluate_every=10,
                         out=tmp_path / "run", on_epoch=lambda point: point.step == 10)
    assert run.info.steps == 10 and penstock.evaluate(run, data[1]).loss == pytest.approx(run.info.valid_loss)
    outputs = penstock.predict(run, data[1])
    penstock.train(None, *data, resume=tmp_path / "run")  # its directory goes on, the run does not
    assert numpy.array_equal(penstock.predict(run, data[1]), outputs)


@pytest.mark.parametrize("length", [{"epochs": 3}, {"epochs": 3, "evaluate_every": 3}, {"steps": 11, "evaluate_every": 6},
                                    {"steps": 11, "evaluate_every": 100}, {"epochs": 2, "evaluate_every": -1}])
def test_observers_change_nothing(profile, length):
    """With weights that are not synchronous the same numbers come out with observers and without, also of a plan that promises
    so slow a training that a run with a directory would have more checkpoints."""
    plan = penstock.plan(profile, 3, schedule="1f1b-async", weights="stash", micro_batch=8, method="uniform", bandwidth_bytes_per_s=10)
    data = images(32, 1)
    runs = [penstock.train(plan, data, data, lr=0.1, **length, **watch)
            for watch in ({}, {"on_epoch": lambda _: None}, {"on_step": lambda _: None})]
    for run in runs[1:]:
        assert run.points["step"].tolist() == runs[0].points["step"].tolist()
        for name, array in runs[0].weights().items():
            assert numpy.array_equal(array, run.weights()[name])


def test_callbacks_may_stop(plan, tmp_path):
    run = penstock.train(plan, images(64, 1), epochs=50, on_epoch=lambda point: point.epoch == 2)
    assert not run.stopped and run.info.steps == 4 and len(run.points) == 2
    for every, steps in (1, 1), (3, 2), (100, 2):  # two steps are an epoch
        run = penstock.train(plan, images(64, 1), images(64, 1), epochs=3, evaluate_every=every, on_epoch=lambda _: True)
        assert run.info.steps == steps
    run = penstock.train(plan, images(64, 1), epochs=50, on_epoch=lambda point: numpy.float64(point.epoch) == 2)  # NumPy's True
    assert run.info.steps == 4
    run = penstock.train(plan, images(64, 1), epochs=2000, on_step=lambda step: numpy.float64(step.step) == 3)
    assert run.stopped and 3 <= len(run.steps) < 4000 and "conv1.weight" in run.weights() and run.directory is None
    run = penstock.train(plan, images(64, 1), epochs=2000, out=tmp_path / "run", on_step=lambda step: step.step == 3)
    assert run.stopped and run.directory == tmp_path / "run"
    assert set(penstock.load_weights(tmp_path / "run")) == set(run.weights())


def test_a_run_goes_on(plan, network, tmp_path):
    def end(step):
        return step.step == 5

    penstock.train(plan, images(64, 1), epochs=20, out=tmp_path / "run", on_step=end)
    run = penstock.train(network, images(64, 1), resume=tmp_path / "run", on_epoch=lambda point: point.epoch >= 12)
    assert run.info.epochs == 12 and run.info.steps == 24
    run = penstock.train(None, images(64, 1), resume=tmp_path / "run", epochs=13)
    assert run.info.epochs == 13 and run.network.info.hash == network.info.hash
    data = images(64, 1), images(64, 1)
    run = penstock.train(None, *data, resume=tmp_path / "run", epochs=20, evaluate_every=1, on_epoch=lambda _: True)
    assert run.info.steps == 27
    run = penstock.train(None, *data, resume=tmp_path / "run", on_epoch=lambda point: point.step >= 29)
    assert run.info.steps == 29  # it still evaluates after each step
    (tmp_path / "run" / "network.json").unlink()  # as in older runs
    run = penstock.train(None, *data, resume=tmp_path / "run", epochs=15)
    assert run.info.epochs == 15 and run.network.info.hash == network.info.hash
    with pytest.raises(penstock.NoCheckpointError):
        penstock.train(None, resume=tmp_path / "nowhere")


def test_exceptions_of_callbacks_are_raised(plan):
    def fail(step):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        penstock.train(plan, images(64, 1), epochs=2000, on_step=fail)

    data = images(32, 1)
    for watch in {"on_step": fail}, {"on_epoch": fail}:  # at the very end, too
        with pytest.raises(LookupError, match="mine"):
            penstock.train(plan, data, data, epochs=1, **watch)
    with penstock.Trainer(plan, data, epochs=1, on_step=fail) as trainer:
        with pytest.raises(LookupError, match="mine"):
            trainer.step()

    class Broken:
        def __len__(self):
            return 64

        def __getitem__(self, index):
            raise LookupError(f"no item {index}")

    with pytest.raises(LookupError, match="no item") as caught:
        penstock.train(plan, Broken(), epochs=1)
    assert "sample" in str(caught.value.__cause__)


def test_exceptions_of_data_are_raised_once(plan, network):
    pictures, labels = images(64, 1)

    class Items:
        fails = False

        def __len__(self):
            return 64

        def __getitem__(self, index):
            if self.fails and index == 5:
                raise LookupError("mine")
            return pictures[index], labels[index]

    items = Items()
    data = penstock.as_dataset(items, network)
    run = penstock.train(plan, data, steps=1)
    for use in (lambda: penstock.train(plan, data, epochs=1), lambda: penstock.evaluate(run, data),
                lambda: penstock.predict(run, data)):
        items.fails = True
        with pytest.raises(LookupError, match="mine") as caught:
            use()
        assert str(caught.value.__cause__).count("sample 5") == 1
        items.fails = False
        with pytest.raises(penstock.UsageError, match="optimizer"):
            penstock.train(network, data, optimizer="none such")
        use()
    items.fails = True
    with penstock.Trainer(plan, (pictures, labels), steps=2) as trainer:
        with pytest.raises(LookupError, match="mine"):
            trainer.evaluate(data)


def test_data_go_when_the_training_is_over(plan, network):
    gc.disable()
    try:
        for watch in {}, {"on_step": lambda _: True}, {"on_epoch": lambda _: True}:
            data = penstock.as_dataset(images(64, 1), network)
            gone = weakref.ref(data)
            penstock.train(plan, data, epochs=100, **watch)
            del data
            assert gone() is None
    finally:
        gc.enable()


def test_data_are_held_against_the_network(plan):
    pictures, labels = images(64, 1)
    with pytest.raises(ValueError, match=r"data: a sample has the shape \(16, 8\)"):
        penstock.train(plan, (pictures[:, 0, :, :8], labels), epochs=1)
    for given in (16, 2, 8), (256,), (8, 32), ():  # as many numbers are not enough
        with pytest.raises(ValueError, match=r"data: a sample has the shape .*; the network takes \(1, 16, 16\)"):
            penstock.train(plan, (pictures.reshape(64, *given) if given else pictures[0, 0, 0, 0], labels), epochs=1)
    with pytest.raises(ValueError, match="63 labels"):
        penstock.train(plan, (pictures, labels[:63]), epochs=1)
    with pytest.raises(TypeError, match="whole numbers"):
        penstock.train(plan, (pictures, labels.astype(float)), epochs=1)
    with pytest.raises(ValueError, match="'data' is missing; the network takes data, and there are picture, labels"):
        penstock.train(plan, {"picture": pictures, "labels": labels}, epochs=1)
    with pytest.raises(ValueError, match="3 values; the network takes data and behind them labels"):
        penstock.train(plan, (pictures, pictures, labels), epochs=1)

    class Loader:
        dataset = pictures, labels

        def __iter__(self):
            return iter(())

    with pytest.raises(TypeError, match="not Loader; give the loader's dataset"):
        penstock.train(plan, Loader(), epochs=1)
    for without in pictures, {"data": pictures}:
        with pytest.raises(ValueError, match="labels are missing"):
            penstock.train(plan, without, epochs=1)
        with pytest.raises(ValueError, match="labels are missing"):
            penstock.evaluate(penstock.Network(plan.info.model), without)


@pytest.mark.parametrize("shape, given", [((2, 2, 3), (2, 2, 3)), ((2, 2, 3), (2, 3, 2)), ((2, 2, 3), (1, 2, 2, 1, 3)),
                                          ((3, 3, 3), (3, 3, 3)), ((3, 4, 1), (3, 4)), ((3, 4, 1), (4, 3)),
                                          ((4, 4, 1), (4, 4)), ((4, 4, 1), (4, 4, 1)), ((4, 4, 1), (4, 1, 4)),
                                          ((1, 4, 4), (4, 4)), ((4, 1, 1), (4,))])
def test_sides_stand_in_the_orders_of_files(shape, given, tmp_path):
    """Arrays are what they are in an .npz file."""
    file = {"format": "penstock-network", "version": 1, "name": "n", "inputs": [{"name": "x", "shape": shape}],
            "nodes": [{"name": "flat", "operator": "flatten"}, {"name": "last", "operator": "linear", "channels": 5},
                      {"name": "loss", "operator": "cross_entropy"}]}
    (tmp_path / "n.json").write_text(json.dumps(file))
    draw = numpy.random.default_rng(0)
    sides, labels = draw.normal(0, 1, (8, *given)).astype("f"), draw.integers(0, 5, 8)
    numpy.savez(tmp_path / "data.npz", x=sides, labels=labels)
    weights = {"last.weight": draw.normal(0, 1, (5, numpy.prod(shape))).astype("f"), "last.bias": numpy.zeros(5, "f")}
    network = penstock.Network(tmp_path / "n.json").initialize(weights)
    for data in (sides, labels), list(zip(sides, labels)):
        assert penstock.evaluate(network, data).loss == penstock.evaluate(network, f"npz:{tmp_path}/data.npz").loss


def test_nothing_is_cut_to_what_c_can_hold(profile, network):
    pictures, labels = images(8, 1)
    ints, nul = "is not from -2147483648 to 2147483647", "has a NUL character"
    for name, value, said in (("steps", 2**32 + 2, ints), ("batch", -2**40, ints), ("seed", -1, "is not from 0 to 18446744073709551615"),
                              ("seed", 2**64, "is not from 0 to"), ("out", "a\0b", nul), ("resume", "\0", nul), ("device", "cpu\0x", nul)):
        with pytest.raises(ValueError, match=f"^{name}: {re.escape(repr(value))} {said}"):
            penstock.train(network, (pictures, labels), workers=1, **{"steps": 1, "batch": 8, name: value})
    with pytest.raises(TypeError, match="steps: a whole number is wanted, not float"):
        penstock.train(network, (pictures, labels), steps=2.5)
    seeds = [penstock.train(network, (pictures, labels), workers=1, steps=1, batch=8, seed=seed).info.loss
             for seed in (2**64 - 1, numpy.uint64(2**64 - 1))]
    assert seeds[0] == seeds[1]
    for wrong in labels + 2**32, labels.astype("u4") + 2**31:
        with pytest.raises(ValueError, match="labels: .* is not from -2147483648 to 2147483647"):
            penstock.train(network, (pictures, wrong), steps=1)
    with pytest.raises(ValueError, match="NUL"):
        penstock.Network("lenet5\0,input=16")
    with pytest.raises(ValueError, match="micro_batch: 4294967304 is not"):
        penstock.profile(network, [8, 2**32 + 8], device=BOARD)
    with pytest.raises(ValueError, match="workers: 4294967298 is not"):
        penstock.plan(profile, 2**32 + 2)
    with pytest.raises(ValueError, match="batches: 4294967297 is not"):
        penstock.simulate(penstock.plan(profile, 2), batches=2**32 + 1)
    with penstock.Trainer(network, (pictures, labels), workers=1, steps=1, batch=8) as trainer:
        with pytest.raises(ValueError, match="steps: .* is not"):
            trainer.step(2**64 + 1)


def test_items_and_specs_are_data(plan):
    pictures, labels = images(64, 1, channels=1)

    class Items:
        def __len__(self):
            return 64

        def __getitem__(self, index):
            return pictures[index], labels[index]

    runs = [penstock.train(plan, data, epochs=2, lr=0.05) for data in (Items(), (pictures, labels))]
    assert runs[0].info.loss == runs[1].info.loss
    assert penstock.train(plan, "synthetic:images,samples=64", steps=2).info.steps == 2


def test_colours_are_in_their_places():
    """A first layer that reads one channel alone finds it there."""
    network = penstock.Network("lenet5,input=16,channels=3,classes=4")
    pictures, labels = images(8, 3, channels=3)
    weights = dict(penstock.train(network, (pictures, labels), workers=1, steps=1, batch=8, lr=1e-9).weights())
    outputs = penstock.predict(network.initialize(weights), pictures)
    pictures[:, 1] = 7
    weights["conv1.weight"][:, 1] = 0
    changed = penstock.predict(penstock.Network("lenet5,input=16,channels=3,classes=4").initialize(weights), pictures)
    pictures[:, 1] = -7
    again = penstock.predict(penstock.Network("lenet5,input=16,channels=3,classes=4").initialize(weights), pictures)
    assert numpy.array_equal(changed, again) and not numpy.array_equal(outputs, changed)


def test_trainer_is_stepped(plan, tmp_path):
    with penstock.Trainer(plan, images(64, 1), steps=20, lr=0.05) as trainer:
        assert trainer.step(4).step == 4
        before = trainer.weights()["conv1.weight"]
        assert trainer.evaluate(images(32, 2)).samples == 32
        trainer.save(tmp_path / "run")
        trainer.step()
        assert not numpy.array_equal(before, trainer.weights()["conv1.weight"])
        run = trainer.finish()
        for use in (lambda: trainer.info), trainer.step, trainer.weights, trainer.finish:
            with pytest.raises(penstock.UsageError, match="^the Trainer is closed$"):
                use()
    assert run.info.steps == 5 and numpy.array_equal(before, penstock.load_weights(tmp_path / "run")["conv1.weight"])


def test_other_threads_run_meanwhile(plan):
    """The interpreter's lock is free while the library works."""
    counted = []
    done = threading.Event()

    def count():
        while not done.is_set():
            counted.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    with penstock.Trainer(plan, images(64, 1), steps=100, lr=0.01) as trainer:
        before = len(counted)
        trainer.step(100)
        during = len(counted) - before
    done.set()
    assert during > 0


SCRIPT = """
import sys, time, numpy, penstock
sys.stdout.reconfigure(line_buffering=True)
{setup}
try:
    {work}
except KeyboardInterrupt:
    print("interrupted")
time.sleep(0.3)  # the call goes on, and finds what it reads
sys.exit(3)
"""
ITEMS = """
class Items:
    def __len__(self):
        return 10**4

    def __getitem__(self, index):
        if index == 8:
            print("begun")
        time.sleep(0.001)
        return numpy.zeros((1, 16, 16), "f"), 0

run = penstock.train("lenet5,input=16,classes=4", "synthetic:images,samples=8", workers=1, steps=1, batch=8)
"""


@pytest.mark.parametrize("setup, work", [
    ("", "penstock.train('lenet5', 'synthetic:images', workers=2, steps=10**8, on_step=lambda s: print('begun') if s.step == 3 "
         "else None)"),
    ("print('begun')", "penstock.profile('lenet5', 64, repeats=1000)"),
    (ITEMS, "penstock.evaluate(run, Items(), batch=4)"), (ITEMS, "penstock.predict(run, Items(), batch=4)"),
    (ITEMS, "penstock.Trainer(run.network, 'synthetic:images', workers=1, steps=9, batch=4).evaluate(Items())")],
    ids=["train", "profile", "evaluate", "predict", "trainer"])
def test_interrupt(setup, work):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(setup=setup, work=work)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().endswith("interrupted\n")
        # A call that goes on does not find its libraries gone meanwhile, whatever the status.
        assert process.wait(60) == 3
    finally:
        process.kill()
        process.wait()


def test_tables():
    assert {"1f1b", "zb-v"} <= set(penstock.tables()["schedules"]) and "pipeoptim" in penstock.tables()["policies"]


@pytest.mark.skipif(shutil.which("mpirun") is None or not os.environ.get("PENSTOCK_TEST_MPI"), reason="no MPI in the library")
def test_ranks_of_mpi(tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text("import penstock\n"
                      "run = penstock.train('lenet5', 'synthetic:images,samples=128', workers=2, epochs=9, batch=32,\n"
                      "                     on_epoch=lambda point: point.epoch == 2)\n"
                      "print(f'steps {run.info.steps}, {len(run.points)} points, {len(run.weights())} weights\\n', end='')\n")
    # Open MPI asks for these where it is root's, and where ranks are more than cores; MPICH has no such options.
    allowed = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"), "1")
    out = subprocess.run(["mpirun", "-n", "2", sys.executable, script], text=True, capture_output=True, timeout=200,
                         env=os.environ | allowed | {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"})
    assert out.returncode == 0, out.stderr  # both ranks know that the training is to end
    # Each in one piece: ranks share the output.
    assert "steps 8, 2 points, 10 weights\n" in out.stdout and "0 points, 0 weights\n" in out.stdout
