"""Runs ONNX's backend node tests through Penstock, and prints what passes, what fails and what is skipped, with the reason.

    onnx_nodes.py PENSTOCK OPERATORS.md [--device NAME] [--only REGEX] [--keep DIRECTORY] [--verbose]

Tested is every operator that the list in docs/formats.md names. A node test has no batch, and a network has one, so a test
becomes a network in one of three ways:

  first   the first dimension of the data is the batch, where the operator works on each of its rows alone (convolutions, pooling,
          norms, attention); one of 1 is repeated
  front   a batch of two equal samples is put in front of all other dimensions, and the node's axes count one more
  folded  all inputs are constants: what the reader computes of them is added to an input of zeros

What an operator takes as a parameter (weights, tables) becomes an initializer; shapes, axes, indices and bounds become constants.
Each test runs at opset 23, and at the oldest opset from 13 on at which the operator has the same attributes and inputs; those
that came later run at their own, up to 26. Outputs must agree to 1e-5 of the largest element, or to 2e-3 or 5e-3
where the test computes in 16 bits.
"""
import argparse, collections, concurrent.futures, json, os, re, subprocess, sys, tempfile, types, warnings

import numpy as np
import onnx
import onnx.reference
from onnx import TensorProto, helper, numpy_helper

warnings.filterwarnings("ignore")
OLDEST, USUAL, NEWEST = 13, 23, 26

# Inputs that are data, by operator; else all of them. Those that are parameters become initializers, all others constants.
DATA = {
    "Conv": [0], "ConvTranspose": [0], "BatchNormalization": [0], "LayerNormalization": [0], "RMSNormalization": [0],
    "GroupNormalization": [0], "InstanceNormalization": [0], "Reshape": [0], "Expand": [0], "Slice": [0], "Pad": [0],
    "Resize": [0], "Squeeze": [0], "Unsqueeze": [0], "Split": [0], "SplitToSequence": [0], "Gather": [0], "GatherND": [0],
    "GatherElements": [0], "Clip": [0], "Dropout": [0], "LSTM": [0], "GRU": [0], "Tile": [0], "CumSum": [0], "Trilu": [0],
    "CastLike": [0], "Attention": [0, 1, 2, 3], "RotaryEmbedding": [0], "Gemm": [0], "ScatterElements": [0, 2], "ScatterND": [0, 2], "OneHot": [0], "RNN": [0],
}
PARAMETERS = {"Conv": [1, 2], "ConvTranspose": [1, 2], "BatchNormalization": [1, 2, 3, 4], "LayerNormalization": [1, 2],
              "RMSNormalization": [1], "GroupNormalization": [1, 2], "InstanceNormalization": [1, 2], "LSTM": [1, 2, 3],
              "GRU": [1, 2, 3], "RNN": [1, 2, 3], "Gemm": [1, 2]}
# Where the first dimension is the batch.
FIRST = {"Conv", "ConvTranspose", "BatchNormalization", "LayerNormalization", "RMSNormalization", "GroupNormalization",
         "InstanceNormalization", "LRN", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Attention", "Resize",
         "LSTM", "GRU", "RNN", "Flatten", "Gemm", "RotaryEmbedding"}
FOLDED_ALONE = {"Constant", "ConstantOfShape", "Range", "Shape", "Size"}


# Tests whose reference is another than what is meant here.
DIFFERENT = {
    r"^test_training_dropout": "other random numbers are drawn",
    r"^test_resize_downsample_scales_\w+_align_corners$": "the last pixel counts as it does in PyTorch and ONNX Runtime, in whole pixels",
    r"^test_averagepool_2d_ceil_last_window_starts_on_pad$": "its reference has four digits",
}


class Skip(Exception):
    pass


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def with_attributes(node, **changes):
    """The node with some attributes changed; None takes one away."""
    kept = [a for a in node.attribute if a.name not in changes]
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(kept)
    copy.attribute.extend(helper.make_attribute(k, v) for k, v in changes.items() if v is not None)
    return copy


