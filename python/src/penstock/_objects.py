"""Networks, profiles, clusters, plans and simulations."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy
import numpy.typing

from . import _weights
from ._abi import constants, lib, structs, take_text
from ._call import Error, UsageError, call, create, encode, fill, get, interruptible, options, values, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self, Unpack

Array = numpy.typing.NDArray[Any]
PathLike = str | os.PathLike[str]


class ProfileOptions(TypedDict, total=False):
    """Options of ``profile``, as ``struct ps_profile_options`` has them."""

    device: str
    threads: int
    busy: int
    warmup: int
    repeats: int
    memory_bytes: int
    quick: bool


class ClusterOptions(TypedDict, total=False):
    """Alike machines, as ``struct ps_cluster_options`` has them."""

    memory_bytes: int
    bandwidth_bytes_per_s: float
    latency_s: float
    no_overlap: bool
    cores: int
    streaming: bool


class PlanOptions(ClusterOptions, total=False):
    """Options of ``plan``: those of ``struct ps_plan_options``, and machines."""

    method: str
    schedule: str
    weights: str
    optimizer: str
    micro_batch: int
    micro_batches: int
    recompute: bool
    paper_prediction: bool
    replicate: bool
    paper_cost: bool
    batch: int
    module_depth: int
    wire: str
    slack: int


@dataclass(frozen=True)
class NetworkInfo:
    """What a network is; ``hash`` is of its structure."""

    name: str
    hash: str
    layers: int
    parameters: int
    classes: int
    labels: int
    vocabulary: int
    forward_flops: float
    inputs: int
    targets: int


@dataclass(frozen=True)
class Input:
    """An input or a target of a sample: ``type`` is "f32" or "i32"; tokens are below ``vocabulary``."""

    name: str
    type: str
    shape: tuple[int, ...]
    vocabulary: int


@dataclass(frozen=True)
class Layer:
    """A layer, between which plans cut."""

    name: str
    kind: str
    parameters: int
    output_shape: tuple[int, ...]
    forward_flops: float


@dataclass(frozen=True)
class PlanInfo:
    """What a plan says."""

    model: str
    method: str
    schedule: str
    weights: str
    optimizer: str
    workers: int
    stages: int
    micro_batch: int
    micro_batches: int


@dataclass(frozen=True)
class SimulationInfo:
    """What is predicted; ``bubble`` is the idle share of all workers' time."""

    period_s: float
    makespan_s: float
    throughput_samples_per_s: float
    bubble: float
    workers: int
    batches: int


class Object:
    """An object of the library's. ``keep`` is what it needs for as long as it lives."""

    _destroy: str

    def __init__(self, address: int, *keep: Any) -> None:
        self._address: int | None = address
        self._keep = keep

    @property
    def address(self) -> int:
        """Where it is, for the library."""
        if self._address is None:
            raise UsageError(constants["PS_USAGE"], f"the {type(self).__name__} is closed")
        return self._address

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"a {type(self).__name__} is an object of the library's, and cannot be copied or pickled")

    def __del__(self) -> None:
        address = getattr(self, "_address", None)
        if address is not None and lib is not None:
            self._address = None
            getattr(lib, self._destroy)(address)


