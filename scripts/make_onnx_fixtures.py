#!/usr/bin/env python3
"""Writes test/fixtures/onnx_folding.json: small models, and what ONNX's reference implementation makes of them.

Every model is one node on constants, written by ONNX's own library, so that reading them also tests the loader against
another writer. Elements are strings, since JSON has neither 64-bit integers nor NaN.

Needs onnx and NumPy:  python3 scripts/make_onnx_fixtures.py [OUTPUT_FILE]
"""

import base64
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

i64 = lambda *values: np.array(values, np.int64)
i32 = lambda *values: np.array(values, np.int32)
f32 = lambda *values: np.array(values, np.float32)
f64 = lambda *values: np.array(values, np.float64)
flags = lambda *values: np.array(values, np.bool_)
scalar = lambda value, dtype=np.int64: np.array(value, dtype)
grid = np.arange(24, dtype=np.int64).reshape(2, 3, 4)


def case(name, operator, inputs, opset=18, outputs=1, **attributes):
    """An input of None is left out."""
    names = ["" if value is None else f"in{index}" for index, value in enumerate(inputs)]
    outs = [f"out{index}" for index in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(operator, names, outs, name=name, **attributes)],
        "one_node",
        [],
        [helper.make_tensor_value_info(out, TensorProto.UNDEFINED, None) for out in outs],
        [numpy_helper.from_array(value, f"in{index}") for index, value in enumerate(inputs) if value is not None],
    )
    # The type of an output has to be there; the tests read the node's results and not this.
    for out in graph.output:
        out.type.tensor_type.elem_type = TensorProto.FLOAT
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    results = ReferenceEvaluator(model).run(None, {})
    return dict(
        name=f"{operator}: {name}",
        model=base64.b64encode(model.SerializeToString()).decode(),
        outputs=[tensor(np.asarray(result)) for result in results],
    )


def tensor(array):
    return dict(type=array.dtype.name, dims=list(array.shape), elements=[text(e) for e in array.flatten().tolist()])


def text(element):
    if isinstance(element, float):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(element), repr(element))
    return str(int(element))


def creation():
    yield case("all", "Shape", [grid])
    yield case("from the second", "Shape", [grid], start=1)
    yield case("without the last", "Shape", [grid], start=0, end=-1)
    yield case("beyond", "Shape", [grid], start=-7, end=9)
    yield case("of a matrix", "Size", [grid])
    yield case("a tensor", "Constant", [], value=numpy_helper.from_array(grid))
    yield case("an integer", "Constant", [], value_int=-7)
    yield case("integers", "Constant", [], value_ints=[1, 2**40])
    yield case("a float", "Constant", [], value_float=0.1)
    yield case("floats", "Constant", [], value_floats=[0.1, -2.0])
    yield case("zeros", "ConstantOfShape", [i64(2, 3)])
    yield case("sevens", "ConstantOfShape", [i64(2)], value=numpy_helper.from_array(i64(7)))
    yield case("nothing", "ConstantOfShape", [i64(0, 3)])
    yield case("a scalar", "ConstantOfShape", [i64()], value=numpy_helper.from_array(flags(True)))
    yield case("up", "Range", [scalar(1), scalar(10), scalar(3)])
    yield case("down", "Range", [scalar(5, np.int32), scalar(-5, np.int32), scalar(-3, np.int32)])
    yield case("empty", "Range", [scalar(5), scalar(1), scalar(1)])
    yield case("floats", "Range", [scalar(0, np.float32), scalar(1, np.float32), scalar(0.25, np.float32)])
    yield case("matrix", "NonZero", [np.array([[0, 3, 0], [-1, 0, 2]], np.int64)])
    yield case("flags", "NonZero", [flags(True, False, True)])
    yield case("none", "NonZero", [i64(0, 0)])


