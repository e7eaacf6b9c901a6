#!/usr/bin/env python3
"""Writes the networks of the bench as ONNX files: torchvision's architectures with random weights and realistic statistics.

For each network NAME.onnx, a few images of float32 as NAME.input, and as NAME.output what PyTorch makes of them in float64,
all raw and little-endian. Trained weights would change neither the time nor the arithmetic. The files are too large to be
in the repository; the seed is fixed, and bench/rivals/torch_networks.py builds the same networks anew.

Needs PyTorch, torchvision and onnx:  python3 scripts/export_networks.py [FOLDER] [NAME ...]
"""

import copy
import pathlib
import sys
import warnings

import torch
from torch import nn

OPSET = 17
# Batches repeat them. An odd number: a batch whose images changed places by a power of two is found out.
IMAGES = (3, 3, 224, 224)


def unit(inputs, outputs, size, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class InceptionBlock(nn.Module):
    """Of BN-Inception (Ioffe and Szegedy, 2015, figure 5). Without `one` it halves the map, and pools without a unit."""

    def __init__(self, inputs, one, three, double, pool):
        super().__init__()
        stride = 1 if one else 2
        branches = [
            nn.Sequential(unit(inputs, three[0], 1), unit(three[0], three[1], 3, stride)),
            nn.Sequential(unit(inputs, double[0], 1), unit(double[0], double[1], 3), unit(double[1], double[1], 3, stride)),
        ]
        if one:
            kind, outputs = pool
            pooled = nn.AvgPool2d(3, 1, 1) if kind == "average" else nn.MaxPool2d(3, 1, 1)
            branches = [unit(inputs, one, 1), *branches, nn.Sequential(pooled, unit(inputs, outputs, 1))]
        else:
            branches.append(nn.MaxPool2d(3, 2, 1))
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception_v2():
    return nn.Sequential(
        unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), unit(64, 64, 1), unit(64, 192, 3), nn.MaxPool2d(3, 2, 1),
        InceptionBlock(192, 64, (64, 64), (64, 96), ("average", 32)),
        InceptionBlock(256, 64, (64, 96), (64, 96), ("average", 64)),
        InceptionBlock(320, 0, (128, 160), (64, 96), None),
        InceptionBlock(576, 224, (64, 96), (96, 128), ("average", 128)),
        InceptionBlock(576, 192, (96, 128), (96, 128), ("average", 128)),
        InceptionBlock(576, 160, (128, 160), (128, 160), ("average", 96)),
        InceptionBlock(576, 96, (128, 192), (160, 192), ("average", 96)),
        InceptionBlock(576, 0, (128, 192), (192, 256), None),
        InceptionBlock(1024, 352, (192, 320), (160, 224), ("average", 128)),
        InceptionBlock(1024, 352, (192, 320), (192, 224), ("maximum", 128)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


def torchvision_models():
    try:
        import torchvision.models
    except RuntimeError:
        # Where torchvision's own kernels cannot be loaded, its detection models ask for these; nothing here calls them.
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
        import torchvision.models
    return torchvision.models


NETWORKS = {
    "googlenet": dict(aux_logits=False, init_weights=True),
    "inception_v2": None,
    "resnet18": {},
    "resnet50": {},
    "resnet152": {},
    "squeezenet1_0": {},
    "vgg16": {},
    "convnext_tiny": {},
    "mobilenet_v2": {},
    "efficientnet_b0": {},
    "mobilenet_v3_large": {},
    "densenet121": {},
    "shufflenet_v2_x1_0": {},
    "mobilenet_v3_small": {},
    "shufflenet_v2_x0_5": {},
}


def build(name):
    """The network of a name, ready to run: with one version of PyTorch always of the same weights."""
    torch.manual_seed(1)
    options = NETWORKS[name]
    network = inception_v2() if options is None else getattr(torchvision_models(), name)(weights=None, **options)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.8, 1.2)
            module.bias.data.normal_(0, 0.1)
    return network.eval()


def export(name, folder):
    network = build(name)
    x = torch.randn(IMAGES)
    torch.onnx.export(network, (x[:1],), str(folder / f"{name}.onnx"), input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "N"}, "output": {0: "N"}}, dynamo=False, opset_version=OPSET)
    with torch.no_grad():
        y = copy.deepcopy(network).double()(x.double())
    (folder / f"{name}.input").write_bytes(x.numpy().tobytes())
    (folder / f"{name}.output").write_bytes(y.numpy().tobytes())
    print(f"{name}: {sum(p.numel() for p in network.parameters()) / 1e6:.1f} million parameters")


def main():
    warnings.filterwarnings("ignore")
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "networks")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        export(name, folder)


if __name__ == "__main__":
    main()
