"""Data of NumPy, of PyTorch, and of files, as the library reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy
import numpy.typing

from ._abi import constants, lib, structs
from ._call import Error, create, encode, options, whole
from ._objects import Input, Network, Object
from ._weights import to_numpy


class MapDataset(Protocol):
    """A dataset of PyTorch's: its items are (input, label), (input, another, label), or (inputs, label) with a tuple or mapping
    of several."""

    def __getitem__(self, index: int, /) -> Any: ...

    def __len__(self) -> int: ...


#: What ``train``, ``evaluate`` and ``predict`` take as data: a dataset; a spec as on the command line ("cifar10:DIR"); arrays or
#: tensors (inputs, labels), (input, another, labels), or by name; inputs alone, to predict from; a dataset of PyTorch's.
Data = "Dataset | str | tuple[Any, ...] | Mapping[str, Any] | MapDataset"

_PARTS = {None: "PS_PART_USUAL", "train": "PS_PART_TRAIN", "test": "PS_PART_TEST"}


class Dataset(Object):
    """Data by a spec, ``Dataset("cifar10:DIR", network)``; ``as_dataset`` makes one of what the program has in memory."""

    _destroy = "ps_dataset_destroy"

    def __init__(self, spec: str, network: Network | None = None, *, part: str | None = None, words: Dataset | None = None,
                 _address: int | None = None, _keep: Any = None) -> None:
        #: What went wrong in the program's own functions, in the calls that read it now.
        self.failures: list[BaseException] = []
        if _address is None:
            made = options("ps_dataset_options")
            made.network = network.address if network is not None else None
            made.part = constants[_PARTS[part]]
            made.words = words.address if words is not None else None
            _address = create(lib.ps_dataset_open, encode(spec), ctypes.byref(made))
        super().__init__(_address, network, words, _keep)

    def __len__(self) -> int:
        return max(0, int(lib.ps_dataset_samples(self.address)))

    @property
    def name(self) -> str:
        """The spec, or what messages call it."""
        name: bytes = lib.ps_dataset_name(self.address)
        return name.decode()


def cause_of(failure: Error, *failures: list[BaseException]) -> BaseException:
    """What went wrong in the program's own functions, where that ended a call; else the library's error. The lists are emptied."""
    own = [one for some in failures for one in some]
    for some in failures:
        some.clear()
    if not own:
        return failure
    own[0].__cause__ = failure
    return own[0]


def _kind(one: Input) -> type[Any]:
    return numpy.float32 if one.type == "f32" else numpy.int32


def _sides(shape: tuple[int, ...]) -> list[int]:
    return [side for side in shape if side != 1]


def _arranged(value: Any, one: Input, batch: bool) -> numpy.typing.NDArray[Any]:
    """Numbers of one or of all samples in the library's order: the first side of a sample last. As in files, sides of 1 may be
    missing or too many, channels may stand last, and features stand behind their positions (T, D) where both fit."""
    array = to_numpy(value)
    kind = _kind(one)
    if kind is numpy.int32 and array.dtype.kind not in "iub":
        raise TypeError(f"{one.name}: whole numbers are wanted, not {array.dtype}")
    if kind is numpy.int32 and array.size > 0 and not numpy.can_cast(array.dtype, kind):
        for number in int(array.min()), int(array.max()):
            whole(one.name, number, ctypes.c_int32)
    lead = array.shape[:1] if batch else ()
    ordered = bool(one.vocabulary) and kind is numpy.int32  # tokens and labels, which have no channels
    given, last = array.shape[len(lead):], one.shape if ordered else (*one.shape[1:], one.shape[0])
    if (batch and not lead) or _sides(given) not in (_sides(one.shape), _sides(last)):
        raise ValueError(f"{one.name}: a sample has the shape {given}; the network takes {one.shape}")
    positions = len(one.shape) == 3 and one.shape[2] == 1
    whole_shape = tuple(given) == tuple(one.shape)
    if _sides(given) == _sides(last) and (ordered or (positions and not whole_shape) or _sides(given) != _sides(one.shape)):
        array = array.reshape(*lead, *last)
    else:
        array = numpy.moveaxis(array.reshape(*lead, *one.shape), len(lead), -1)
    return numpy.ascontiguousarray(array, kind)


def _several(value: Any, wanted: Sequence[Input]) -> list[Any]:
    """The values of a sample's inputs in the network's order, given alone, by name or one after the other."""
    if isinstance(value, Mapping):
        missing = [one.name for one in wanted if one.name not in value]
        if missing:
            raise ValueError(f"'{missing[0]}' is missing; the network takes {', '.join(one.name for one in wanted)}, "
                             f"and there are {', '.join(map(str, value)) or 'none'}")
        return [value[one.name] for one in wanted]
    found = list(value) if isinstance(value, (tuple, list)) and len(wanted) > 1 else [value]
    if len(found) != len(wanted):
        raise ValueError(f"{len(found)} inputs; the network takes {len(wanted)}: {', '.join(one.name for one in wanted)}")
    return found


def _parted(given: Any, inputs: Sequence[Input], target: Input) -> tuple[Any, Any]:
    """The inputs, and the labels behind them."""
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 1 + len(inputs)):
        count = f"{len(given)} values" if isinstance(given, (tuple, list)) else type(given).__name__
        raise ValueError(f"{count}; the network takes {', '.join(one.name for one in inputs)} and behind them {target.name}")
    return (given[0] if len(given) == 2 else tuple(given[:-1])), given[-1]


def as_dataset(data: Any, network: Network, *, part: str | None = None, name: str = "data", labelled: bool = False) -> Dataset:
    """A dataset of whatever ``Data`` allows, for a network.

    Images are (N, C, H, W), as PyTorch's. The arrays are copied into the library's order; the items of a dataset of PyTorch's are
    asked for one by one while the training goes on, and item ``i`` must always be the same. Only ``predict`` takes arrays without
    labels; with ``labelled`` they are an error.
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str):
        return Dataset(data, part=part)
    inputs, (target,) = network.inputs, network.targets
    sample: Callable[[int], tuple[list[Any], Any]]
    if isinstance(data, (tuple, Mapping)) or hasattr(data, "dtype"):
        if hasattr(data, "dtype"):
            given, labels = data, None
        elif isinstance(data, tuple):
            given, labels = _parted(data, inputs, target)
        else:
            given, labels = data, data.get(target.name, data.get("labels"))
        arrays = [_arranged(value, one, True) for value, one in zip(_several(given, inputs), inputs)]
        if labels is None and labelled:
            raise ValueError(f"{name}: labels are missing: (inputs, labels), or a mapping with {target.name!r}")
        if labels is None:
            labels = numpy.full((len(arrays[0]), *target.shape), -1 if target.type == "i32" else 0, _kind(target))
        goals = _arranged(labels, target, True)
        samples = len(goals)
        for one, array in zip(inputs, arrays):
            if len(array) != samples:
                raise ValueError(f"{one.name}: {len(array)} samples, and {samples} labels")

        def sample(index: int) -> tuple[list[Any], Any]:
            return [array[index] for array in arrays], goals[index]
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        samples = len(data)

        def sample(index: int) -> tuple[list[Any], Any]:
            given, label = _parted(data[index], inputs, target)
            return ([_arranged(value, one, False) for value, one in zip(_several(given, inputs), inputs)],
                    _arranged(label, target, False))
    else:
        loader = "; give the loader's dataset: mini-batches are made here" if hasattr(data, "dataset") else ""
        raise TypeError(f"data are a spec, (inputs, labels), a mapping of arrays or a dataset with items, not "
                        f"{type(data).__name__}{loader}")
    return _from_samples(sample, samples, inputs, target, name)


