"""What the package reads in the header is what a C compiler reads in it; dataclasses and options have the structs' fields."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import penstock
from penstock import _abi, _objects, _train

COMPILER = shutil.which(os.environ.get("CC", "cc"))
HEADER = Path(os.environ.get("PENSTOCK_HEADER") or Path(_abi.__file__).parent / "penstock.h")


def test_structs_and_constants_are_the_compilers(tmp_path):
    if COMPILER is None:
        pytest.skip("no C compiler")
    lines, ours = [], {}
    for name, struct in _abi.structs.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        ours[name] = ctypes.sizeof(struct)
        for field, _ in struct._fields_:
            lines.append(f'printf("{name}.{field} %zu\\n", 1000 * offsetof(struct {name}, {field}) + '
                         f'sizeof(((struct {name} *)0)->{field}));')
            place = getattr(struct, field)
            ours[f"{name}.{field}"] = 1000 * place.offset + place.size
    for name, value in _abi.constants.items():
        lines.append(f'printf("{name} %d\\n", (int){name});')
        ours[name] = value
    source = tmp_path / "abi.c"
    source.write_text(f'#include "{HEADER}"\n#include <stdio.h>\nint main(void) {{\n' + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run([COMPILER, "-o", tmp_path / "abi", source], check=True)
    printed = subprocess.run([tmp_path / "abi"], check=True, capture_output=True, text=True).stdout
    theirs = {name: int(value) for name, value in map(str.split, printed.splitlines())}
    assert ours == theirs
    assert len(_abi.structs) > 30 and len(_abi.constants) > 20


def test_every_function_of_the_header_is_declared():
    text = HEADER.read_text()
    assert set(_abi._header.functions) > {"ps_network_open", "ps_run_info_get", "ps_trainer_step", "ps_plan_json"}
    for name in _abi._header.functions:
        assert getattr(_abi.lib, name).argtypes is not None
        assert name in text or name.removesuffix("_get") in text


@pytest.mark.parametrize("kind, struct", [
    (penstock.NetworkInfo, "ps_network_info"), (penstock.PlanInfo, "ps_plan_info"), (penstock.Step, "ps_step"),
    (penstock.SimulationInfo, "ps_simulation_info"), (penstock.Point, "ps_run_point"), (penstock.RunInfo, "ps_run_info"),
    (penstock.Evaluation, "ps_evaluation"), (penstock.TrainerInfo, "ps_trainer_info")])
def test_results_have_the_fields_of_the_structs(kind, struct):
    fields = {name for name, _ in _abi.structs[struct]._fields_} - {"input_shape"}  # as the inputs say
    assert set(kind.__dataclass_fields__) == fields


# What is no keyword: objects, which are arguments, and lists.
ARGUMENTS = {"struct_size", "log", "observer", "out", "resume", "plan", "profile", "cluster", "network", "planning", "machines",
             "data", "valid", "micro_batches", "micro_batch_count"}


@pytest.mark.parametrize("options, structs", [
    (_objects.ProfileOptions, ["ps_profile_options"]), (_objects.ClusterOptions, ["ps_cluster_options"]),
    (_objects.PlanOptions, ["ps_plan_options", "ps_cluster_options"]),
    (_train.TrainOptions, ["ps_train_options", "ps_plan_options", "ps_cluster_options"])])
def test_options_have_the_fields_of_the_structs(options, structs):
    fields = {name for struct in structs for name, _ in _abi.structs[struct]._fields_} - ARGUMENTS
    names = set(options.__annotations__)
    for base in getattr(options, "__orig_bases__", ()):
        names |= set(getattr(base, "__annotations__", {}))
    assert names - {"micro_batches", "workers"} == fields - {"workers"}
