"""Training, evaluation and prediction."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy

from . import _weights
from ._abi import constants, lib, structs
from ._call import Error, StoppedError, call, create, encode, fill, get, interruptible, options, values, whole
from ._data import Dataset, as_dataset, cause_of
from ._objects import Array, Cluster, Network, Object, PathLike, Plan, PlanOptions, Profile, as_network, machines_said, records

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TrainOptions(PlanOptions, total=False):
    """Options of ``train``, as ``struct ps_train_options`` has them; and those of a plan and of alike machines, where no plan is
    given."""

    workers: int
    epochs: int
    steps: int
    evaluate_every: int
    valid_bleu: int
    lengths: str
    lr: float
    momentum: float
    dampening: float
    weight_decay: float
    beta1: float
    beta2: float
    eps: float
    lr_schedule: str
    warmup_steps: int
    lr_per_epoch: bool
    clip: float
    label_smoothing: float
    decay_exclude: str
    groups: str
    device: str
    transport: str
    threads: int
    emulate: bool
    seed: int
    trace: bool
    checkpoint_every: int
    checkpoint_minutes: float
    keep_best: bool
    best_by: str
    patience: int
    keep_checkpoints: int
    tensorboard: bool
    profile_cache: str


@dataclass(frozen=True)
class Step:
    """A mini-batch: number ``step`` of ``steps``, counted from 1."""

    step: int
    steps: int
    epoch: int
    loss: float
    accuracy: float
    lr: float


@dataclass(frozen=True)
class Point:
    """An evaluation, or the end of an epoch; what was not measured is NaN."""

    step: int
    epoch: int
    loss: float
    accuracy: float
    valid_loss: float
    valid_accuracy: float
    valid_perplexity: float
    valid_bleu: float
    training_s: float


@dataclass(frozen=True)
class TrainerInfo:
    """How far a trainer is."""

    step: int
    steps: int
    epoch_steps: int
    batch: int
    workers: int
    parameters: int
    loss: float
    accuracy: float
    to_evaluation: int
    rank: int
    asked: bool


@dataclass(frozen=True)
class RunInfo:
    """What a training came to; what was not measured is NaN."""

    workers: int
    steps: int
    epochs: int
    loss: float
    accuracy: float
    valid_loss: float
    valid_accuracy: float
    perplexity: float
    valid_perplexity: float
    wall_s: float
    samples_per_s: float
    predicted_samples_per_s: float
    checkpoint_stall_s: float
    top5: float
    valid_top5: float
    valid_bleu: float
    best: float
    best_step: int
    ended_early: bool


@dataclass(frozen=True)
class Evaluation:
    """Loss and metrics on some data; what was not measured is NaN."""

    loss: float
    accuracy: float
    perplexity: float
    bleu: float
    samples: int
    top5: float


_Result = TypeVar("_Result")
OnStep = Callable[[Step], "bool | numpy.bool_ | None"]
OnEpoch = Callable[[Point], "bool | numpy.bool_ | None"]


class Run:
    """What a training came to.

    ``info`` is None where a callback ended it within an epoch. ``steps`` and ``points`` are structured arrays with a line for
    each mini-batch (``step``, ``loss``, ``accuracy``, ``lr``...) and for each evaluation (``epoch``, ``valid_loss``...).
    ``directory`` is the run directory, where there is one. A run may be copied and pickled, with its network and its weights.
    """

    def __init__(self, network: Network, info: RunInfo | None, steps: Array, points: Array, workers: Array | None,
                 weights: dict[str, Array], directory: Path | None) -> None:
        self.network = network
        self.info = info
        self.steps = steps
        self.points = points
        self.workers = workers
        self.directory = directory
        self._weights = weights

    @property
    def stopped(self) -> bool:
        """Whether a callback ended it within an epoch."""
        return self.info is None

    def weights(self) -> dict[str, Array]:
        """The trained parameters, and running statistics, by the names that PyTorch has for them."""
        return dict(self._weights)

    def load_into(self, model: Any) -> Any:
        """Gives a module of PyTorch's the trained weights, and returns it. Constants of the network are left out: the module has
        them as buffers, or within its computation."""
        from ._torch import load

        nodes = json.loads(self.network._files()["network.json"])["nodes"]
        constants = {node["name"] for node in nodes if not node.get("trained", True)}
        return load(model, {name: value for name, value in self._weights.items() if name.rpartition(".")[0] not in constants})

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "network": self.network._files()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, network=Network._of_files(state["network"]))

    def __repr__(self) -> str:
        return f"Run({self.info or 'stopped'})"


class _Results(Object):
    _destroy = "ps_run_destroy"


def _under_mpi(transport: Any) -> bool:
    return transport == "mpi" or any(name in os.environ for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"))


def _kept_network(directory: Path) -> Network | None:
    """That of a run directory. Older runs keep none, but the name of a built-in one."""
    if (directory / "network.json").exists():
        return Network(directory / "network.json")
    return Network(Plan(directory / "plan.json").info.model) if (directory / "plan.json").exists() else None


def _asks(returned: object) -> bool:
    """Whether a callback returned True, its own or NumPy's; other values, as of ``list.append`` and ``print``, ask for nothing."""
    return isinstance(returned, (bool, numpy.bool_)) and bool(returned)