def plain(array):
    """Of a type that a network's input has: f32, or whole numbers."""
    if array.dtype == np.bool_ or array.dtype == np.float32:
        return array
    if np.issubdtype(array.dtype, np.integer):
        if array.size and (array.max() >= 2**31 or array.min() < -2**31):
            raise Skip("whole numbers of more than 32 bits")
        return array.astype(np.int64)
    if array.dtype.kind in "fV":
        return array.astype(np.float32)
    raise Skip(f"elements of type {array.dtype}")


def versions(op, version):
    """The opsets at which the operator is as it was at `version`, the usual one and the oldest."""
    def face(at):
        try:
            schema = onnx.defs.get_schema(op, at, "")
        except onnx.defs.SchemaError:
            return None
        return sorted(schema.attributes), [i.name for i in schema.inputs]
    fits = [v for v in range(OLDEST, NEWEST + 1) if face(v) == face(max(version, v))]
    if not fits:
        raise Skip(f"the operator is as in opset {version}, and opsets up to {NEWEST} are read")
    usual = max((v for v in fits if v <= USUAL), default=min(fits))
    return sorted({usual, min(fits)})


class Network:
    """A model of one node, or of a function's body, with a parameter behind it: zeros that are added."""

    def __init__(self, opset):
        self.opset, self.nodes, self.inputs, self.initializers, self.marks = opset, [], [], [], []
        self.feeds, self.count, self.zeros = {}, 0, None

    def name(self):
        self.count += 1
        return f"own_{self.count}"

    def add(self, op, inputs, **attributes):
        out = self.name()
        self.nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    def input(self, name, array):
        array = plain(array)
        kind = TensorProto.BOOL if array.dtype == np.bool_ else TensorProto.FLOAT if array.dtype.kind == "f" else TensorProto.INT64
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feeds[name] = array.astype(np.int32) if array.dtype.kind in "bi" else array

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        self.marks.append((name, "BUFFER", array))

    def parameter(self, name, array):
        array = plain(array)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        self.marks.append((name, "PARAMETER", array))

    def add_zeros(self, value, expected):
        shape, self.zeros = self.name(), "own_input"
        self.constant(shape, np.array(expected.shape, np.int64))
        self.input(self.zeros, np.zeros(expected.shape, np.float32))
        return self.add("Add", [self.add("Reshape", [value, shape]), self.zeros])

    def finish(self, value, expected, batch):
        """Flattens the value to (batch, features); the sum with zeros is the output."""
        expected = np.asarray(expected)
        if expected.size == 0:
            raise Skip("an output without elements")
        if expected.dtype.kind != "f":
            value = self.add("Cast", [value], to=TensorProto.FLOAT)
        expected = expected.astype(np.float32).reshape(batch, -1)
        if all(array.dtype != np.float32 for array in self.feeds.values()):  # a network reads more than whole numbers
            value = self.add_zeros(value, expected)
        shape = self.name()
        self.constant(shape, np.array([batch, expected.shape[1]], np.int64))
        if self.zeros is None:
            value = self.add("Reshape", [value, shape])
        self.parameter("own.zeros", np.zeros(expected.shape[1], np.float32))
        self.nodes.append(helper.make_node("Add", [value, "own.zeros"], ["own_output"], name="own_output"))
        self.expected = expected

    def model(self):
        output = helper.make_tensor_value_info("own_output", TensorProto.FLOAT, self.expected.shape)
        graph = helper.make_graph(self.nodes, "node", self.inputs, [output], self.initializers)
        for name, kind, array in self.marks:
            info = helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
            graph.value_info.append(info)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def broadcasts(op):
    return op in {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less",
                  "LessOrEqual", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "MatMul", "Mod"}


def data_of(op, node):
    usual = [0] if op.startswith("Reduce") else range(len(node.input))
    return [i for i in DATA.get(op, usual) if i < len(node.input) and node.input[i] and i not in PARAMETERS.get(op, [])]


def finite(array):
    """Infinite numbers and those that are none cannot be compared: 0 stands for them."""
    return np.where(np.isfinite(array), array, 0).astype(array.dtype) if array.dtype == np.float32 else array