def relabelling():
    yield case("plain", "Identity", [grid])
    yield case("inferred", "Reshape", [grid, i64(4, -1)])
    yield case("copied", "Reshape", [grid, i64(0, 0, 2, -1)])
    yield case("to a scalar", "Reshape", [i64(5), i64()])
    yield case("of nothing", "Reshape", [np.zeros((0, 3), np.int64), i64(3, 0)], allowzero=1)
    for axis in (0, 1, 3, -1):
        yield case(f"axis {axis}", "Flatten", [grid], axis=axis)
    ones = grid.reshape(1, 2, 1, 12)
    yield case("all", "Squeeze", [ones])
    yield case("one", "Squeeze", [ones, i64(-2)])
    yield case("by attribute", "Squeeze", [ones], opset=11, axes=[0, 2])
    yield case("two", "Unsqueeze", [grid, i64(0, -1)])
    yield case("a scalar", "Unsqueeze", [scalar(3), i64(0)])
    yield case("by attribute", "Unsqueeze", [grid], opset=11, axes=[1, 3])


def movement():
    yield case("scalar index", "Gather", [i64(10, 20, 30), scalar(-1)])
    yield case("matrix of indices", "Gather", [grid, np.array([[0, 2], [1, -3]], np.int64)], axis=1)
    yield case("last axis", "Gather", [grid, i32(3, 0)], axis=-1)
    yield case("lists", "Concat", [i64(1), i64(2, 3), i64()], axis=0)
    yield case("inner axis", "Concat", [grid, grid[:, :1] + 100], axis=-2)
    yield case("flags", "Concat", [flags(True), flags(False)], axis=0)
    yield case("middle", "Slice", [i64(0, 1, 2, 3, 4, 5), i64(1), i64(4)])
    yield case("from the back", "Slice", [grid, i64(-1, -3), i64(2**63 - 1, -1), i64(0, -1)])
    yield case("steps", "Slice", [grid, i64(0, 0), i64(100, 100), i64(1, 2), i64(2, 3)])
    yield case("backwards", "Slice", [i64(0, 1, 2, 3, 4, 5), i64(-1), i64(-(2**63)), i64(0), i64(-2)])
    yield case("backwards, part", "Slice", [grid, i64(10), i64(0), i64(2), i64(-1)])
    yield case("empty", "Slice", [i64(0, 1, 2), i64(2), i64(1)])
    yield case("without axes", "Slice", [grid, i64(1), i64(2), None, i64(1)])
    yield case("in parts", "Split", [i64(1, 2, 3, 4, 5), i64(2, 3)], outputs=2)
    yield case("evenly", "Split", [grid], outputs=2, axis=2, opset=13)
    yield case("by attribute", "Split", [grid], outputs=2, axis=1, split=[1, 2], opset=11)
    yield case("unevenly", "Split", [i64(1, 2, 3, 4, 5)], outputs=2, num_outputs=2)
    yield case("reversed", "Transpose", [grid])
    yield case("permuted", "Transpose", [grid], perm=[1, 2, 0])
    yield case("up", "Expand", [np.array([[1], [2]], np.int64), i64(3, 1, 2)])
    yield case("its own dims stay", "Expand", [grid, i64(1, 1)])
    yield case("matrix", "Tile", [np.array([[1, 2], [3, 4]], np.int64), i64(2, 3)])
    yield case("no times", "Tile", [i64(1, 2), i64(0)])