class Trainer(Object):
    """A training that is stepped: ``step``, ``evaluate``, ``weights``, ``save``, and at the end ``finish``. ``train`` is these
    calls in a row. May be used in ``with``."""

    _destroy = "ps_trainer_destroy"

    def __init__(self, what: Network | Plan | Profile | PathLike | None, data: Any = None, valid: Any = None, *,
                 cluster: Cluster | None = None, out: PathLike | None = None, resume: PathLike | None = None,
                 on_step: OnStep | None = None, on_epoch: OnEpoch | None = None, **keywords: Unpack[TrainOptions]) -> None:
        made, planning = options("ps_train_options"), options("ps_plan_options")
        machines = options("ps_cluster_options")
        fill(keywords, made, planning, machines)
        plan = what if isinstance(what, Plan) else None
        profile = plan.profile if plan is not None else what if isinstance(what, Profile) else None
        network = profile.network if profile is not None else None
        if network is None:
            if plan is not None:
                network = Network(plan.info.model)
            elif profile is not None:
                network = Network(profile.model)
            elif what is not None:
                network = as_network(what)  # type: ignore[arg-type]
        given_network = network
        if network is None and resume is not None:
            network = _kept_network(Path(resume))
        #: The network that is trained.
        self.network = network
        workers = keywords.get("workers")
        said = machines_said(keywords, workers, cluster)
        if plan is not None:
            # Of another number of workers the library says that the plan is not for them.
            machines.workers = workers or plan.info.workers
            cluster = cluster or (plan.cluster if not said and machines.workers == plan.info.workers else None)
        datasets: list[Dataset | None] = [None, None]
        for i, (given, part) in enumerate(((data, None), (valid, "test"))):
            if given is not None:
                if network is None and not isinstance(given, (str, Dataset)):
                    raise TypeError("arrays need the network: give it, or a run's directory to resume")
                datasets[i] = as_dataset(given, network, part=part, labelled=True) if network is not None else \
                    given if isinstance(given, Dataset) else Dataset(given, part=part)
        self._failures: list[BaseException] = []
        self._interrupted: int | None = None
        self._steps: list[Step] = []
        self._points: list[Point] = []
        self._callbacks = on_step, on_epoch
        self._datasets = datasets
        #: Where the training leaves its checkpoints.
        self.directory = Path(directory) if (directory := out if out is not None else resume) is not None else None
        for dataset in datasets:
            if dataset is not None:
                dataset.failures.clear()
        observer = self._observer()
        for name, value in (("plan", plan), ("profile", profile), ("cluster", cluster), ("network", given_network),
                            ("data", datasets[0]), ("valid", datasets[1])):
            setattr(made, name, value.address if value is not None else None)
        made.planning, made.machines = ctypes.pointer(planning), ctypes.pointer(machines)
        made.out, made.resume = encode(out, "out"), encode(resume, "resume")
        made.observer = ctypes.pointer(observer)
        keep = (made, planning, machines, observer, plan, profile, cluster, network, datasets)
        try:
            if _under_mpi(keywords.get("transport")):
                address = create(lib.ps_trainer_create, ctypes.byref(made))
            else:
                address = interruptible(lambda: create(lib.ps_trainer_create, ctypes.byref(made)), lib.ps_trainer_destroy, *keep)
        except Error as failure:
            raise self._cause(failure)
        super().__init__(address, *keep)
        self._rank = self.info.rank

    def _observer(self) -> Any:
        kind = structs["ps_observer"]
        types: dict[str, Any] = dict(kind._fields_)

        def guarded(work: Callable[[Any], bool]) -> Callable[[Any, Any], int]:
            def watch(_context: int | None, of: Any) -> int:
                try:
                    return int(work(of.contents))
                except BaseException as failure:
                    self._failures.append(failure)
                    return 1

            return watch

        def step(of: Any) -> bool:
            self._steps.append(values(of, Step))
            callback = self._callbacks[0]
            return callback is not None and _asks(callback(self._steps[-1]))

        def point(of: Any) -> bool:
            self._points.append(values(of, Point))
            callback = self._callbacks[1]
            return callback is not None and _asks(callback(self._points[-1]))

        observer = kind(struct_size=ctypes.sizeof(kind))
        observer.step = types["step"](guarded(step))
        observer.point = types["point"](guarded(point))
        observer.should_stop = types["should_stop"](lambda _context: int(self._interrupted is not None))
        return observer

    def _cause(self, failure: Error, *others: Dataset | None) -> BaseException:
        datasets = (dataset for dataset in (*self._datasets, *others) if dataset is not None)
        return cause_of(failure, self._failures, *(dataset.failures for dataset in datasets))

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Meanwhile Ctrl-C lets the training end as it should, and then does what it would have done."""
        previous = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(previous):
            yield
            return

        def note(number: int, _frame: Any) -> None:
            self._interrupted = number

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)
            number, self._interrupted = self._interrupted, None
            if number is not None:
                previous(number, None)

    @contextlib.contextmanager
    def _watched(self, *others: Dataset | None) -> Iterator[None]:
        """A call in which the caller's functions are called, those of other datasets, too: raises what went wrong in them, even
        if the training came to its end before that could stop it."""
        try:
            with self._signals():
                yield
        except Error as failure:
            raise self._cause(failure, *others)
        if self._failures:
            first = self._failures[0]
            self._failures.clear()
            raise first

    @property
    def info(self) -> TrainerInfo:
        """How far it is."""
        return values(get("ps_trainer_info", self.address), TrainerInfo)

    def step(self, steps: int = 1) -> TrainerInfo:
        """Trains so many mini-batches, after which the pipeline is empty. With weights other than "sync" this changes the
        numbers: see ``ps_trainer_step`` in the header."""
        with self._watched():
            call(lib.ps_trainer_step, self.address, whole("steps", steps, ctypes.c_int64))
        return self.info

    def evaluate(self, data: Any = None) -> Evaluation:
        """The newest weights on these data, or on those for validation."""
        dataset = None if data is None else as_dataset(data, self._own_network(), part="test", labelled=True)
        found = structs["ps_evaluation"]()
        with self._watched(dataset):
            call(lib.ps_trainer_evaluate_get, self.address, dataset.address if dataset is not None else None,
                 ctypes.byref(found), ctypes.sizeof(found))
        return values(found, Evaluation)

    def _own_network(self) -> Network:
        if self.network is None:
            raise TypeError("the trainer was made without its network")
        return self.network

    def weights(self) -> dict[str, Array]:
        """The newest values of all parameters and running statistics, by the names that PyTorch has for them. Over MPI all ranks
        call, and rank 0 gets them; the others get none."""
        found = {}
        for i in range(self.info.parameters):
            one = get("ps_trainer_parameter", self.address, i, result="ps_parameter")
            array = numpy.empty(tuple(one.shape[:one.rank]), numpy.float32)
            call(lib.ps_trainer_read_parameter, self.address, one.name,
                 array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), array.size)
            found[one.name.decode()] = array
        return found if self._rank == 0 else {}

    def save(self, directory: PathLike | None = None) -> None:
        """Leaves a checkpoint in the run directory, or in another."""
        call(lib.ps_trainer_save, self.address, encode(directory))

    def finish(self) -> Run:
        """What the training came to so far, of which a run directory keeps a checkpoint; the trainer is over then."""
        weights = self.weights()
        with self._watched():
            run = _Results(create(lib.ps_trainer_finish, self.address))
        self.close()
        info = values(get("ps_run_info", run.address), RunInfo)
        points = records("ps_run_point", run.address, int(lib.ps_run_point_count(run.address)))
        workers = records("ps_run_worker", run.address, info.workers)
        return Run(self._own_network(), info, self._lines(self._steps, Step), points, workers, weights, self.directory)

    @staticmethod
    def _lines(found: list[Any], kind: type[Any]) -> Array:
        names = list(kind.__dataclass_fields__)
        types = [(name, "i8" if kind.__annotations__[name] == "int" else "f8") for name in names]
        return numpy.array([tuple(getattr(one, name) for name in names) for one in found], types)

    def stopped_run(self) -> Run:
        """What there is of a training that ended within an epoch: what its run directory has."""
        assert self.directory is not None
        self.close()
        return Run(self._own_network(), None, self._lines(self._steps, Step), self._lines(self._points, Point), None,
                   load_weights(self.directory) if self._rank == 0 else {}, self.directory)

    @property
    def wants_stop(self) -> bool:
        """Whether ``on_epoch`` asked for the end; the same at all ranks."""
        return self.info.asked

    def close(self) -> None:
        """Ends the training, where ``finish`` did not, and lets go of its data."""
        self.__del__()
        self._datasets, self._keep = [], ()  # the observer's functions have the trainer: that would keep all of it

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def train(what: Network | Plan | Profile | PathLike | None, data: Any = None, valid: Any = None, *,
          on_step: OnStep | None = None, on_epoch: OnEpoch | None = None, cluster: Cluster | None = None,
          out: PathLike | None = None, resume: PathLike | None = None, **keywords: Unpack[TrainOptions]) -> Run:
    """Trains a network, by a plan or by one that is made here.

    ``on_step`` sees each mini-batch and ``on_epoch`` each evaluation, while the workers go on; the training ends where one returns
    True: at once, or after the evaluation. An exception of theirs ends it, too, and is raised here. ``resume`` goes on with the
    run of a directory, whose network need not be given.
    """
    with contextlib.ExitStack() as stack:
        scratch = None
        if on_step is not None and out is None and resume is None:
            # A step that ends the training leaves its weights in a checkpoint.
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            out = Path(scratch) / "run"
            keywords.setdefault("checkpoint_minutes", 0)  # others would drain the pipeline
        trainer = stack.enter_context(Trainer(what, data, valid, cluster=cluster, out=out, resume=resume, on_step=on_step,
                                              on_epoch=on_epoch, **keywords))
        try:
            info = trainer.info
            while True:
                # Up to where the pipeline drains anyway, so that the division changes no number.
                info = trainer.step(info.to_evaluation if on_epoch is not None else info.steps - info.step)
                if info.step == info.steps or info.asked:
                    break
            run = trainer.finish()
        except StoppedError:
            if trainer.directory is None:
                raise
            run = trainer.stopped_run()
        if scratch is not None:
            run.directory = None
        return run


def load_weights(path: PathLike) -> dict[str, Array]:
    """The weights of a run directory's newest checkpoint, or of a safetensors file, as arrays by name."""
    if not Path(path).is_dir():
        return _weights.read(path)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "weights.safetensors"
        call(lib.ps_export, encode(path), b"safetensors", encode(file))
        return _weights.read(file)