def front(network, node, arrays, outputs, which):
    """A batch of two in front: returns the node to add."""
    op, given = node.op_type, attributes(node)
    data = data_of(op, node)
    x = arrays[node.input[data[0]]]
    rank = x.ndim
    constant = {}  # by input: what stands there instead
    shifted = lambda axes: [a if a < 0 else a + 1 for a in axes]
    axes_at = {"Squeeze": 1, "Unsqueeze": 1, "Slice": 3, "Pad": 3}.get(op, 1 if op.startswith("Reduce") else None)
    if "axis" in given and given["axis"] >= 0:
        node = with_attributes(node, axis=given["axis"] + 1)
    elif op in ("Split", "SplitToSequence", "Gather", "GatherElements", "ScatterElements", "ArgMax", "ArgMin"):
        node = with_attributes(node, axis=given.get("axis", 0) if given.get("axis", 0) < 0 else 1)
    if op in ("Flatten", "Gemm", "GatherND", "RotaryEmbedding"):
        raise Skip("its meaning changes where a batch stands in front")
    if op == "Transpose":
        perm = list(given.get("perm", range(rank - 1, -1, -1)))
        node = with_attributes(node, perm=[0] + [p + 1 for p in perm])
    if op == "Einsum" and b"..." not in given["equation"]:
        terms, arrow, out = given["equation"].decode().replace(" ", "").partition("->")
        node = with_attributes(node, equation=",".join("..." + term for term in terms.split(",")) + (arrow and arrow + "..." + out))
    if op in ("GatherElements", "ScatterElements"):
        constant[1] = np.stack([arrays[node.input[1]]] * 2)
    if op == "ScatterND":
        index = arrays[node.input[1]]
        constant[1] = np.stack([np.concatenate([np.full_like(index[..., :1], n), index], -1) for n in range(2)])
    if op == "Reshape":
        constant[1] = np.concatenate([[2], arrays[node.input[1]]]).astype(np.int64)
    if op == "Expand":
        shape = arrays[node.input[1]]
        more = max(len(shape) - rank, 0)
        arrays = {**arrays, node.input[0]: x.reshape((1,) * more + x.shape)}
        constant[1] = np.concatenate([[1] * (1 + max(rank - len(shape), 0)), shape]).astype(np.int64)
    if op == "Tile":
        constant[1] = np.concatenate([[1], arrays[node.input[1]]]).astype(np.int64)
    if op == "CumSum":
        constant[1] = np.array(shifted([int(arrays[node.input[1]].reshape(-1)[0])])[0], np.int64)
    if op == "Resize":
        for i in (2, 3):
            if i < len(node.input) and node.input[i] and arrays[node.input[i]].size:
                values = arrays[node.input[i]]
                if len(values) != rank or "axes" in given:
                    raise Skip("Resize with axes")
                constant[i] = np.concatenate([[1.0 if i == 2 else 2], values]).astype(values.dtype)
    if op == "Pad" and not (len(node.input) > 3 and node.input[3]):
        pads = arrays[node.input[1]]
        constant[1] = np.concatenate([[0], pads[:rank], [0], pads[rank:]]).astype(np.int64)
    if op == "Slice" and not (len(node.input) > 3 and node.input[3]):
        starts = arrays[node.input[1]]
        node.input.extend([""] * (3 - len(node.input)) + ["own_axes"])
        arrays = {**arrays, "own_axes": np.arange(1, len(starts) + 1, dtype=np.int64)}
    elif op == "Squeeze" and len(node.input) == 1:
        node.input.append("own_axes")
        arrays = {**arrays, "own_axes": np.array([d + 1 for d in range(rank) if x.shape[d] == 1], np.int64)}
    elif op.startswith("Reduce") and ("axes" not in given) and (len(node.input) == 1 or arrays.get(node.input[1], x).size == 0):
        if given.get("noop_with_empty_axes", 0) and (len(node.input) == 1 or arrays[node.input[1]].size == 0):
            pass  # nothing is reduced, whatever the rank
        else:
            del node.input[1:]
            node.input.append("own_axes")
            arrays = {**arrays, "own_axes": np.arange(1, rank + 1, dtype=np.int64)}
    elif axes_at is not None and axes_at < len(node.input) and node.input[axes_at]:
        constant[axes_at] = np.array(shifted(arrays[node.input[axes_at]]), np.int64)
    if "axes" in given:
        node = with_attributes(node, axes=shifted(given["axes"]))
    if op.startswith("Reduce") and op != "ReduceSum" and network.opset < 18:  # axes were an attribute
        axes = constant.get(1, arrays.get(node.input[1]) if len(node.input) > 1 else None)
        if "noop_with_empty_axes" in given:
            raise Skip("opset 18 brought noop_with_empty_axes")
        node = with_attributes(node, axes=[int(a) for a in axes])
        del node.input[1:]
        constant.pop(1, None)
    if op == "MatMul" and any(arrays[node.input[i]].ndim < 2 for i in data):
        raise Skip("a vector has no place for a batch")
    if op == "Split" and len(node.input) == 1 and network.opset >= 18 and "num_outputs" not in attributes(node):
        node = with_attributes(node, num_outputs=len(node.output))
    ranks = max(arrays[node.input[i]].ndim for i in data)
    for i, name in enumerate(node.input):
        if name == "" or name in network.feeds or any(t.name == name for t in network.initializers):
            continue
        array = arrays[name]
        if i in data:
            if broadcasts(op):
                array = array.reshape((1,) * (ranks - array.ndim) + array.shape)
            network.input(name, np.stack([array, array]))
        elif i in constant:
            network.constant(name + "_own", constant[i])
            node.input[i] = name + "_own"
        else:
            network.constant(name, array)
    network.nodes.append(node)
    expected = np.asarray(outputs[which])
    return node.output[which], np.stack([expected, expected]), 2


