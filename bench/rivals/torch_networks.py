#!/usr/bin/env python3
"""PyTorch's side of bench/networks/main.ts on a GPU: torchvision's networks, captured in a CUDA graph.

In inference mode, with cuDNN's own search (`cudnn.benchmark`). The networks are those of scripts/export_networks.py.
torch.fx folds their normalisation into the convolutions, which is usual for inference. A replay runs no Python.

A network takes several forms. In float32 without TF32: NCHW, channels_last, and compiled by `torch.compile` with frozen
weights. In channels_last, each also compiled: TF32, FP16 and BF16.

Reads a request a line from stdin and answers each by a line on stdout, both JSON; on failure {"failure": …}:

    {"do": "about", "device": "cuda:0"}    versions and the GPU's name
    {"do": "load", "network": …, "folder": …, "batch": …, "form": "NCHW",
     "device": "cuda:0"}    {"error": of the largest output}
    {"do": "turn", "form": "NCHW", "milliseconds": 300,
     "cold": true}    {"replay": milliseconds, "toCpu": milliseconds, "replayCold": milliseconds}

`replay` is one replay among many back to back, between two CUDA events; `toCpu` is wall-clock time from the replay until
its output is in CPU memory, one after the other; `replayCold`, where it is asked for, is a single replay after the L2 cache
was overwritten, between two events.

Needs PyTorch with CUDA, torchvision and NumPy.
"""

import copy
import functools
import gc
import json
import math
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

try:
    import numpy as np
    import torch
    import torch._inductor.config
    from torch.fx.experimental import optimization
    import export_networks
except ImportError as error:
    # The answer to whatever is asked first.
    print(json.dumps(dict(failure=str(error), isLast=True)))
    sys.exit()

NCHW, NHWC = torch.contiguous_format, torch.channels_last
FORMS = {
    "NCHW": dict(layout=NCHW),
    "channels_last": dict(layout=NHWC),
    "compiled": dict(layout=NCHW, compiled=True),
    "TF32": dict(layout=NHWC, tf32=True),
    "TF32 compiled": dict(layout=NHWC, tf32=True, compiled=True),
    "FP16": dict(layout=NHWC, type=torch.float16),
    "FP16 compiled": dict(layout=NHWC, type=torch.float16, compiled=True),
    "BF16": dict(layout=NHWC, type=torch.bfloat16),
    "BF16 compiled": dict(layout=NHWC, type=torch.bfloat16, compiled=True),
}
WARM_UPS = 3

# Only the network in hand is kept.
build = functools.lru_cache(maxsize=1)(lambda network: optimization.fuse(export_networks.build(network)))


def allow_tf32(allowed):
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


def capture(call):
    """What replays a call, and the call's output, which each replay writes anew."""
    # PyTorch wants the warm-up on a stream of its own; cuDNN searches in it.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = call()
    return graph.replay, output


def device_milliseconds(call, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def back_to_back(call, milliseconds):
    call()
    return device_milliseconds(call, max(1, round(milliseconds / device_milliseconds(call, 3))))


def one_by_one(call, milliseconds):
    call()
    begin, count, taken = time.perf_counter(), 0, 0.0
    while taken < milliseconds:
        call()
        count += 1
        taken = 1e3 * (time.perf_counter() - begin)
    return taken / count


def after_flushes(call, milliseconds):
    """The median of calls after several times what the L2 cache holds was written."""
    flush = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    begin, times = time.perf_counter(), []
    while not times or 1e3 * (time.perf_counter() - begin) < milliseconds:
        flush.zero_()
        times.append(device_milliseconds(call, 1))
    return statistics.median(times)


def error_of(output, expected):
    """The same as errorOf in bench/networks/files.ts. None stands for NaN and infinity."""
    error = (np.abs(output - expected).max() / np.abs(expected).max()).item()
    return error if math.isfinite(error) else None


class Rival:
    def __init__(self):
        self.subject = None
        self.loaded = {}

    def about(self, device):
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no GPU")
        export_networks.torchvision_models()
        return dict(gpu=torch.cuda.get_device_name(device), torch=torch.__version__,
                    torchvision=sys.modules["torchvision"].__version__, cudnn=torch.backends.cudnn.version(), isFolded=True)

    def load(self, network, folder, batch, form, device):
        torch.cuda.set_device(device)
        self._take_up((network, batch))
        path = pathlib.Path(folder) / network
        images = np.fromfile(f"{path}.input", np.float32).reshape(-1, *export_networks.IMAGES[1:])
        expected = np.fromfile(f"{path}.output").reshape(len(images), -1)
        order = np.arange(batch) % len(images)
        module, x = self._make(network, images[order], device, **FORMS[form])
        allow_tf32(FORMS[form].get("tf32", False))
        replay, output = capture(lambda: module(x))
        replay()
        # A graph reads the tensors where they lie, and does not keep them.
        self.loaded[form] = (replay, output, module, x)
        return dict(error=error_of(output.cpu().double().numpy(), expected[order]))

    def _make(self, network, images, device, layout, type=torch.float32, compiled=False, tf32=False):
        module = copy.deepcopy(build(network)).to(device, type, memory_format=layout)
        x = torch.from_numpy(images).to(device, type).to(memory_format=layout)
        return (torch.compile(module) if compiled else module), x

    def turn(self, form, milliseconds, cold):
        if form not in self.loaded:
            raise RuntimeError("the process that had it was lost")
        replay, output, *_ = self.loaded[form]
        times = dict(replay=back_to_back(replay, milliseconds), toCpu=one_by_one(lambda: (replay(), output.cpu()), milliseconds))
        return times | (dict(replayCold=after_flushes(replay, milliseconds)) if cold else {})

    def _take_up(self, subject):
        """Lets go of the network before."""
        if subject != self.subject:
            self.loaded.clear()
            gc.collect()
            torch.cuda.empty_cache()
        self.subject = subject


def answer(rival, request):
    try:
        with torch.inference_mode():
            return getattr(rival, request.pop("do"))(**request)
    except Exception as error:
        # After an error of CUDA's own nothing works in this process.
        return dict(failure=f"{type(error).__name__}: {error}".split("\n")[0], isLast="CUDA error" in str(error))


def main():
    # What libraries print is not an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    torch.backends.cudnn.benchmark = True
    torch._inductor.config.freezing = True
    rival = Rival()
    for line in sys.stdin:
        print(json.dumps(answer(rival, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