def elementwise():
    whole, other = i64(7, -7, 7, -7, 2**62), i64(2, 2, -2, -2, 3)
    for operator in ("Add", "Sub", "Mul"):
        yield case("int64", operator, [whole, other])
        yield case("int32 wraps around", operator, [i32(2**31 - 1, -(2**31)), i32(2, 2)])
        yield case("uint8 wraps around", operator, [np.array([200, 3], np.uint8), np.array([100, 5], np.uint8)])
        yield case("float32 is rounded", operator, [f32(1e8, 0.1, 1e30), f32(1, 0.2, 1e30)])
        yield case("float64", operator, [f64(0.1), f64(0.2)])
        yield case("broadcast", operator, [grid, np.array([[1], [2], [3]], np.int64)])
    yield case("positive integers", "Div", [i64(7, 8, 2**62 + 1), i64(2, 4, 2)])
    yield case("floats", "Div", [f32(1, -1, 0, 1), f32(3, 0, 0, np.inf)])
    yield case("by the divisor's sign", "Mod", [whole, other])
    yield case("by the dividend's sign", "Mod", [whole, other], fmod=1)
    yield case("floats", "Mod", [f32(5.5, -5.5), f32(2, 2)], fmod=1)
    yield case("integers", "Pow", [i64(2, -3, 5, 3), i64(10, 3, 0, 62)])
    yield case("floats", "Pow", [f64(2, 4), f64(-1, 0.5)])
    yield case("of both types", "Pow", [f32(2, 3), i64(3, 2)])
    for operator in ("Min", "Max"):
        yield case("three", operator, [i64(1, 5), i64(3), scalar(2)])
        yield case("one", operator, [i64(1, 5)])
        yield case("NaN", operator, [f32(np.nan, 1, np.inf), f32(0, np.nan, 1)])
    for operator in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        yield case("integers", operator, [i64(1, 2, 2**53 + 1), i64(2, 2, 2**53)])
        yield case("floats", operator, [f32(1, np.nan, np.inf), f32(1, np.nan, 1)])
    yield case("flags", "Equal", [flags(True, False), flags(True)])
    for operator in ("And", "Or", "Xor"):
        yield case("flags", operator, [flags(True, True, False, False), flags(True, False, True, False)])
    yield case("flags", "Not", [flags(True, False)])
    yield case("integers", "Neg", [i64(3, -(2**63))])
    yield case("floats", "Neg", [f32(0, -1.5)])
    yield case("integers", "Abs", [i32(3, -4)])
    yield case("floats", "Abs", [f32(-0.5, np.nan)])
    yield case("floats", "Sqrt", [f32(2, 0, -1)])
    yield case("doubles", "Sqrt", [f64(2)])
    yield case("floats", "Floor", [f32(1.5, -1.5, 3)])
    yield case("floats", "Ceil", [f32(1.5, -1.5, 3)])
    yield case("halves to even", "Round", [f32(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1.4, -1.6)])
    yield case("broadcast", "Where", [flags(True, False), np.array([[1], [2]], np.int64), scalar(9)])
    yield case("floats", "Where", [flags(True, False), f32(1, 2), f32(3, 4)])
    yield case("float to integer", "Cast", [f32(1.9, -1.9, 3e9)], to=TensorProto.INT64)
    yield case("integer to float", "Cast", [i64(2**24 + 1, -3)], to=TensorProto.FLOAT)
    yield case("integer to double", "Cast", [i64(2**53, -3)], to=TensorProto.DOUBLE)
    yield case("to narrower integers", "Cast", [i64(300, -1, 2**31)], to=TensorProto.INT32)
    yield case("to bool", "Cast", [f32(0, 0.5, -1)], to=TensorProto.BOOL)
    yield case("from bool", "Cast", [flags(True, False)], to=TensorProto.INT64)
    yield case("like another", "CastLike", [i64(1, 2), f32(0)])


def reduction():
    for operator in ("ReduceSum", "ReduceProd", "ReduceMin", "ReduceMax"):
        yield case("all", operator, [grid + 1])
        yield case("dropped", operator, [grid, i64(0, -1)], keepdims=0)
        yield case("kept", operator, [grid, i64(1)])
        yield case("floats", operator, [f32(1.5, -2, 0.25)], keepdims=0)
        yield case("not at all", operator, [grid, i64()], noop_with_empty_axes=1)
    yield case("by attribute", "ReduceMax", [grid], axes=[1], opset=13)
    yield case("nothing", "ReduceSum", [np.zeros((0, 2), np.int64), i64(0)])
    yield case("nothing", "ReduceProd", [np.zeros((0, 2), np.float32), i64(0)])


def main():
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "test/fixtures/onnx_folding.json")
    with np.errstate(all="ignore"):
        rows = [row for part in (creation, relabelling, movement, elementwise, reduction) for row in part()]
    about = f"Made by scripts/make_onnx_fixtures.py with onnx {onnx.__version__}"
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path.write_text(f'{{"about":{json.dumps(about)},"cases":[\n{lines}\n]}}\n')
    print(f"{len(rows)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