def first(network, node, arrays, outputs, which):
    """The first dimension is the batch."""
    op, given = node.op_type, attributes(node)
    data = data_of(op, node)
    x = arrays[node.input[data[0]]]
    turned = op in ("LSTM", "GRU") and given.get("layout", 0) == 0  # (T, N, D)
    n = x.shape[1] if turned else x.shape[0] if x.ndim else 0
    if op == "Gemm" and given.get("transA", 0):
        raise Skip("the batch of a transposed matrix is its second dimension")
    if op in ("LayerNormalization", "RMSNormalization") and given.get("axis", -1) in (0, -x.ndim):
        raise Skip("it takes the mean over all samples")
    if op == "Flatten" and given.get("axis", 1) % max(x.ndim, 1) != 1 % max(x.ndim, 1):
        raise Skip("it joins samples, or parts of one")
    if op == "BatchNormalization" and not given.get("training_mode", 0):
        raise Skip("networks are trained: statistics are those of the batch")
    if op == "BatchNormalization" and which > 0:
        raise Skip("running statistics are no outputs of a network")
    times = 2 if n == 1 else 1
    parameters = PARAMETERS.get(op, [])
    state = [5, 6] if op in ("LSTM", "GRU") else []
    for i, name in enumerate(node.input):
        if name == "" or name in network.feeds or any(t.name == name for t in network.initializers):
            continue
        array = arrays[name]
        if i in data:
            if op == "Attention" and i == 3 and (array.ndim < 4 or array.shape[0] != n):
                network.constant(name, array)
                continue
            if array.ndim == 0 or (array.shape[1 if turned else 0] != n):
                raise Skip("its inputs have no batch in common")
            if turned:
                array = np.repeat(array, times, 1).swapaxes(0, 1)
                network.input(name + "_own", array)
                node.input[i] = network.add("Transpose", [name + "_own"], perm=[1, 0, 2])
            else:
                network.input(name, np.repeat(array, times, 0))
        elif i in parameters:
            network.parameter(name, array)
        elif i in state and times > 1 and array.ndim == 3:
            network.constant(name, np.repeat(array, times, 0 if given.get("layout", 0) else 1))
        elif op == "Resize" and i in (2, 3) and times > 1 and i == 3 and len(array) == x.ndim:
            network.constant(name, np.concatenate([[array[0] * times], array[1:]]))
        else:
            network.constant(name, array)
    network.nodes.append(node)
    expected, value = np.asarray(outputs[which]), node.output[which]
    at = (2 if which == 0 else 1) if turned else 0
    if at:
        order = [at] + [d for d in range(expected.ndim) if d != at]
        value = network.add("Transpose", [value], perm=order)
        expected = expected.transpose(order)
    if expected.ndim == 0 or expected.shape[0] != n:
        raise Skip("its output has no batch")
    return value, np.repeat(expected, times, 0), n * times


