#!/usr/bin/env python3
"""Writes the networks of examples/detect.mjs, whose weights nothing was trained for: they are matched filters.

The detector finds red circles, green squares and blue diamonds, filled and upright, 24 to 84 pixels wide, in pictures
of 240 x 320. It is built as detectors with anchors are: colours become three masks, the masks shrink to a quarter, and
around every cell every class is compared with its shape in SIZES. A filter takes the mean over the shape, which counts
more near its edge, and subtracts what is in a rim around it. It gives 1 for that shape alone, and less for whatever is
smaller, larger or elsewhere.

Needs onnx and NumPy; less than a second.

    python3 scripts/make_detector.py [OUTPUT_DIRECTORY]

Writes to OUTPUT_DIRECTORY (default examples/detect):
    shapes.onnx        a picture [1, 3, 240, 320] of 0 to 1; boxes [1, M, 4] as x1, y1, x2, y2 in pixels, scores [1, 3, M],
                       and what NonMaxSuppression selects of them [K, 3]: picture, class, box
    suppression.onnx   NonMaxSuppression alone, for detectors that end without
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEIGHT, WIDTH = 240, 320
STRIDE = 4
ROWS, COLUMNS = HEIGHT // STRIDE, WIDTH // STRIDE
# Widths of shapes in cells, each 12 % above the one before: a shape between two of them overlaps its box by 89 % at least.
SIZES = 6 * 1.12 ** np.arange(12)
# What is compared on either side of an edge, as a part of the width.
RIM = 0.12
# How much more what is around a shape counts than what is in it: small shapes fit into the corners of large ones.
DISLIKE = 1.2
# Cells; more than the largest shape with its rim.
KERNEL = 27
OPSET = 17

f32 = lambda values: np.asarray(values, np.float32)
i64 = lambda *values: np.asarray(values, np.int64)


def circle(x, y):
    return x * x + y * y <= 1


def square(x, y):
    return np.maximum(abs(x), abs(y)) <= 1


def diamond(x, y):
    return abs(x) + abs(y) <= 1


def coverage(shape, size):
    """How much of each cell of the kernel a shape of so many cells covers."""
    samples = 8
    at = (np.arange(KERNEL * samples) + 0.5) / samples - KERNEL / 2
    x, y = np.meshgrid(at, at)
    covered = shape(2 * x / size, 2 * y / size)
    return covered.reshape(KERNEL, samples, KERNEL, samples).mean((1, 3))


def matched_filter(shape, size):
    inside, core, outside = (coverage(shape, size * (1 + by)) for by in (0, -2 * RIM, 2 * RIM))
    mean = lambda weights: weights / weights.sum()
    return (mean(inside) + mean(inside - core)) / 2 - DISLIKE * mean(outside - inside)


def detector():
    # Red is what is in red and neither in green nor in blue; grey is nothing.
    opponents = 2 * (1.5 * np.eye(3) - 0.5)
    filters = [matched_filter(shape, size) for shape in (circle, square, diamond) for size in SIZES]
    # Corners around the middle of a cell: [1, sizes, rows, columns, 4] in three parts.
    middle = lambda count: STRIDE * (np.arange(count) + 0.5)
    corners = f32(SIZES)[:, None, None, None] * STRIDE / 2 * f32([-1, -1, 1, 1])
    columns = middle(COLUMNS)[:, None] * f32([1, 0, 1, 0])
    rows = middle(ROWS)[:, None, None] * f32([0, 1, 0, 1])
    constants = dict(
        opponents=f32(opponents)[:, :, None, None], filters=f32(filters)[:, None], corners=f32(corners),
        columns=f32(columns), rows=f32(rows), zero=f32(0), one=f32(1), box_shape=i64(1, -1, 4),
        score_shape=i64(1, 3, -1), most=i64(50), overlap=f32([0.3]), least=f32([0.4]),
    )
    node = helper.make_node
    half = KERNEL // 2
    nodes = [
        node("Conv", ["image", "opponents"], ["colours"]),
        node("Clip", ["colours", "zero", "one"], ["masks"]),
        node("AveragePool", ["masks"], ["cells"], kernel_shape=[STRIDE] * 2, strides=[STRIDE] * 2),
        node("Conv", ["cells", "filters"], ["matches"], group=3, pads=[half] * 4),
        node("Clip", ["matches", "zero", "one"], ["likeness"]),
        node("Reshape", ["likeness", "score_shape"], ["scores"]),
        node("Add", ["rows", "columns"], ["middles"]),
        node("Add", ["middles", "corners"], ["anchors"]),
        node("Reshape", ["anchors", "box_shape"], ["boxes"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["selected"]),
    ]
    count = len(SIZES) * ROWS * COLUMNS
    value = helper.make_tensor_value_info
    outputs = [
        value("boxes", TensorProto.FLOAT, [1, count, 4]),
        value("scores", TensorProto.FLOAT, [1, 3, count]),
        value("selected", TensorProto.INT64, ["K", 3]),
    ]
    inputs = [value("image", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])]
    return model("shapes", nodes, inputs, outputs, constants)


def suppression():
    value = helper.make_tensor_value_info
    inputs = [
        value("boxes", TensorProto.FLOAT, [1, "M", 4]),
        value("scores", TensorProto.FLOAT, [1, "C", "M"]),
        value("most", TensorProto.INT64, [1]),
        value("overlap", TensorProto.FLOAT, [1]),
        value("least", TensorProto.FLOAT, [1]),
    ]
    node = helper.make_node("NonMaxSuppression", [one.name for one in inputs], ["selected"])
    return model("suppression", [node], inputs, [value("selected", TensorProto.INT64, ["K", 3])], {})


def model(name, nodes, inputs, outputs, constants):
    initializers = [numpy_helper.from_array(array, key) for key, array in constants.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "examples/detect")
    directory.mkdir(parents=True, exist_ok=True)
    for name, made in [("shapes", detector()), ("suppression", suppression())]:
        onnx.save(made, directory / f"{name}.onnx")


if __name__ == "__main__":
    main()
