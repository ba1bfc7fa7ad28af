"""Runs a plan on torch.distributed.pipelining: the stages of stages.json with the schedule of schedule.csv, beside this file.

    torchrun --nproc-per-node WORKERS run.py --model net.py:Net --data train.npz --steps 20 --lr 0.05

The model is cut before the first computation of each stage's first layer. The data are arrays: one for each input of the model,
in the file's order, and `labels`. Rank 0 prints a loss for each step, the mean over the mini-batch.
"""

import argparse
import importlib.util
import json
import os
from pathlib import Path

import numpy
import torch
import torch.distributed
from torch.distributed.pipelining import pipeline
from torch.distributed.pipelining._IR import aten_pipe_split_alias
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

HERE = Path(__file__).resolve().parent


def find_node(graph, layer):
    """The first computation of a layer. Its name is that of a module, as "stem.0" or "stem/stem.3/MaxPool", or of a node as
    torch.export calls it, "node_max_pool2d"."""
    computations = [node for node in graph.nodes if node.op in ("call_function", "call_module") and node.name != "_guards_fn"]
    for node in computations:
        if layer == "node_" + node.name:
            return node
        if any(given.op == "get_attr" and str(given.target).rpartition(".")[0] == layer for given in node.all_input_nodes):
            return node
    for node in computations:
        modules = [str(key).removeprefix("L__self__").strip(".") for key in (node.meta.get("nn_module_stack") or {})]
        path = [part for part in layer.split("/") if "." in part or part in modules]
        if modules and (modules[-1] == layer or (path and modules[-1] == path[-1])):
            return node
    raise SystemExit(f"run.py: the model has no computation for the layer '{layer}'; plan with module_depth, so that stages end "
                     "between modules")


def is_view(node):
    """Whether the result shares the memory of what the node reads. PyTorch cannot split the backward of a stage that ends so,
    and the view costs nothing in the next stage."""
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return node.op == "call_function" and any(one.alias_info is not None and not one.alias_info.is_write for one in returns)


def cut(firsts):
    """A policy that splits the traced model before each of these layers."""

    def policy(traced):
        nodes = [find_node(traced.graph, layer) for layer in firsts]
        for node in nodes:
            while is_view(node.prev):
                node = node.prev
            with traced.graph.inserting_before(node):
                traced.graph.call_function(aten_pipe_split_alias, ())
        traced.recompile()
        return traced

    return policy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="FILE.py:CLASS")
    parser.add_argument("--data", required=True, help="FILE.npz")
    parser.add_argument("--init", help="weights to begin with: a state_dict that torch.save wrote")
    parser.add_argument("--save", help="file that gets the trained weights, FILE.RANK for each rank")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    given = parser.parse_args()
    stages = json.loads((HERE / "stages.json").read_text())
    batch = stages["micro_batch"] * stages["micro_batches"]

    path, _, name = given.model.partition(":")
    spec = importlib.util.spec_from_file_location("model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    model = getattr(module, name)()
    if given.init:
        model.load_state_dict(torch.load(given.init))
    arrays = numpy.load(given.data)
    inputs = [torch.from_numpy(arrays[key]) for key in arrays.files if key != "labels"]
    labels = torch.from_numpy(arrays["labels"]).long()

    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    if torch.distributed.get_world_size() != stages["workers"]:
        raise SystemExit(f"run.py: the plan is for {stages['workers']} workers: torchrun --nproc-per-node {stages['workers']}")
    example = tuple(value[:stages["micro_batch"]] for value in inputs)
    pipe = pipeline(model, example, split_policy=cut([stage["layers"][0] for stage in stages["stages"][1:]]))
    mine = [index for index, stage in enumerate(stages["stages"]) if stage["worker"] == rank]
    built = [pipe.build_stage(index, torch.device("cpu")) for index in mine]
    schedule = _PipelineScheduleRuntime(built, stages["micro_batches"], loss_fn=torch.nn.functional.cross_entropy)
    schedule._load_csv(str(HERE / "schedule.csv"))
    parameters = [parameter for stage in built for parameter in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=given.lr, momentum=given.momentum) if parameters else None

    last = len(stages["stages"]) - 1
    for step in range(given.steps):
        begin = step * batch % (len(labels) - batch + 1)
        these = tuple(value[begin:begin + batch] for value in inputs) if 0 in mine else ()
        losses = []
        for parameter in parameters:
            parameter.grad = None
        if last in mine:
            schedule.step(*these, target=labels[begin:begin + batch], losses=losses)
        else:
            schedule.step(*these)
        if optimizer is not None:
            optimizer.step()
        mean = torch.stack(losses).mean().detach() if last in mine else torch.zeros(())
        torch.distributed.broadcast(mean, stages["stages"][last]["worker"])
        if rank == 0:
            print(f"step {step + 1}: loss {mean.item():.6f}", flush=True)
    if given.save:
        torch.save({name: value for stage in built for name, value in stage.submod.state_dict().items()}, f"{given.save}.{rank}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