class Network(Object):
    """A network: the name of a built-in one ("lenet5", "vgg16,classes=10"), or the path of a network file or an ONNX file."""

    _destroy = "ps_network_destroy"

    def __init__(self, name: PathLike) -> None:
        super().__init__(create(lib.ps_network_open, encode(name)))

    def _files(self) -> dict[str, bytes]:
        """A network file, ``network.json``, and that of its values, if it has any: by their names."""
        with tempfile.TemporaryDirectory() as directory:
            self.write(Path(directory) / "network.json")
            return {path.name: path.read_bytes() for path in Path(directory).iterdir()}

    @classmethod
    def _of_files(cls, files: dict[str, bytes]) -> Self:
        """The network whose ``_files`` these are."""
        with tempfile.TemporaryDirectory() as directory:
            for name, content in files.items():
                (Path(directory) / name).write_bytes(content)
            return cls(Path(directory) / "network.json")

    @property
    def info(self) -> NetworkInfo:
        """Name, hash, sizes."""
        return values(get("ps_network_info", self.address), NetworkInfo)

    def _inputs(self, function: str, count: int) -> tuple[Input, ...]:
        found = (get(function, self.address, i, result="ps_input") for i in range(count))
        return tuple(Input(one.name.decode(), one.type.decode(), tuple(one.shape[:one.rank]), one.vocabulary) for one in found)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of a sample, in their order."""
        return self._inputs("ps_network_input", self.info.inputs)

    @property
    def targets(self) -> tuple[Input, ...]:
        """What the loss reads: there is one."""
        return self._inputs("ps_network_target", self.info.targets)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The chain of layers."""
        found = (get("ps_network_layer", self.address, i, result="ps_layer_info") for i in range(self.info.layers))
        return tuple(Layer(one.name.decode(), one.kind.decode(), one.parameters, tuple(one.output_shape[:one.output_rank]),
                           one.forward_flops) for one in found)

    def freeze(self, patterns: str) -> Self:
        """Fixes the parameters whose names a pattern matches, "features.*,*.bias"."""
        call(lib.ps_network_freeze, self.address, encode(patterns))
        return self

    def lora(self, adapters: str) -> Self:
        """Adds low-rank adapters: "rank=8,alpha=16,target=*attn*"."""
        call(lib.ps_network_lora, self.address, encode(adapters))
        return self

    def set_precision(self, precision: str) -> Self:
        """What the network computes in: "f32" or "bf16"."""
        call(lib.ps_network_set_precision, self.address, encode(precision))
        return self

    def set_loss(self, loss: str | None, class_weights: Sequence[float] = ()) -> Self:
        """Another loss: "cross-entropy", "next-token", "masked", "mse", "l1" or "bce"; None: its own."""
        weights = (ctypes.c_float * len(class_weights))(*class_weights)
        call(lib.ps_network_set_loss, self.address, encode(loss), weights, len(class_weights))
        return self

    def initialize(self, weights: PathLike | Mapping[str, Any]) -> Self:
        """Parameters begin with these values: a file (safetensors, an index of them, ONNX), or arrays or tensors by name, such as
        a ``state_dict()``."""
        if isinstance(weights, (str, os.PathLike)):
            call(lib.ps_network_initialize, self.address, encode(weights))
            return self
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "weights.safetensors"
            _weights.write(path, weights)
            try:
                call(lib.ps_network_initialize, self.address, encode(path))
            except Error as failure:
                message = failure.message.replace(str(path), "weights")
                raise type(failure)(failure.status, message, failure.hint) from None
        return self

    def write(self, path: PathLike) -> None:
        """Writes a network file, with the values of parameters that it was given."""
        call(lib.ps_network_write, self.address, encode(path))

    def __repr__(self) -> str:
        info = self.info
        return f"Network({info.name!r}, {info.layers} layers, {info.parameters} parameters)"


class _Document(Object):
    """An object that is a document, too."""

    _prefix: str

    def json(self) -> Any:
        """As the document of ``docs/formats.md``."""
        return json.loads(take_text(getattr(lib, self._prefix + "_json")(self.address)))

    def __str__(self) -> str:
        return take_text(getattr(lib, self._prefix + "_table")(self.address))


class Profile(_Document):
    """What each layer costs. ``Profile(path)`` reads one; ``profile`` measures one."""

    _destroy, _prefix = "ps_profile_destroy", "ps_profile"

    def __init__(self, path: PathLike, network: Network | None = None, *, _address: int | None = None) -> None:
        super().__init__(create(lib.ps_profile_read, encode(path)) if _address is None else _address, network)
        self.network = network

    @property
    def model(self) -> str:
        """The network's name."""
        name: bytes = lib.ps_profile_model(self.address)
        return name.decode()

    def costs(self) -> dict[int, Array]:
        """By the size of a micro-batch: a structured array with a line for each layer (``forward_s``, ``parameter_bytes``...).
        NaN is what the profile says of other layers only."""
        found = {}
        for cost in self.json()["costs"]:
            layers = cost["layers"]
            names = list(dict.fromkeys(name for layer in layers for name, value in layer.items()
                                       if isinstance(value, (int, float))))
            kind = numpy.dtype([("name", object), *((name, numpy.float64) for name in names)])
            found[cost["micro_batch"]] = numpy.array([(layer["name"], *(layer.get(name, numpy.nan) for name in names))
                                                      for layer in layers], kind)
        return found

    def write(self, path: PathLike) -> None:
        """Writes it as JSON."""
        call(lib.ps_profile_write, self.address, encode(path))


class Cluster(_Document):
    """Workers and links. ``Cluster(path)`` reads a cluster file; ``Cluster(workers=4, ...)`` has alike workers."""

    _destroy, _prefix = "ps_cluster_destroy", "ps_cluster"

    def __init__(self, path: PathLike | None = None, *, workers: int = 0, **machines: Unpack[ClusterOptions]) -> None:
        if path is not None:
            if workers or machines:
                raise TypeError("a cluster file says its workers itself")
            super().__init__(create(lib.ps_cluster_read, encode(path)))
            return
        made = options("ps_cluster_options")
        fill({"workers": workers, **machines}, made)
        super().__init__(create(lib.ps_cluster_uniform, ctypes.byref(made)))

    @property
    def workers(self) -> int:
        """How many there are."""
        return int(lib.ps_cluster_workers(self.address))