def folded(network, node, arrays, outputs, which):
    """All inputs are constants, and an input of zeros is added."""
    for name in node.input:
        if name and not any(t.name == name for t in network.initializers):
            array = arrays[name]
            network.constant(name, array)
    network.nodes.append(node)
    expected = np.asarray(outputs[which])
    if expected.dtype.kind not in "biuf":
        raise Skip(f"elements of type {expected.dtype}")
    value = node.output[which]
    if expected.dtype != np.float32:
        value = network.add("Cast", [value], to=TensorProto.FLOAT)
    if not np.all(np.isfinite(expected.astype(np.float32))):
        raise Skip("an infinite number cannot be added to zero")
    count = expected.size
    shape = network.name()
    network.constant(shape, np.array([1, count], np.int64))
    value = network.add("Reshape", [value, shape])
    network.input("own_input", np.zeros((2, count), np.float32))
    value = network.add("Add", ["own_input", value])
    expected = expected.astype(np.float32).reshape(1, -1)
    return value, np.repeat(expected, 2, 0), 2


WAYS = {"first": first, "front": front, "folded": folded}


def ways_of(op, folds, values):
    if op in FOLDED_ALONE:
        return ["folded"]
    return (["first"] if op in FIRST else ["front"] if op in values else []) + (["folded"] if op in folds else [])


def runs_of(case, folds, values):
    """(label, network) or (label, why it is skipped) for each way, opset and output of a case."""
    graph = case.model.graph
    node, version = graph.node[0], case.model.opset_import[0].version
    data_set = case.data_sets[0]
    arrays = {}
    try:
        for info, given in zip(graph.input, data_set[0]):
            arrays[info.name] = numpy_helper.to_array(given) if isinstance(given, onnx.TensorProto) else np.asarray(given)
            if arrays[info.name].dtype == object or isinstance(given, list):
                raise Skip("an input that is no tensor")
        for pattern, why in DIFFERENT.items():
            if re.search(pattern, case.name) and not case.name.endswith("zero_ratio"):
                raise Skip(why)
        opsets = versions(node.op_type, version)
    except Skip as why:
        return [(case.name, str(why))]
    before, runs = dict(arrays), []
    for way in ways_of(node.op_type, folds, values):
        for opset in opsets:
            for which in range(len(node.output)):
                if which >= len(data_set[1]) or not node.output[which]:
                    continue
                label = f"{case.name} {way} {opset}" + (f" output {which}" if which else "")
                network = Network(opset)
                copy = onnx.NodeProto()
                copy.CopyFrom(node)
                copy.name = "tested"
                # outputs that are left out have no array
                place = sum(1 for o in node.output[:which] if o)
                try:
                    wanted = [numpy_helper.to_array(o) if isinstance(o, onnx.TensorProto) else o for o in data_set[1]]
                    if isinstance(wanted[place], list):
                        raise Skip("an output that is no tensor")
                    full = {i: wanted[sum(1 for o in node.output[:i] if o)] for i in range(len(node.output)) if node.output[i]}
                    if node.op_type in ("Cast", "CastLike"):
                        arrays = {k: finite(plain(v)) if k == node.input[0] else v for k, v in arrays.items()}
                        full = {k: finite(plain(v)) for k, v in full.items()}
                    value, expected, batch = WAYS[way](network, copy, arrays, full, which)
                    network.finish(value, expected, batch)
                    short = {str(np.asarray(a).dtype) for a in [*before.values(), *wanted]}
                    network.tolerance = 5e-3 if "bfloat16" in short else 2e-3 if "float16" in short else 1e-5
                    runs.append((label, network))
                except Skip as why:
                    runs.append((label, str(why)))
    return runs


def execute(program, device, directory, index, network):
    """None where the outputs agree, else what the program says."""
    path, reference = os.path.join(directory, f"{index}.onnx"), os.path.join(directory, f"{index}.npz")
    onnx.save(network.model(), path)
    arrays = {f"input/{k}": v for k, v in network.feeds.items()}
    np.savez(reference, **arrays, output=network.expected, labels=network.expected, loss=np.float32(0),
             **{"gradient/own.zeros": np.zeros(network.expected.shape[1], np.float32)})
    said = subprocess.run([program, "check", "--model", path, "--against", reference, "--loss", "mse", "--json", "--quiet",
                           "--device", device], capture_output=True, text=True)
    os.unlink(reference)
    if said.returncode < 0:
        return "failed", f"signal {-said.returncode}"
    if said.returncode > 1 or not said.stdout:
        lines = [line for line in said.stderr.strip().split("\n") if line.strip()]
        return "refused", (lines or [f"status {said.returncode}"])[0].replace(path, "FILE")
    error = json.loads(said.stdout).get("output_error")
    if error is None or not error <= network.tolerance:
        return "failed", f"the output differs by {error}"
    return "passed", ""


