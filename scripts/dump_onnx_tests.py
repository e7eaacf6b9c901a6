#!/usr/bin/env python3
"""Writes ONNX's own node tests as files: for each test a folder with model.onnx, input_N.pb, output_N.pb and meta.json.

test/addon/onnx_node.test.ts runs them:

    python3 scripts/dump_onnx_tests.py onnx-tests
    WARPCONV_ONNX_TESTS=onnx-tests npm test -- onnx_node    # on a GPU with WARPCONV_TEST_DEVICE=cuda

Needs the onnx package, whose tests these are; they are not part of this repository.
"""

import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def as_proto(value, info):
    return value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), info.name)


def write(case, folder):
    """Sequences and optionals are no tensors: their tests are left out."""
    graph = case.model.graph
    inputs, outputs = case.data_sets[0]
    files = {"model.onnx": case.model.SerializeToString()}
    for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
        if any(isinstance(value, (list, type(None))) for value in values):
            return False
        for i, (value, info) in enumerate(zip(values, infos)):
            files[f"{kind}_{i}.pb"] = as_proto(value, info).SerializeToString()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    operators = sorted({node.op_type for node in graph.node})
    (folder / "meta.json").write_text(json.dumps(dict(operators=operators, rtol=case.rtol, atol=case.atol)))
    return True


def main():
    warnings.filterwarnings("ignore")
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "onnx-tests")
    cases = [case for case in collect_testcases(None) if case.model is not None]
    written = sum(write(case, root / case.name) for case in cases)
    print(f"{written} of the {len(cases)} node tests of onnx {onnx.__version__} are in {root}")


main()