class Plan(_Document):
    """Which worker computes which layers, in which order, with which weights. ``Plan(path)`` reads one; ``plan`` finds one."""

    _destroy, _prefix = "ps_plan_destroy", "ps_plan"

    def __init__(self, path: PathLike, profile: Profile | None = None, cluster: Cluster | None = None, *,
                 _address: int | None = None) -> None:
        super().__init__(create(lib.ps_plan_read, encode(path)) if _address is None else _address)
        self.profile = profile
        self.cluster = cluster

    @property
    def info(self) -> PlanInfo:
        """Schedule, policy of weights, numbers of workers, stages and micro-batches."""
        return values(get("ps_plan_info", self.address), PlanInfo)

    def write(self, path: PathLike) -> None:
        """Writes plan.json."""
        call(lib.ps_plan_write, self.address, encode(path))

    def _programs(self, batches: int) -> _Programs:
        profile = self.profile.address if self.profile is not None else None
        return _Programs(create(lib.ps_programs_lower, self.address, profile, whole("batches", batches)))

    def program(self, batches: int = 1) -> str:
        """The instructions of every worker, verified, as ``penstock program`` prints them."""
        programs = self._programs(batches)
        return take_text(lib.ps_programs_print(programs.address))

    def torch_csv(self) -> str:
        """The schedule as ``torch.distributed.pipelining`` loads it; UsageError says why that is not possible."""
        programs = self._programs(1)
        return take_text(create(lib.ps_programs_torch_csv, programs.address))

    def to_torch(self, directory: PathLike) -> None:
        """Writes ``schedule.csv``, ``stages.json`` and ``run.py``, which runs them on ``torch.distributed.pipelining``:
        ``torchrun --nproc-per-node WORKERS run.py --model FILE.py:CLASS --data FILE.npz``. The plan needs its profile, which has
        the names of the layers."""
        if self.profile is None:
            raise TypeError("the plan has no profile, which has the names of its layers: Plan(path, profile)")
        schedule = self.torch_csv()
        document, info = self.json(), self.info
        names = document.get("order") or self.profile.costs()[info.micro_batch]["name"].tolist()
        stages = {"model": info.model, "schedule": info.schedule, "workers": info.workers, "micro_batch": info.micro_batch,
                  "micro_batches": info.micro_batches,
                  "stages": [{"worker": stage["forward"], "layers": names[stage["layers"][0] - 1:stage["layers"][1]]}
                             for stage in document["stages"]]}
        target = Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        (target / "schedule.csv").write_text(schedule)
        (target / "stages.json").write_text(json.dumps(stages, indent=2) + "\n")
        (target / "run.py").write_text((Path(__file__).parent / "torch_run.py").read_text(encoding="utf-8"))

    def __repr__(self) -> str:
        info = self.info
        return f"Plan({info.model!r}, {info.schedule}, {info.weights}, {info.stages} stages on {info.workers} workers)"


class _Programs(Object):
    _destroy = "ps_programs_destroy"


