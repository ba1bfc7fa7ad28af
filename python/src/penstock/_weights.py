"""Weights as NumPy arrays: safetensors files, read and written without another package."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import numpy.typing

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1",
          "BOOL": "|b1", "BF16": "<u2"}


def to_numpy(value: Any) -> numpy.typing.NDArray[Any]:
    """An array of what is one, or of a tensor of PyTorch's."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    return numpy.asarray(value)


def read(path: str | os.PathLike[str]) -> dict[str, numpy.typing.NDArray[Any]]:
    """The arrays of a safetensors file by name; bf16 becomes float32."""
    data = Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + length]), memoryview(data)[8 + length:]
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        array = numpy.frombuffer(body[begin:end], _TYPES[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
        found[name] = array.copy()
    return found


def write(path: str | os.PathLike[str], weights: Mapping[str, Any]) -> None:
    """Writes arrays or tensors as a safetensors file."""
    arrays = {name: to_numpy(value) for name, value in weights.items()}
    names = {numpy.dtype(kind): name for name, kind in _TYPES.items() if name != "BF16"}
    header, offset = {}, 0
    for name, array in arrays.items():
        if array.dtype not in names:
            raise TypeError(f"{name}: numbers of type {array.dtype} cannot be written as safetensors")
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())
