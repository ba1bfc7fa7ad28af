"""Modules of PyTorch's: in by ONNX, and back."""

from __future__ import annotations

import contextlib
import inspect
import io
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

from ._objects import Network, PathLike


def _input_names(model: Any, examples: tuple[Any, ...]) -> list[str] | None:
    """As ``forward`` calls them; None where it takes them by ``*args``, or examples are no tensors."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [one.name for one in inspect.signature(model.forward).parameters.values() if one.kind in positional]
    alone = all(hasattr(example, "dtype") for example in examples)
    return names[:len(examples)] if alone and len(names) >= len(examples) else None


def export(model: Any, example: Any, path: PathLike | None = None) -> Network:
    """A network of a PyTorch module, with its weights, by ``torch.onnx``. ``example`` is an input, or a tuple of them, with two
    samples or more; inputs are named as ``forward`` names them. Without ``path`` the ONNX file goes when the network does.

    The exporter of ``torch.export`` leaves dropout out; models that have some are exported by the older one. It cannot be used
    for what only ``torch.export`` understands; set dropout to 0 then.
    """
    import torch

    examples = example if isinstance(example, tuple) else (example,)
    scratch = tempfile.TemporaryDirectory() if path is None else None
    file = Path(path) if path is not None else Path(scratch.name) / f"{type(model).__name__}.onnx"  # type: ignore[union-attr]
    drops = any(isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0 for module in model.modules())
    training = model.training
    model.train()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            if drops:
                torch.onnx.export(model, examples, str(file), dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                                  do_constant_folding=False, input_names=_input_names(model, examples))
            else:
                torch.onnx.export(model, examples, str(file), dynamo=True, optimize=False, external_data=False, verbose=False)
    finally:
        model.train(training)
    network = Network(file)
    network._keep = (scratch,)
    return network


def load(model: Any, weights: Mapping[str, Any]) -> Any:
    """Gives a module weights by name, and returns it; of its buffers only running statistics need be there. KeyError names what is
    missing or not known."""
    import torch

    own = model.state_dict(keep_vars=True)
    unknown = [name for name in weights if name not in own]
    given = {own[name].data_ptr() for name in weights if name in own}
    # A parameter that two modules share stands once in what is given; other buffers do not change in training.
    missing = [name for name, value in own.items() if name not in weights and value.data_ptr() not in given and
               (isinstance(value, torch.nn.Parameter) or name.endswith(("running_mean", "running_var")))]
    if unknown or missing:
        raise KeyError(f"'{unknown[0]}' is not in the module" if unknown else f"'{missing[0]}' has no weights")
    model.load_state_dict({name: torch.from_numpy(numpy.array(value)) for name, value in weights.items()}, strict=False)
    return model