class Simulation(_Document):
    """A predicted run."""

    _destroy, _prefix = "ps_simulation_destroy", "ps_simulation"

    @property
    def info(self) -> SimulationInfo:
        """Times, throughput, bubble."""
        return values(get("ps_simulation_info", self.address), SimulationInfo)

    @property
    def workers(self) -> Array:
        """A structured array with a line for each worker: ``busy_s``, ``idle_fill_drain_s``, ``memory_bytes``..."""
        return records("ps_simulation_worker", self.address, self.info.workers)

    @property
    def events(self) -> Array:
        """A structured array with a line for each computation: ``worker``, ``stage``, ``op``, ``micro_batch``, ``start_s`` and
        ``end_s``."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "trace.json"
            self.write_trace(path)
            events = json.loads(path.read_text())["traceEvents"]
        workers = self.info.workers  # a second lane of a worker has a thread behind those of all workers
        lines = [(event["tid"] % workers, event["args"]["stage"], event["args"]["op"], event["args"]["micro_batch"], event["ts"] / 1e6,
                  (event["ts"] + event["dur"]) / 1e6)
                 for event in events if event["ph"] == "X" and event["pid"] == 0 and "op" in event.get("args", {})]
        return numpy.array(lines, [("worker", "i4"), ("stage", "i4"), ("op", "U2"), ("micro_batch", "i8"), ("start_s", "f8"),
                                   ("end_s", "f8")])

    def write_svg(self, path: PathLike) -> None:
        """The timeline as a picture."""
        call(lib.ps_simulation_write_svg, self.address, encode(path))

    def write_trace(self, path: PathLike) -> None:
        """The timeline as trace events, for Perfetto."""
        call(lib.ps_simulation_write_trace, self.address, encode(path))

    def plot(self, axes: Axes | None = None) -> Axes:
        """The timeline with matplotlib: a row for each worker, a colour for each kind of computation."""
        if axes is None:
            from matplotlib import pyplot

            _, axes = pyplot.subplots(figsize=(10, 0.6 * self.info.workers + 1.2))
        events = self.events
        for place, op in enumerate(sorted(set(events["op"].tolist()))):
            for worker in range(self.info.workers):
                these = events[(events["op"] == op) & (events["worker"] == worker)]
                axes.broken_barh([(one["start_s"] * 1e3, (one["end_s"] - one["start_s"]) * 1e3) for one in these],
                                 (worker - 0.4, 0.8), facecolors=f"C{place}", edgecolors="white", linewidth=0.4,
                                 label=op if worker == 0 else None)
        axes.set_yticks(range(self.info.workers), [f"worker {worker}" for worker in range(self.info.workers)])
        axes.invert_yaxis()
        axes.set_xlabel("ms")
        axes.legend(ncols=8, loc="upper center", bbox_to_anchor=(0.5, 1.25), frameon=False)
        return axes

    def _repr_svg_(self) -> str:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "timeline.svg"
            self.write_svg(path)
            return path.read_text()


def records(name: str, of: int, count: int) -> Array:
    """Structs of results, of index 0 to ``count`` - 1, as a structured array whose fields are the struct's."""
    lines = (structs[name] * count)()
    for i in range(count):
        getattr(lib, name + "_get")(of, i, ctypes.byref(lines[i]), ctypes.sizeof(structs[name]))
    return numpy.frombuffer(bytes(lines), numpy.dtype(structs[name])).copy()


def as_network(network: Network | PathLike) -> Network:
    """A network, or its name."""
    return network if isinstance(network, Network) else Network(network)


def machines_said(keywords: Mapping[str, Any], workers: int | None, cluster: Cluster | None) -> ClusterOptions:
    """What keywords say of alike machines; TypeError beside a cluster."""
    said = {name: value for name, value in keywords.items() if name in ClusterOptions.__annotations__ and value is not None}
    if cluster is not None and (workers or said):
        raise TypeError("a cluster says its workers and links itself")
    return cast(ClusterOptions, said)


def profile(network: Network | PathLike, micro_batch: int | Sequence[int], **keywords: Unpack[ProfileOptions]) -> Profile:
    """Measures what each layer costs at these sizes of a micro-batch, or works it out for a board that is not at hand
    (``device="fpga:vcu118"``)."""
    network = as_network(network)
    sizes = [micro_batch] if isinstance(micro_batch, int) else list(micro_batch)
    made = options("ps_profile_options")
    fill(keywords, made)
    made.micro_batches = (ctypes.c_int * len(sizes))(*(whole("micro_batch", size) for size in sizes))
    made.micro_batch_count = len(sizes)
    address = interruptible(lambda: create(lib.ps_profile_measure, network.address, ctypes.byref(made)),
                            lib.ps_profile_destroy)
    return Profile("", network, _address=address)


def plan(profile: Profile, workers: int = 0, *, cluster: Cluster | None = None, **keywords: Unpack[PlanOptions]) -> Plan:
    """Searches for the fastest plan on so many alike workers, or on those of a cluster. NoPlanError says what does not fit."""
    made = options("ps_plan_options")
    fill(keywords, made, options("ps_cluster_options"))
    machines = machines_said(keywords, workers, cluster)
    within = cluster or Cluster(workers=workers, **machines)
    address = interruptible(lambda: create(lib.ps_plan_find, profile.address, within.address, ctypes.byref(made)),
                            lib.ps_plan_destroy)
    return Plan("", profile, within, _address=address)


def simulate(plan: Plan, *, profile: Profile | None = None, cluster: Cluster | None = None, batches: int = 0) -> Simulation:
    """Predicts a run of so many mini-batches (0: until the pipeline is steady), with the plan's own profile and cluster where
    no others are given."""
    costs = profile or plan.profile
    if costs is None:
        raise TypeError("the plan has no profile: simulate(plan, profile=...)")
    within = cluster or plan.cluster or Cluster(workers=plan.info.workers)
    number = whole("batches", batches)
    address = interruptible(lambda: create(lib.ps_simulate, plan.address, costs.address, within.address, number),
                            lib.ps_simulation_destroy)
    return Simulation(address)
