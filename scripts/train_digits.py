#!/usr/bin/env python3
"""Trains the network of examples/digits and writes everything that example needs.

Data: the 1,797 handwritten digits of 8 x 8 pixels that ship with scikit-learn. 360 of them, chosen by a
fixed seed and never trained on, become the held-out images. The network has convolutions only; batch
normalisation is folded into their weights before export.

Needs PyTorch, onnx and scikit-learn. Runs on the CPU in one thread with fixed seeds; about fifteen seconds.

    python3 scripts/train_digits.py [OUTPUT_DIRECTORY]

Writes to OUTPUT_DIRECTORY (default examples/digits):
    digits.onnx          N images of 1 x 8 x 8, grey levels from 0 to 1; N x 10 logits, and the probabilities of them
    data/held_out.json   what the held-out images are, and PyTorch's accuracy on them
    data/images.bin      uint8, 360 x 8 x 8, grey levels 0 to 16
    data/labels.bin      uint8, 360
    data/logits.bin      float32, little-endian, 360 x 10: PyTorch's output for images / 16
"""

import json
import pathlib
import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

SEED = 20260101
HELD_OUT = 360
EPOCHS = 60
BATCH = 64
GREY_LEVELS = 16.0
OPSET = 17

# Extents: 1x8x8 -> 24x8x8 -> 24x4x4 -> 48x4x4 -> 48x4x4 -> 10x1x1
LAYERS = [
    dict(name="full5x5", inputs=1, outputs=24, kernel=5, stride=1, padding=2, groups=1),
    dict(name="depthwise3x3", inputs=24, outputs=24, kernel=3, stride=2, padding=1, groups=24),
    dict(name="pointwise", inputs=24, outputs=48, kernel=1, stride=1, padding=0, groups=1),
    dict(name="full3x3", inputs=48, outputs=48, kernel=3, stride=1, padding=1, groups=1),
    dict(name="classifier4x4", inputs=48, outputs=10, kernel=4, stride=1, padding=0, groups=1),
]


def convolution(layer, bias):
    return nn.Conv2d(
        layer["inputs"], layer["outputs"], layer["kernel"], layer["stride"], layer["padding"],
        groups=layer["groups"], bias=bias,
    )


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(convolution(layer, bias=layer is LAYERS[-1]) for layer in LAYERS)
        self.norms = nn.ModuleList(nn.BatchNorm2d(layer["outputs"]) for layer in LAYERS[:-1])

    def forward(self, x):
        for conv, norm in zip(self.convolutions, self.norms):
            x = F.relu(norm(conv(x)))
        return self.convolutions[-1](x).flatten(1)

    def folded(self):
        """The same function as plain convolutions with biases."""
        hidden = [fuse_conv_bn_eval(c, n) for c, n in zip(self.convolutions, self.norms)]
        return Folded([*hidden, self.convolutions[-1]])


class Folded(nn.Module):
    def __init__(self, convolutions):
        super().__init__()
        # The names of modules become those of the ONNX file's nodes.
        for layer, conv in zip(LAYERS, convolutions):
            self.add_module(layer["name"], conv)

    def forward(self, x):
        *hidden, classifier = self.children()
        for conv in hidden:
            x = F.relu(conv(x))
        logits = classifier(x).flatten(1)
        return logits, logits.softmax(1)


def shifted(images, generator):
    """Moves each image by up to one pixel in each direction, filling with background."""
    padded = F.pad(images, (1, 1, 1, 1))
    offsets = torch.randint(0, 3, (len(images), 2), generator=generator)
    return torch.stack([p[:, y : y + 8, x : x + 8] for p, (y, x) in zip(padded, offsets.tolist())])


def train(images, labels):
    generator = torch.Generator().manual_seed(SEED)
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-3)
    steps = EPOCHS * ((len(images) + BATCH - 1) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for epoch in range(EPOCHS):
        network.train()
        for batch in torch.randperm(len(images), generator=generator).split(BATCH):
            loss = F.cross_entropy(network(shifted(images[batch], generator)), labels[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def export(network, file):
    names = dict(input_names=["image"], output_names=["logits", "probabilities"])
    batched = {name: {0: "N"} for name in sum(names.values(), [])}
    torch.onnx.export(network, (torch.zeros(1, 1, 8, 8),), str(file), **names, dynamic_axes=batched,
                      dynamo=False, opset_version=OPSET)


def write_held_out(directory, images, labels, logits, accuracy):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "images.bin").write_bytes((images * GREY_LEVELS).numpy().astype(np.uint8).tobytes())
    (directory / "labels.bin").write_bytes(labels.numpy().astype(np.uint8).tobytes())
    (directory / "logits.bin").write_bytes(logits.numpy().astype("<f4").tobytes())
    description = dict(
        images=len(images), imageDims=list(images.shape[1:]), greyLevels=int(GREY_LEVELS),
        pytorch=dict(version=torch.__version__.split("+")[0], correct=round(accuracy * len(images))),
    )
    (directory / "held_out.json").write_text(json.dumps(description, indent=2) + "\n")


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / GREY_LEVELS
    labels = torch.tensor(data.target)
    train_rows, held_out_rows = train_test_split(
        np.arange(len(images)), test_size=HELD_OUT, random_state=SEED, stratify=data.target
    )
    network = train(images[train_rows], labels[train_rows])
    folded = network.folded()
    held_out, truth = images[held_out_rows], labels[held_out_rows]
    with torch.no_grad():
        logits, _ = folded(held_out)
        folding_error = (logits - network(held_out)).abs().max().item()
    accuracy = (logits.argmax(1) == truth).float().mean().item()
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "examples/digits")
    write_held_out(directory / "data", held_out, truth, logits, accuracy)
    export(folded, directory / "digits.onnx")
    print(f"accuracy {accuracy:.4f} on {HELD_OUT} held-out images; folding changed the logits by {folding_error:.1e}")


if __name__ == "__main__":
    main()
