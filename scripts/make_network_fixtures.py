#!/usr/bin/env python3
"""Writes test/fixtures/networks.json: small networks as ONNX files, with inputs and what PyTorch makes of them in float64.

Each is exported at an old and at a recent version of ONNX's operators, whose forms differ (axes and bounds that were
attributes became inputs). The weights and inputs are float32, so that only the arithmetic differs.

Needs PyTorch and onnx:  python3 scripts/make_network_fixtures.py [OUTPUT_FILE]
"""

import base64
import contextlib
import copy
import io
import json
import pathlib
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

OPSETS = (9, 11, 13, 17)


class Apply(nn.Module):
    """A function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Residual(nn.Module):
    """Two convolutions with normalisation, and the input added before the last activation."""

    def __init__(self, channels, activation):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.firstNorm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.secondNorm = nn.BatchNorm2d(channels)
        self.activation = activation

    def forward(self, x):
        y = self.activation(self.firstNorm(self.first(x)))
        return self.activation(self.secondNorm(self.second(y)) + x)


class Squeeze(nn.Module):
    """Squeeze-and-excitation after a depthwise convolution."""

    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 5, padding=2, stride=2, groups=channels)
        self.reduce = nn.Conv2d(channels, 3, 1)
        self.expand = nn.Conv2d(3, channels, 1)

    def forward(self, x):
        x = F.hardswish(self.depthwise(x))
        gate = F.relu(self.reduce(F.adaptive_avg_pool2d(x, 1)))
        return x * F.hardsigmoid(self.expand(gate))


class Branches(nn.Module):
    """Convolutions joined by concatenation, and a channel shuffle."""

    def __init__(self):
        super().__init__()
        self.left = nn.Conv2d(6, 4, 1)
        self.right = nn.Conv2d(6, 8, 3, padding=1)

    def forward(self, x):
        y = torch.cat([F.relu(self.left(x)), self.right(x), F.max_pool2d(x, 3, 1, 1)], 1)
        n, c, h, w = y.shape
        y = y.view(n, 3, c // 3, h, w).transpose(1, 2).reshape(n, c, h, w)
        a, b = y.chunk(2, 1)
        return a * torch.sigmoid(b)


def classifier(activation):
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), activation,
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), activation,
        nn.Conv2d(8, 16, 1), activation, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16 * 9, 10), nn.LogSoftmax(1))


IMAGE = (2, 6, 6, 7)
NETWORKS = {
    "classifier relu": (lambda: classifier(nn.ReLU()), [(3, 1, 12, 12)]),
    "classifier silu": (lambda: classifier(nn.SiLU()), [(2, 1, 12, 12)]),
    "classifier leaky": (lambda: classifier(nn.LeakyReLU(0.2)), [(1, 1, 12, 12)]),
    "residual relu": (lambda: Residual(6, nn.ReLU()), [IMAGE]),
    "residual hardswish": (lambda: Residual(6, nn.Hardswish()), [IMAGE]),
    "residual prelu": (lambda: Residual(6, nn.PReLU(6)), [IMAGE]),
    "residual mish": (lambda: Residual(6, nn.Mish()), [IMAGE]),
    "squeeze and excitation": (lambda: Squeeze(6), [IMAGE]),
    "branches": (lambda: Branches(), [IMAGE]),
    "normalised before convolution": (lambda: nn.Sequential(nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3)), [IMAGE]),
    "1-D": (lambda: nn.Sequential(nn.Conv1d(4, 8, 5, stride=2, padding=2), nn.BatchNorm1d(8), nn.ReLU(),
                                  nn.MaxPool1d(3, 2), nn.Conv1d(8, 3, 3, dilation=2)), [(2, 4, 40)]),
    "dilated": (lambda: nn.Conv2d(6, 4, 3, dilation=2, padding=(2, 1)), [IMAGE]),
    "transposed stride 2": (lambda: nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1), [IMAGE]),
    "transposed groups": (lambda: nn.ConvTranspose2d(6, 4, 4, stride=2, padding=1, groups=2), [IMAGE]),
    "transposed dilated": (lambda: nn.ConvTranspose2d(6, 4, 3, stride=3, dilation=2, padding=2), [IMAGE]),
    "transposed sparse": (lambda: nn.ConvTranspose2d(6, 4, 2, stride=4, bias=True), [IMAGE]),
    "transposed dense": (lambda: nn.ConvTranspose2d(6, 4, 5, stride=1, padding=2), [IMAGE]),
    "max pools": (lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, 2, ceil_mode=True)), [IMAGE]),
    "average pools": (lambda: nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.AvgPool2d(3, 2, 1, count_include_pad=False),
                                            nn.AvgPool2d(2, 2, ceil_mode=True)), [IMAGE]),
    "instance norm": (lambda: nn.InstanceNorm2d(6, affine=True), [IMAGE]),
    "group norm": (lambda: nn.GroupNorm(3, 6), [IMAGE]),
    "layer norm": (lambda: nn.LayerNorm(7), [IMAGE]),
    "activations": (lambda: Apply(lambda x: torch.cat([
        F.relu6(x), F.elu(x), F.selu(x), F.celu(x, 0.7), F.gelu(x), F.softplus(x), F.softsign(x), torch.tanh(x),
        F.hardsigmoid(x), torch.clamp(x, -0.3, 0.4), torch.erf(x), torch.exp(x), torch.abs(x), -x], 1)), [(1, 2, 3, 5)]),
    "arithmetic": (lambda: Apply(lambda x, y: (x + y) * 2 - x / (y * y + 1) + torch.sqrt(x * x) + torch.pow(y, 2)
                                 + torch.max(x, y) - torch.min(x, y)), [(2, 3, 4, 5), (3, 1, 5)]),
    "reductions": (lambda: Apply(lambda x: torch.cat([
        x.mean((2, 3)), x.sum((2, 3)), x.amax((2, 3)), x.amin((2, 3)), x.mean(1).mean(2)[:, :2],
        x.softmax(1).mean((2, 3)), x.log_softmax(3).sum((2, 3)), x.norm(dim=(2, 3))], 1)), [IMAGE]),
    "arg max": (lambda: Apply(lambda x: x.argmax(1)), [IMAGE]),
    "layout": (lambda: Apply(lambda x: torch.cat([
        x[:, 1:5:2, 2:, :-3].flatten(1), x.transpose(1, 3).flatten(1), F.pad(x, (1, 2, 0, 1), value=0.5).flatten(1),
        F.pad(x, (1, 2, 2, 1), mode="reflect").flatten(1), F.pad(x, (1, 1, 1, 1), mode="replicate").flatten(1),
        F.pixel_shuffle(x[:, :4], 2).flatten(1), x[:, [4, 0, 2]].flatten(1), x.unsqueeze(2).squeeze(2).flatten(1),
        x.repeat(1, 2, 1, 1).flatten(1), x.mean(1, keepdim=True).expand(-1, 3, -1, -1).flatten(1)], 1)), [IMAGE]),
    "resize": (lambda: Apply(lambda x: torch.cat([
        F.interpolate(x, scale_factor=2, mode="nearest").flatten(1),
        F.interpolate(x, size=(13, 7), mode="bilinear", align_corners=False).flatten(1),
        F.interpolate(x, size=(5, 20), mode="bilinear", align_corners=True).flatten(1),
        F.interpolate(x, size=(12, 16), mode="bicubic", align_corners=False).flatten(1)], 1)), [(1, 2, 9, 8)]),
    "matrices": (lambda: Apply(lambda x, y: (x @ y).softmax(-1) @ y.transpose(-1, -2)), [(2, 3, 4, 5), (3, 5, 6)]),
    "linear": (lambda: nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 5, bias=False), nn.Sigmoid()), [(4, 12)]),
    "shape arithmetic": (lambda: Apply(lambda x: F.interpolate(
        x.reshape(x.shape[0], x.shape[1] * 2, -1, x.shape[3]), size=(x.shape[2] + 1, x.shape[3] * 2))), [(2, 3, 4, 6)]),
}


def randomise(network):
    """Statistics that differ from channel to channel, as after training."""
    for module in network.modules():
        if getattr(module, "running_var", None) is not None:
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
        if getattr(module, "weight", None) is not None and isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.GroupNorm)):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.3)


def export(network, inputs, opset, folded):
    """`folded` lets the exporter fold normalisation itself; without, the file has every node."""
    file = io.BytesIO()
    names = [f"input{i}" for i in range(len(inputs))]
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(network, tuple(inputs), file, input_names=names, output_names=["output"],
                          dynamic_axes={names[0]: {0: "N"}}, dynamo=False, opset_version=opset,
                          do_constant_folding=folded,
                          training=torch.onnx.TrainingMode.EVAL if folded else torch.onnx.TrainingMode.PRESERVE)
    return file.getvalue()


def case(name, build, shapes, opset, folded):
    torch.manual_seed(len(name))
    network = build()
    randomise(network)
    network.eval()
    inputs = [torch.randn(shape) for shape in shapes]
    model = export(network, inputs, opset, folded)
    with torch.no_grad():
        output = copy.deepcopy(network).double()(*(x.double() for x in inputs))
    return dict(
        name=f"{name}, opset {opset}", model=base64.b64encode(model).decode(),
        inputs=[packed(x) for x in inputs], output=packed(output))


def packed(tensor):
    """In base64: float32 for inputs, float64 for outputs, int64 for indices, each little-endian."""
    data = base64.b64encode(tensor.numpy().tobytes()).decode()
    return dict(type=str(tensor.dtype).removeprefix("torch."), dims=list(tensor.shape), data=data)


def main():
    warnings.filterwarnings("ignore")
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "test/fixtures/networks.json")
    cases, missing = [], []
    for i, (name, (build, shapes)) in enumerate(NETWORKS.items()):
        # Every network at two versions, and all versions in turns.
        for opset in (OPSETS[i % 2], OPSETS[2 + i % 2]):
            try:
                cases.append(case(name, build, shapes, opset, folded=opset % 2 == 0 or i % 3 == 0))
            except Exception as error:  # the exporter knows some operators only from a later version on
                missing.append(f"{name}, opset {opset}: {str(error).splitlines()[0]}")
    target.write_text(json.dumps(dict(torch=torch.__version__, cases=cases)) + "\n")
    print(f"{len(cases)} networks in {target}, {target.stat().st_size} bytes", *missing, sep="\n")


main()
