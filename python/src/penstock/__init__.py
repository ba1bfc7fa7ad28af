"""Penstock trains neural networks as pipelines over several workers.

    import penstock

    network = penstock.Network("lenet5")                    # or penstock.export(torch_model, example)
    profile = penstock.profile(network, micro_batch=16)
    plan = penstock.plan(profile, workers=4)
    print(plan, penstock.simulate(plan))
    run = penstock.train(plan, (images, labels), epochs=3)
    run.load_into(torch_model)

Options have the names of the fields in ``penstock.h``, which is the reference of the library. Errors are exceptions
(``penstock.Error`` and its kinds) with a status, the library's line and a hint. Log lines go to the logger "penstock". Functions
that take long release the interpreter's lock, and Ctrl-C ends them.
"""

from ._abi import lib as _lib
from ._call import (BadInputError, Error, FileError, MemoryRanOutError, NoCheckpointError, NoPlanError, Status, StoppedError,
                    UsageError, WorkerLostError)
from ._data import Dataset, as_dataset
from ._objects import (Cluster, Input, Layer, Network, NetworkInfo, Plan, PlanInfo, Profile, Simulation, SimulationInfo, plan,
                       profile, simulate)
from ._torch import export, load
from ._train import (Evaluation, Point, Run, RunInfo, Step, Trainer, TrainerInfo, evaluate, load_weights, predict, tables, train)

__version__: str = _lib.ps_version().decode()

__all__ = [
    "BadInputError", "Cluster", "Dataset", "Error", "Evaluation", "FileError", "Input", "Layer", "MemoryRanOutError", "Network",
    "NetworkInfo", "NoCheckpointError", "NoPlanError", "Plan", "PlanInfo", "Point", "Profile", "Run", "RunInfo", "Simulation",
    "SimulationInfo", "Status", "Step", "StoppedError", "Trainer", "TrainerInfo", "UsageError", "WorkerLostError", "as_dataset",
    "evaluate", "export", "load", "load_weights", "plan", "predict", "profile", "simulate", "tables", "train",
]