def _trained(what: Run | Network | PathLike, data: Any, made: Any) -> Network | None:
    """Names trained weights in a struct of options; their network, where it is not that of a run directory."""
    if isinstance(what, Run) and isinstance(data, str) and what.directory and (what.directory / "vocabulary.json").exists():
        # Words have the numbers of the training, which are kept there.
        made.checkpoint = str(what.info.steps).encode() if what.info is not None else None
        what = what.directory
    if isinstance(what, (str, os.PathLike)):
        made.run = encode(what)
        return None
    if isinstance(what, Run):
        network = Network._of_files(what.network._files()).initialize(what.weights())
    else:
        network = what
    made.network = network.address
    return network


def _dataset(data: Any, network: Network | None, labelled: bool) -> Dataset:
    if network is not None:
        return as_dataset(data, network, part="test", labelled=labelled)
    if isinstance(data, Dataset):
        return data
    if not isinstance(data, str):
        raise TypeError("of a run directory data are a spec, or a dataset")
    return Dataset(data, part="test")


def _read(dataset: Dataset, work: Callable[[], _Result], *keep: object) -> _Result:
    """A long call that reads a dataset: raises what went wrong in the program's own functions."""
    dataset.failures.clear()
    try:
        return interruptible(work, lambda _: None, dataset, *keep)
    except Error as failure:
        raise cause_of(failure, dataset.failures)