def offered(page):
    """The lists of operators of values and of constants alone in docs/formats.md."""
    text = open(page).read()
    lists = [re.search(rf"^{name}: (.*?)\.\n", text, re.M | re.S).group(1) for name in ("Of values", "Of constants alone")]
    return [set(re.findall(r"`(\w+)`", found)) for found in lists]


def own_cases():
    """GRU and LSTM with random weights: in ONNX's tests those of all gates are alike."""
    chance = np.random.default_rng(1)
    for op, gates, given in (("GRU", 3, {"linear_before_reset": 0}), ("GRU", 3, {"linear_before_reset": 1}), ("LSTM", 4, {})):
        hidden, shapes = 5, {"X": (3, 2, 4), "W": (1, gates * 5, 4), "R": (1, gates * 5, 5), "B": (1, 2 * gates * 5)}
        feeds = {name: chance.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
        node = helper.make_node(op, list(shapes), ["Y", "Y_h"], hidden_size=hidden, **given)
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output]
        model = helper.make_model(helper.make_graph([node], "node", inputs, outputs), ir_version=10,
                                  opset_imports=[helper.make_opsetid("", USUAL)])
        made = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        name = "_".join(["own", op.lower(), *("%s_%d" % item for item in given.items())])
        yield types.SimpleNamespace(name=name, model=model, data_sets=[(list(feeds.values()), made)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("page")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="a directory for the networks")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    from onnx.backend.test.case.node import collect_testcases
    values, constants = offered(given.page)
    folds = set(constants) | set(re.findall(r"`(\w+)`", re.search(r"^Both: (.*?)\.\n", open(given.page).read(), re.M | re.S).group(1)))
    runs, cases, others = [], 0, collections.Counter()
    for case in [*collect_testcases(""), *own_cases()]:
        graph = case.model.graph
        op = graph.node[0].op_type
        domain = graph.node[0].domain
        if len(graph.node) != 1 or domain not in ("", "ai.onnx") or op not in values | constants:
            others["bodies of functions" if len(graph.node) != 1 else op] += 1
            continue
        if not re.search(given.only, case.name):
            continue
        cases += 1
        runs += runs_of(case, folds, values)
    results = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory, \
            concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        waiting = {}
        for i, (label, network) in enumerate(runs):
            if given.keep and not isinstance(network, str):
                onnx.save(network.model(), os.path.join(given.keep, label.replace(" ", ".") + ".onnx"))
            if isinstance(network, str):
                results[label] = ("skipped", network)
            else:
                waiting[pool.submit(execute, given.program, given.device, directory, i, network)] = label
        for done in concurrent.futures.as_completed(waiting):
            results[waiting[done]] = done.result()
    counts = collections.Counter(kind for kind, _ in results.values())
    for label, (kind, why) in sorted(results.items(), key=lambda r: (r[1][0], r[0])):
        if kind == "failed" or given.verbose:
            print(f"{kind}: {label}: {why}".rstrip(": "))
    if not given.verbose:
        reasons = collections.Counter()
        for label, (kind, why) in results.items():
            if kind in ("refused", "skipped"):
                what = re.sub(r"^.*?\((\w+)\): ", r"\1: ", why) if kind == "refused" else why
                reasons[(kind, what)] += 1
        for (kind, what), count in sorted(reasons.items()):
            print(f"{kind} {count}: {what}")
    print(f"{cases} tests of {len(values | constants)} operators: " + ", ".join(f"{v} runs {k}" for k, v in sorted(counts.items())))
    print(f"not offered: {sum(others.values())} tests, of them {others.pop('bodies of functions', 0)} bodies of functions; "
          f"operators: {', '.join(sorted(others))}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