def _declared(wanted: Sequence[Input]) -> Any:
    made = (structs["ps_input"] * len(wanted))()
    for place, one in zip(made, wanted):
        place.name, place.type, place.rank, place.vocabulary = one.name.encode(), one.type.encode(), len(one.shape), one.vocabulary
        place.shape[:len(one.shape)] = one.shape
    return made


def _from_samples(sample: Callable[[int], tuple[list[Any], Any]], samples: int, inputs: Sequence[Input], target: Input,
                  name: str) -> Dataset:
    source = structs["ps_dataset_source"]()
    lib.ps_dataset_source_init(ctypes.byref(source))
    failures: list[BaseException] = []

    def read(_context: int | None, index: int, into: int | None, labels: Any, error: Any) -> int:
        try:
            values, goal = sample(index)
            if into is not None:  # else the labels alone are wanted
                for value in values:
                    ctypes.memmove(into, value.ctypes.data, value.nbytes)
                    into += value.nbytes
            ctypes.memmove(labels, goal.ctypes.data, goal.nbytes)
            return constants["PS_OK"]
        except BaseException as failure:
            failures.append(failure)
            error.contents.message = repr(failure).encode()[:1000]
            return constants["PS_FAILED"]

    declared, goals = _declared(inputs), _declared([target])
    source.name, source.samples = encode(name), samples
    source.inputs, source.input_count, source.targets, source.target_count = declared, len(inputs), goals, 1
    source.read = dict(structs["ps_dataset_source"]._fields_)["read"](read)
    address = create(lib.ps_dataset_create, ctypes.byref(source))
    dataset = Dataset(name, _address=address, _keep=(source, declared, goals))
    dataset.failures = failures
    return dataset