def evaluate(what: Run | Network | PathLike, data: Any, *, device: str | None = None, batch: int = 0, threads: int = 0,
             beam: int = 0) -> Evaluation:
    """Loss and metrics of a run, a run directory or a network with weights of its own (``Network.initialize``)."""
    made = options("ps_evaluate_options")
    fill({"device": device, "batch": batch, "threads": threads, "beam": beam}, made)
    network = _trained(what, data, made)
    dataset = _dataset(data, network, True)
    made.data = dataset.address

    def work() -> Any:
        found = structs["ps_evaluation"]()
        call(lib.ps_evaluate_get, ctypes.byref(made), ctypes.byref(found), ctypes.sizeof(found))
        return found

    return values(_read(dataset, work, network), Evaluation)


def predict(what: Run | Network | PathLike, data: Any, *, device: str | None = None, batch: int = 0,
            threads: int = 0) -> Array:
    """What the network computes of each sample, logits and not probabilities: an array with a line for each. Data may come
    without labels: ``predict(run, images)``."""
    made = options("ps_predict_options")
    fill({"device": device, "batch": batch, "threads": threads}, made)
    network = _trained(what, data, made)
    dataset = _dataset(data, network, False)
    made.data = dataset.address
    lines: list[Array] = []

    def take(_context: int | None, _sample: int, output: Any, count: int) -> None:
        lines.append(numpy.ctypeslib.as_array(output, (count,)).copy())

    made.take = dict(structs["ps_predict_options"]._fields_)["take"](take)

    _read(dataset, lambda: call(lib.ps_predict, ctypes.byref(made)), network)
    return numpy.stack(lines)


def tables() -> Mapping[str, dict[str, str]]:
    """Everything that is chosen by name, with a summary: ``tables()["schedules"]["1f1b"]``."""
    found = {}
    for name, number in constants.items():
        if name.startswith("PS_TABLE_") and name != "PS_TABLE_COUNT":
            entries = (lib.ps_table_entry(number, i) for i in range(lib.ps_table_count(number)))
            found[name.removeprefix("PS_TABLE_").lower()] = {one.name.decode(): one.summary.decode() for one in entries}
    return found
