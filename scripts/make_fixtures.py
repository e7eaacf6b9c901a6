#!/usr/bin/env python3
"""Writes test/fixtures/pytorch_conv2d.json: convolutions computed by PyTorch in float64.

The tests' own double-precision oracle is checked against these, so that the oracle and the engine cannot be
wrong together. Tensors are not stored: both sides build element i of the tensor with salt s as

    value(i, s) = (((i + 1) * 2654435761 + s * 40503) mod 2^32 >> 8) / 2^23 - 1       in [-1, 1)

which has 24 significant bits and is therefore exact in float32. Salts: input 1, weight 2, bias 3, residual 4.

Needs PyTorch and NumPy:  python3 scripts/make_fixtures.py [OUTPUT_FILE]
"""

import json
import pathlib
import sys

import numpy as np
import torch
from torch.nn import functional as F

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "leakyRelu": F.leaky_relu,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "hardSwish": F.hardswish,
    "clip": lambda x: torch.clamp(x, -0.5, 0.75),
}


def values(dims, salt):
    i = np.arange(1, int(np.prod(dims)) + 1, dtype=np.uint64)
    bits = ((i * np.uint64(2654435761) + np.uint64(salt * 40503)) & np.uint64(0xFFFFFFFF)) >> np.uint64(8)
    return torch.from_numpy(bits.astype(np.float64) / 2**23 - 1).reshape(dims)


def case(name, n, c, h, w, k, r, s, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1,
         bias=False, residual=False, activation="none"):
    """padding is [top, left, bottom, right]; 'same' and 'valid' are given by name and use PyTorch's own."""
    x, weight = values((n, c, h, w), 1), values((k, c // groups, r, s), 2)
    b = values((k,), 3) if bias else None
    if isinstance(padding, str):
        y = F.conv2d(x, weight, b, stride, padding, dilation, groups)
    else:
        top, left, bottom, right = padding
        y = F.conv2d(F.pad(x, (left, right, top, bottom)), weight, b, stride, 0, dilation, groups)
    if residual:
        y = y + values(tuple(y.shape), 4)
    y = ACTIVATIONS[activation](y)
    return dict(
        name=name, inputDims=[n, c, h, w], weightDims=[k, c // groups, r, s], stride=list(stride),
        padding=padding if isinstance(padding, str) else list(padding), dilation=list(dilation), groups=groups,
        bias=bias, residual=residual, activation=activation, outputDims=list(y.shape),
        output=[float(f"{v:.12g}") for v in y.flatten().tolist()],
    )


def cases():
    yield case("one element", 1, 1, 1, 1, 1, 1, 1)
    yield case("3x3", 1, 2, 6, 7, 3, 3, 3)
    yield case("3x3 padded", 2, 3, 5, 6, 4, 3, 3, padding=(1, 1, 1, 1))
    yield case("5x5 padded", 1, 2, 7, 6, 3, 5, 5, padding=(2, 2, 2, 2))
    yield case("7x7 stride 2", 1, 3, 13, 12, 4, 7, 7, stride=(2, 2), padding=(3, 3, 3, 3))
    yield case("11x11 stride 4", 1, 2, 23, 23, 2, 11, 11, stride=(4, 4))
    yield case("pointwise", 2, 5, 4, 3, 6, 1, 1)
    yield case("pointwise stride 2", 1, 4, 7, 5, 3, 1, 1, stride=(2, 2))
    yield case("row filter", 1, 2, 4, 9, 3, 1, 5, padding=(0, 2, 0, 2))
    yield case("column filter", 1, 2, 9, 4, 3, 5, 1, padding=(2, 0, 2, 0))
    yield case("even filter", 1, 2, 6, 6, 2, 2, 4)
    yield case("uneven padding", 1, 2, 5, 5, 3, 3, 3, padding=(2, 0, 1, 3))
    yield case("uneven stride", 1, 2, 9, 11, 3, 3, 3, stride=(3, 2), padding=(1, 1, 1, 1))
    yield case("dilated", 1, 2, 9, 9, 3, 3, 3, dilation=(2, 2))
    yield case("uneven dilation", 1, 2, 9, 12, 2, 3, 3, dilation=(1, 3), padding=(1, 2, 1, 2))
    yield case("dilated and strided", 1, 3, 11, 10, 2, 3, 3, stride=(2, 2), dilation=(2, 2), padding=(2, 2, 2, 2))
    yield case("padding wider than the filter", 1, 1, 3, 3, 2, 2, 2, padding=(3, 3, 3, 3))
    yield case("windows that lie in padding only", 1, 1, 2, 2, 1, 1, 1, stride=(2, 2), padding=(2, 2, 2, 2))
    yield case("filter larger than the input", 1, 2, 2, 3, 2, 5, 5, padding=(2, 2, 2, 2))
    yield case("two groups", 1, 4, 5, 5, 6, 3, 3, groups=2, padding=(1, 1, 1, 1))
    yield case("three groups, batch 2", 2, 6, 4, 5, 9, 3, 3, groups=3)
    yield case("depthwise", 1, 6, 6, 6, 6, 3, 3, groups=6, padding=(1, 1, 1, 1))
    yield case("depthwise stride 2", 1, 5, 7, 7, 5, 3, 3, groups=5, stride=(2, 2), padding=(1, 1, 1, 1))
    yield case("depthwise multiplier 3", 1, 4, 5, 6, 12, 3, 3, groups=4)
    yield case("depthwise 5x5 dilated", 1, 3, 10, 10, 3, 5, 5, groups=3, dilation=(2, 2), padding=(4, 4, 4, 4))
    yield case("grouped pointwise", 2, 8, 3, 3, 4, 1, 1, groups=4)
    yield case("many channels", 1, 37, 4, 4, 3, 3, 3, padding=(1, 1, 1, 1))
    yield case("many filters", 1, 3, 4, 4, 29, 3, 3)
    yield case("one row", 1, 2, 1, 17, 3, 1, 3, padding=(0, 1, 0, 1))
    yield case("one column", 1, 2, 17, 1, 3, 3, 1, padding=(1, 0, 1, 0))
    yield case("whole map", 2, 4, 4, 4, 10, 4, 4)
    for r, s, dilation in [(3, 3, (1, 1)), (2, 2, (1, 1)), (4, 3, (1, 1)), (3, 2, (2, 3)), (1, 1, (1, 1))]:
        yield case(f"same {r}x{s} dilation {dilation}", 1, 2, 7, 8, 2, r, s, padding="same", dilation=dilation)
    yield case("valid stride 2", 1, 2, 8, 7, 2, 3, 3, padding="valid", stride=(2, 2))
    for activation in ACTIVATIONS:
        yield case(f"{activation} with bias", 1, 3, 5, 5, 3, 3, 3, bias=True, activation=activation)
        yield case(f"{activation} with bias and residual", 2, 2, 5, 4, 3, 2, 2, padding=(1, 0, 0, 1), bias=True,
                   residual=True, activation=activation)
    yield case("residual alone", 1, 2, 4, 4, 2, 3, 3, residual=True, padding=(1, 1, 1, 1))
    yield case("everything", 2, 6, 9, 8, 4, 3, 2, stride=(2, 1), padding=(0, 1, 2, 3), dilation=(2, 3), groups=2,
               bias=True, residual=True, activation="silu")


def main():
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "test/fixtures/pytorch_conv2d.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = list(cases())
    about = f"Made by scripts/make_fixtures.py with PyTorch {torch.__version__.split('+')[0]}, float64"
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path.write_text(f'{{"about":{json.dumps(about)},"cases":[\n{lines}\n]}}\n')
    print(f"{len(rows)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
