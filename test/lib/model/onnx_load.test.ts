/** ONNX files as graphs, and what is wrong with files that are not. */
import { toBinary } from '@bufbuild/protobuf';
import {
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { checkOperators as checkInSlices } from '../../../lib/model/complaints';
import type { ConstantTensor } from '../../../lib/model/graph';
import { readFilePart } from '../../../lib/model/onnx/files';
import { loadOnnx, parseOnnx } from '../../../lib/model/onnx/load';
import { atOnce } from '../../../lib/slices';
import {
  AttributeProto_AttributeType,
  ModelProtoSchema,
  type ModelProto,
} from '../../../lib/model/onnx/onnx_pb';
import {
  attribute,
  externalTensor,
  float,
  floats,
  node,
  onnxModel,
  onnxProto,
  rawBytes,
  subgraph,
  tensor,
  typedTensor,
  value,
  type OnnxModel,
} from '../../support/onnx_builder';

const RELU: OnnxModel = {
  inputs: [value('x', [1, 4])],
  nodes: [node('Relu', ['x'], ['y'], {}, { name: 'act' })],
  outputs: [value('y', [1, 4])],
};

const checkOperators = (...given: Parameters<typeof checkInSlices>) => atOnce(checkInSlices(...given));
const elementsOf = (data: ConstantTensor['data']) => Array.from<number | bigint>(data);

function invalidModel(message: RegExp) {
  return expect.objectContaining({
    code: 'ERR_WARPCONV_INVALID_MODEL',
    message: expect.stringMatching(message),
  });
}

function unsupported(message: RegExp) {
  return expect.objectContaining({
    code: 'ERR_WARPCONV_UNSUPPORTED',
    message: expect.stringMatching(message),
  });
}

function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  return 'nothing';
}

/** What loading the model, changed in some places, throws. */
function complaint(changes: OnnxModel): unknown {
  return thrownBy(() => parseOnnx(onnxModel({ ...RELU, ...changes })));
}

/** What loading the model, changed as a message, throws. */
function tampered(change: (model: ModelProto) => void, model: OnnxModel = RELU): unknown {
  const proto = onnxProto(model);
  change(proto);
  return thrownBy(() => parseOnnx(toBinary(ModelProtoSchema, proto)));
}

describe('a graph', () => {
  const bytes = onnxModel({
    opset: 13,
    inputs: [
      value('image', ['N', 3, null, 224]),
      value('weight', [2, 3, 1, 1]),
      value('mask', undefined, 'bool'),
      value('older', [-1, 3]),
    ],
    initializers: [tensor('weight', [2, 3, 1, 1], [1, 2, 3, 4, 5, 6]), tensor('unused', [0], [], 'int64')],
    nodes: [
      node('Conv', ['image', 'weight', ''], ['features'], {
        kernel_shape: [1, 1],
        group: 1,
        auto_pad: 'NOTSET',
      }),
      node('Relu', ['features'], ['']),
      node('LeakyRelu', ['features'], ['y'], { alpha: float(0.25) }, { name: 'leaky', domain: 'ai.onnx' }),
    ],
    outputs: [value('y')],
  });
  const graph = parseOnnx(bytes);

  test('has inputs without those that the model has values for', () => {
    expect(graph.inputs).toEqual([
      { name: 'image', type: 'float32', shape: ['N', 3, null, 224] },
      { name: 'mask', type: 'bool', shape: undefined },
      { name: 'older', type: 'float32', shape: [null, 3] },
    ]);
    expect(graph.outputs).toEqual([{ name: 'y', type: 'float32', shape: undefined }]);
    expect(graph.opset).toBe(13);
  });

  test('has constants that are views of one copy where the alignment allows', () => {
    const { type, dims, data } = graph.constants.get('weight')!;
    expect([type, dims, elementsOf(data)]).toEqual(['float32', [2, 3, 1, 1], [1, 2, 3, 4, 5, 6]]);
    // The name is in front of the data: one of four lengths aligns them.
    const isView = ['a', 'ab', 'abc', 'abcd'].map((name) => {
      const file = onnxModel({
        ...RELU,
        nodes: [node('Relu', ['x'], ['y'], {}, { name })],
        initializers: [tensor('weight', [2, 3, 1, 1], [1, 2, 3, 4, 5, 6])],
      });
      const constant = parseOnnx(file).constants.get('weight')!;
      expect(elementsOf(constant.data)).toEqual([1, 2, 3, 4, 5, 6]);
      return constant.data.buffer.byteLength === file.length;
    });
    expect(isView.filter(Boolean)).toHaveLength(1);
  });

  test('has constants that do not depend on the bytes it was made of', () => {
    for (const shift of [0, 1, 2, 3]) {
      const shifted = new Uint8Array(new ArrayBuffer(bytes.length + shift), shift);
      shifted.set(bytes);
      const { data } = parseOnnx(shifted).constants.get('weight')!;
      shifted.fill(0);
      structuredClone(shifted.buffer, { transfer: [shifted.buffer] });
      expect(elementsOf(data)).toEqual([1, 2, 3, 4, 5, 6]);
    }
  });

  test('has nodes with attributes, and names where the file has none', () => {
    expect(graph.nodes.map(({ name, operator, domain }) => [name, operator, domain])).toEqual([
      ['Conv#0', 'Conv', ''],
      ['Relu#1', 'Relu', ''],
      ['leaky', 'LeakyRelu', ''],
    ]);
    expect(graph.nodes[0]!.inputs).toEqual(['image', 'weight', '']);
    expect(Object.fromEntries(graph.nodes[0]!.attributes)).toEqual({
      kernel_shape: [1, 1],
      group: 1,
      auto_pad: 'NOTSET',
    });
    expect(graph.nodes[2]!.attributes.get('alpha')).toBe(0.25);
  });

  test('has attributes of every kind', () => {
    const { nodes } = parseOnnx(
      onnxModel({
        ...RELU,
        nodes: [
          node('Any', ['x'], ['y'], {
            integer: -3,
            integers: [2n ** 63n - 1n, -(2n ** 63n), 7],
            zero: attribute({ type: AttributeProto_AttributeType.INT }),
            float: float(-0.5),
            floats: floats(1, Infinity),
            empty: floats(),
            string: 'größe',
            strings: ['a', 'b'],
            tensor: tensor('', [2], [1, 2], 'int32'),
          }),
        ],
      }),
    );
    expect(Object.fromEntries(nodes[0]!.attributes)).toEqual({
      integer: -3,
      integers: [Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 7],
      zero: 0,
      float: -0.5,
      floats: [1, Infinity],
      empty: [],
      string: 'größe',
      strings: ['a', 'b'],
      tensor: { type: 'int32', dims: [2], data: Int32Array.of(1, 2) },
    });
  });

  test('has its nodes in an order in which they can run', () => {
    const chain = Array.from({ length: 20_000 }, (_, index) => node('Relu', [`${index}`], [`${index + 1}`]));
    const { nodes } = parseOnnx(
      onnxModel({ inputs: [value('0')], nodes: chain.reverse(), outputs: [value('20000')] }),
    );
    expect(nodes.map(({ outputs: [name] }) => name)).toEqual(
      Array.from({ length: 20_000 }, (_, index) => `${index + 1}`),
    );
  });

  test('names nodes apart that the file names alike', () => {
    const names = ['same', 'same', 'Relu#1', ''].map((name, index) =>
      node('Relu', ['x'], [`y${index}`], {}, { name }),
    );
    const { nodes } = parseOnnx(onnxModel({ ...RELU, nodes: names, outputs: [value('y0')] }));
    expect(nodes.map(({ name }) => name)).toEqual(['same', 'Relu#1', 'Relu#2', 'Relu#3']);
  });

  test('may have an input or a constant as an output, and no nodes', () => {
    const graph = parseOnnx(
      onnxModel({
        inputs: [value('x')],
        initializers: [tensor('c', [], [1])],
        outputs: [value('x'), value('c')],
      }),
    );
    expect(graph.outputs.map(({ name }) => name)).toEqual(['x', 'c']);
  });

  test.each([7, 28])('may be of opset %d', (opset) => {
    expect(parseOnnx(onnxModel({ ...RELU, opset })).opset).toBe(opset);
  });

  test.each([1, 6])('is brought from opset %d to 7', (opset) => {
    expect(parseOnnx(onnxModel({ ...RELU, opset })).opset).toBe(7);
  });
});

describe('bytes that are no model', () => {
  const whole = onnxModel({
    ...RELU,
    initializers: [tensor('w', [4], [1, 2, 3, 4])],
    nodes: [node('Add', ['x', 'w'], ['y'])],
  });

  test.each(['none', 'text', 'zeros'])('%s', (kind) => {
    const bytes = { none: '', text: 'version https://git-lfs.github.com/spec/v1', zeros: '\0\0\0\0' }[kind]!;
    expect(thrownBy(() => parseOnnx(Buffer.from(bytes)))).toEqual(
      invalidModel(/not an ONNX file, or is damaged/),
    );
  });

  test('cut off anywhere', () => {
    for (let length = 0; length < whole.length; length++) {
      expect(thrownBy(() => parseOnnx(whole.subarray(0, length)))).toEqual(invalidModel(/./));
    }
  });

  test('a name that is not UTF-8', () => {
    const bytes = Buffer.from(onnxModel(RELU));
    bytes[bytes.indexOf('act')] = 0xff;
    expect(thrownBy(() => parseOnnx(bytes))).toEqual(invalidModel(/damaged: .*utf-8/i));
  });

  test('groups nested without end', () => {
    const bytes = Buffer.alloc(1_000_000, (15 << 3) | 3);
    expect(thrownBy(() => parseOnnx(bytes))).toEqual(invalidModel(/recursion/));
  });

  test('a message that reaches past the one that it is in', () => {
    // A graph of 3 bytes with a node of 100.
    const bytes = Buffer.concat([Buffer.of(0x3a, 3, 0x0a, 100, 0), Buffer.alloc(200)]);
    expect(thrownBy(() => parseOnnx(bytes))).toEqual(invalidModel(/damaged/));
  });

  test('a field encoded as another type', () => {
    // The graph as an integer.
    expect(thrownBy(() => parseOnnx(Buffer.of(0x38, 1)))).toEqual(
      invalidModel(/field onnx.ModelProto.graph/),
    );
  });

  test('more fields than memory would hold once decoded', () => {
    const nodes = Buffer.alloc(12_000_000);
    for (let at = 0; at < nodes.length; at += 2) nodes[at] = 0x0a;
    const length = [0x80 | (nodes.length & 127), 0x80 | ((nodes.length >> 7) & 127)];
    const graph = Buffer.of(0x3a, ...length, 0x80 | ((nodes.length >> 14) & 127), nodes.length >> 21);
    expect(thrownBy(() => parseOnnx(Buffer.concat([graph, nodes])))).toEqual(
      invalidModel(/more than \d+ fields/),
    );
  });

  test.each([
    ['a list', [1, 2]],
    ['floats', new Float32Array(4)],
    ['nothing', undefined],
  ])('%s in place of bytes', (_, model) => {
    expect(thrownBy(() => parseOnnx(model as never))).toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    });
  });

  test('bytes that were transferred away', () => {
    const bytes = new Uint8Array(whole);
    structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
    expect(thrownBy(() => parseOnnx(bytes))).toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
  });

  test('bytes in shared memory are copied', () => {
    const shared = new Uint8Array(new SharedArrayBuffer(whole.length));
    shared.set(whole);
    expect(parseOnnx(shared).constants.get('w')!.data.buffer).not.toBe(shared.buffer);
  });
});

describe('versions', () => {
  test.each([29, 2 ** 40])('opset %d is refused', (opset) => {
    expect(complaint({ opset })).toEqual(unsupported(/opset \d+; warpconv reads 1 to 28/));
  });

  test.each([2, 15])('IR version %d is refused', (irVersion) => {
    expect(complaint({ irVersion })).toEqual(unsupported(/IR version \d+; warpconv reads 3 to 14/));
  });

  test('none', () => {
    expect(complaint({ irVersion: 0 })).toEqual(invalidModel(/IR version 0/));
    expect(tampered((model) => (model.opsetImport = []))).toEqual(invalidModel(/imports no version/));
  });

  test('none, where no operator needs one', () => {
    const proto = onnxProto({ ...RELU, nodes: [node('Fancy', ['x'], ['y'], {}, { domain: 'com.example' })] });
    proto.opsetImport = [];
    expect(parseOnnx(toBinary(ModelProtoSchema, proto)).nodes[0]!.domain).toBe('com.example');
  });

  test('two', () => {
    expect(complaint({ domains: { 'ai.onnx': 12 } })).toEqual(invalidModel(/two versions.*17 and 12/));
  });
});

describe('connections', () => {
  const relu = (input: string, output: string, name = '') => node('Relu', [input], [output], {}, { name });

  test.each<[string, OnnxModel, RegExp]>([
    [
      'a missing input',
      { nodes: [node('Add', ['x', 'bias'], ['y'], {}, { name: 'sum' })] },
      /Add 'sum' reads 'bias'/,
    ],
    [
      'a cycle',
      { nodes: [relu('b', 'a', 'one'), relu('a', 'b', 'two'), relu('a', 'y')] },
      /cycle: .*Relu 'one'/,
    ],
    ['a node that waits for itself', { nodes: [relu('y', 'y', 'self')] }, /cycle: Relu 'self'/],
    [
      'a value written by two nodes',
      { nodes: [relu('x', 'y', 'one'), relu('x', 'y', 'two')] },
      /'two' writes 'y', as does Relu 'one'/,
    ],
    [
      'a value written twice by one',
      { nodes: [node('Split', ['x'], ['y', 'y'])] },
      /Split 'Split#0' writes 'y', twice/,
    ],
    [
      'an input that is written',
      { nodes: [relu('x', 'y'), relu('y', 'x')] },
      /writes 'x', which is an input/,
    ],
    [
      'an initializer that is written',
      { initializers: [tensor('y', [1], [1])] },
      /writes 'y', which is an input or an initializer/,
    ],
    ['an output that nobody writes', { outputs: [value('z')] }, /output 'z' is written by no node/],
    ['no outputs', { outputs: [] }, /no outputs/],
    ['two inputs of a name', { inputs: [value('x'), value('x')] }, /two inputs of the name 'x'/],
    ['two outputs of a name', { outputs: [value('y'), value('y')] }, /two outputs of the name 'y'/],
    [
      'two initializers of a name',
      { initializers: [tensor('w', [1], [1]), tensor('w', [1], [1])] },
      /two initializers of the name 'w'/,
    ],
    ['an input without a name', { inputs: [value('x'), value('')] }, /an input without a name/],
    [
      'an initializer without a name',
      { initializers: [tensor('', [1], [1])] },
      /an initializer without a name/,
    ],
    [
      'a node without an operator',
      { nodes: [node('', ['x'], ['y'], {}, { name: 'act' })] },
      /'act' names no operator/,
    ],
  ])('%s', (_, changes, message) => {
    expect(complaint(changes)).toEqual(invalidModel(message));
  });

  test('a cycle of very many nodes is told in few words', () => {
    const nodes = Array.from({ length: 10_000 }, (_, index) => relu(`${index}`, `${(index + 1) % 10_000}`));
    const error = complaint({ nodes: [...nodes, relu('0', 'y')] }) as Error;
    expect(error).toEqual(invalidModel(/10000 nodes/));
    expect(error.message.length).toBeLessThan(1000);
  });
});

describe('initializers', () => {
  const used = (initializer: ReturnType<typeof tensor>): OnnxModel => ({
    initializers: [initializer],
    nodes: [node('Add', ['x', 'w'], ['y'], {}, { name: 'sum' })],
  });

  test.each<[string, ReturnType<typeof tensor>, RegExp]>([
    [
      'too few bytes',
      tensor('w', [2, 3], [1, 2, 3]),
      /initializer 'w' has 12 bytes of data; dims \[2, 3\].* need 24/,
    ],
    ['too many bytes', tensor('w', [1], [1, 2]), /8 bytes of data.* need 4/],
    ['no data', tensor('w', [4], []), /0 bytes of data/],
    ['a negative extent', tensor('w', [-1], [1]), /'w' has an extent of -1/],
    ['a huge extent', tensor('w', [2 ** 53], []), /an extent of 9007199254740992/],
    ['huge dims', tensor('w', [2 ** 31, 2 ** 31, 2 ** 31], []), /'w' has 0 bytes/],
    [
      'dims of which the product is no number',
      tensor('w', [...Array<number>(40).fill(2 ** 40), 0], []),
      /'w'/,
    ],
    [
      'too few numbers',
      typedTensor('w', [3], [1, 2], 'int64'),
      /'w' has 2 elements of data; dims \[3\] need 3/,
    ],
    ['huge dims of numbers', typedTensor('w', [2 ** 40], [1, 2], 'int64'), /'w' has 2 elements/],
    [
      'numbers beyond the type',
      typedTensor('w', [1], [128], 'int8'),
      /'w' has an element 128, which is no int8/,
    ],
    ['a bool of 2', tensor('w', [2], [1, 2], 'bool'), /'w' has an element 2, which is no bool/],
    ['data twice', { ...typedTensor('w', [1], [1]), rawData: rawBytes([1]) }, /'w' has its elements twice/],
    ['numbers of another type', { ...tensor('w', [1], []), int32Data: [Buffer.of(1)] }, /'w' has 0 bytes/],
    [
      'a type that ONNX does not have',
      { ...tensor('w', [1], [1]), dataType: 99 },
      /'w' has elements of type 99/,
    ],
    ['no type', { ...tensor('w', [1], [1]), dataType: 0 }, /'w' has elements of type 0/],
    [
      'a location that ONNX does not have',
      { ...tensor('w', [1], [1]), dataLocation: 7 as never },
      /'w' .*location of kind 7/,
    ],
    ['data elsewhere', externalTensor('w', [1], { location: 'w.bin' }), /'w' .*load the model by its path/],
  ])('with %s', (_, initializer, message) => {
    expect(complaint(used(initializer))).toEqual(invalidModel(message));
  });

  test('with numbers that are not encoded as such', () => {
    const bytes = Buffer.alloc(11, 0x80);
    bytes[10] = 1;
    const broken = { ...typedTensor('w', [1], [], 'int64'), int64Data: [bytes] };
    expect(complaint(used(broken))).toEqual(invalidModel(/'w' has data that are not encoded as numbers/));
  });

  test.each<[string, OnnxModel, RegExp]>([
    [
      'string',
      { initializers: [tensor('w', [1], [], 'string')] },
      /Add: 'sum' \(its input 'w' is a tensor of string\)/,
    ],
    [
      'complex64',
      { initializers: [tensor('w', [1], [1], 'complex64')] },
      /'sum' \(its input 'w' is a tensor of complex64\)/,
    ],
    ['float6', { initializers: [tensor('w', [1], [1], 'float6e2m3')] }, /is a tensor of float6e2m3/],
    ['sparse', { initializers: [], sparse: ['w'] }, /is a sparse tensor/],
    [
      'segmented',
      { initializers: [{ ...tensor('w', [1], [1]), segment: Buffer.of(8, 0) }] },
      /is a tensor in segments/,
    ],
  ])('that are %s are an obstacle for those who read them, only', (_, initializers, message) => {
    const model = onnxModel({ ...RELU, ...used(tensor('w', [1], [1])), ...initializers });
    expect(thrownBy(() => checkOperators(parseOnnx(model).nodes, () => true))).toEqual(unsupported(message));
    const unread = onnxModel({ ...RELU, ...initializers });
    checkOperators(parseOnnx(unread).nodes, () => true);
  });

  test('without a form cannot be outputs', () => {
    expect(complaint({ sparse: ['w'], outputs: [value('w')] })).toEqual(
      unsupported(/output 'w' is a sparse tensor/),
    );
  });
});

describe('inputs and outputs', () => {
  test('of a type that warpconv does not have', () => {
    expect(complaint({ inputs: [value('x', [1], 'string')] })).toEqual(
      unsupported(/input 'x' is a tensor of string/),
    );
  });

  test('that are no tensors', () => {
    const error = tampered((model) => {
      model.graph!.input[0]!.type!.value = { case: 'sparseTensorType', value: new Uint8Array() };
    });
    expect(error).toEqual(unsupported(/input 'x' is of the type sparse tensor/));
  });

  test('without a type', () => {
    expect(tampered((model) => (model.graph!.output[0]!.type = undefined))).toEqual(
      invalidModel(/output 'y' has no type/),
    );
  });

  test('of a huge extent', () => {
    expect(complaint({ inputs: [value('x', [2 ** 60])] })).toEqual(
      invalidModel(/input 'x' has an extent of/),
    );
  });
});

describe('attributes', () => {
  const { INT, STRING, TENSOR } = AttributeProto_AttributeType;

  test.each<[string, Parameters<typeof attribute>[0], RegExp]>([
    ['without a type', { i: 1n }, /type 0/],
    ['of a type that ONNX does not have', { type: 99 as never }, /type 99/],
    ['without their tensor', { type: TENSOR }, /has no tensor/],
    ['that are not UTF-8', { type: STRING, s: Buffer.of(0xff) }, /is not UTF-8/],
    ['of functions', { type: INT, refAttrName: 'alpha' }, /refers to an attribute of a function/],
    ['of a damaged tensor', { type: TENSOR, t: tensor('', [3], [1]) }, /4 bytes of data/],
  ])('%s', (_, content, message) => {
    const error = complaint({
      nodes: [node('Relu', ['x'], ['y'], { slope: attribute(content) }, { name: 'act' })],
    });
    expect(error).toEqual(invalidModel(/attribute 'slope' of Relu 'act'/));
    expect(error).toEqual(invalidModel(message));
  });

  test('twice', () => {
    const error = tampered((model) => {
      const [twice] = node('', [], [], { slope: 1 }).attribute;
      model.graph!.node[0]!.attribute = [twice!, twice!];
    });
    expect(error).toEqual(invalidModel(/attribute 'slope' of Relu 'act' is there twice/));
  });
});

describe('operators', () => {
  const listed = (model: OnnxModel, supports: (operator: string) => boolean) => {
    const { nodes } = parseOnnx(onnxModel(model));
    return thrownBy(() => checkOperators(nodes, ({ operator }) => supports(operator)));
  };

  test('that are not supported are listed all at once', () => {
    const error = listed(
      {
        ...RELU,
        domains: { 'com.example': 1 },
        nodes: [
          node(
            'If',
            ['x'],
            ['a'],
            { then_branch: subgraph({ nodes: [node('Odd', [], ['o'])] }) },
            { name: 'if' },
          ),
          node('Relu', ['a'], ['b']),
          node('Fancy', ['b'], ['c'], {}, { name: 'first', domain: 'com.example' }),
          node('Fancy', ['c'], ['y'], {}, { name: 'second', domain: 'com.example' }),
        ],
      },
      (operator) => operator !== 'Fancy' && operator !== 'Odd',
    );
    expect(error).toEqual(unsupported(/^the model has 2 operators that warpconv does not support:\n/));
    expect((error as Error).message.split('\n').slice(1)).toEqual([
      "  Odd: 'Odd#1'",
      "  com.example.Fancy: 'first', 'second'",
    ]);
  });

  test('with graphs within each other, however deep those go', () => {
    let branch = subgraph();
    for (let depth = 0; depth < 1000; depth++) {
      branch = subgraph({ nodes: [node('If', ['x'], ['y'], { then_branch: branch })] });
    }
    const error = complaint({ nodes: [node('If', ['x'], ['y'], { then_branch: branch })] });
    expect(error).toEqual(unsupported(/graphs within graphs/));
  });

  test('with a damaged graph', () => {
    const error = complaint({
      nodes: [node('If', ['x'], ['y'], { then_branch: subgraph(Buffer.of(10, 200)) })],
    });
    expect(error).toEqual(invalidModel(/the graph 'If#0.then_branch' is damaged/));
  });

  test('whose graphs read what nothing makes', () => {
    const branch = subgraph({ nodes: [node('Relu', ['nowhere'], ['r'])], outputs: [value('r')] });
    const error = complaint({
      nodes: [node('If', ['x'], ['y'], { then_branch: branch, else_branch: branch })],
    });
    expect(error).toEqual(invalidModel(/If 'If#0' reads 'nowhere', which no node writes/));
  });

  test('that are functions of the model itself', () => {
    const error = listed(
      {
        ...RELU,
        functions: [
          ['', 'Relu'],
          ['own', 'Unused'],
        ],
      },
      () => true,
    );
    expect(error).toEqual(unsupported(/Relu: 'act' \(a function of the model itself/));
  });

  test("that is a function of the model itself, and onnxruntime's in ONNX's domain", () => {
    const name = 'SimplifiedLayerNormalization';
    const nodes = [node(name, ['x'], ['y'])];
    const error = listed({ ...RELU, nodes, functions: [['', name]] }, () => true);
    expect(error).toEqual(unsupported(/SimplifiedLayerNormalization#0' \(a function of the model itself/));
  });

  test('of attributes of a type without a form', () => {
    const error = listed(
      { ...RELU, nodes: [node('Relu', ['x'], ['y'], { t: tensor('', [1], [1], 'complex64') })] },
      () => true,
    );
    expect(error).toEqual(unsupported(/'Relu#0' \(its attribute 't' is a tensor of complex64\)/));
  });

  test('of very many nodes are told in few words', () => {
    const nodes = Array.from({ length: 5000 }, (_, index) => node('Odd', ['x'], [`${index}`]));
    const error = listed({ ...RELU, nodes, outputs: [value('0')] }, () => false) as Error;
    expect(error.message).toContain('and 4995 more');
  });
});

describe('files', () => {
  const scratch = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'warpconv-onnx-')));
  const folder = path.join(scratch, 'model');
  const inFolder = (name: string) => path.join(folder, name);
  const weights = rawBytes([1, 2, 3, 4]);

  beforeAll(() => {
    mkdirSync(inFolder('parts'), { recursive: true });
    writeFileSync(inFolder('weights.bin'), weights);
    writeFileSync(inFolder('parts/weights.bin'), weights);
    writeFileSync(path.join(scratch, 'secret.bin'), weights);
    symlinkSync(path.join(scratch, 'secret.bin'), inFolder('link.bin'));
    symlinkSync(scratch, inFolder('up'));
    symlinkSync(inFolder('weights.bin'), inFolder('inner_link.bin'));
    symlinkSync(inFolder('nowhere'), inFolder('dangling.bin'));
  });
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  /** Loads a model whose initializer `w`, and whatever else is given, is in another file. */
  async function load(place: Parameters<typeof externalTensor>[2], ...more: ReturnType<typeof tensor>[]) {
    const file = inFolder('model.onnx');
    const initializers = [externalTensor('w', [4], place), ...more];
    writeFileSync(file, onnxModel({ ...RELU, initializers }));
    return loadOnnx(file);
  }

  test('are loaded by their path', async () => {
    writeFileSync(inFolder('relu.onnx'), onnxModel(RELU));
    expect((await loadOnnx(inFolder('relu.onnx'))).nodes).toHaveLength(1);
    expect((await loadOnnx(onnxModel(RELU))).nodes).toHaveLength(1);
  });

  test.each(['missing.onnx', 'parts', 'zero\0byte'])('%j cannot be read', async (name) => {
    await expect(loadOnnx(inFolder(name))).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(/^model cannot be read/),
    });
  });

  test('larger than a protocol buffer are refused unread', async () => {
    const file = inFolder('sparse.onnx');
    writeFileSync(file, '');
    truncateSync(file, 2 ** 31);
    await expect(loadOnnx(file)).rejects.toEqual(invalidModel(/has 2147483648 bytes/));
  });

  test.each([
    { location: 'weights.bin' },
    { location: 'weights.bin', offset: 0, length: 16 },
    { location: 'parts/weights.bin' },
    { location: './weights.bin' },
    { location: 'inner_link.bin' },
  ])('beside the model are read: %j', async (place) => {
    const graph = await load(place);
    expect(graph.constants.get('w')).toEqual({
      type: 'float32',
      dims: [4],
      data: Float32Array.of(1, 2, 3, 4),
    });
  });

  test('are read from an offset, for attributes, too', async () => {
    const attributes = { value: externalTensor('', [1], { location: 'weights.bin', offset: 12 }) };
    writeFileSync(
      inFolder('model.onnx'),
      onnxModel({
        initializers: [externalTensor('w', [2], { location: 'weights.bin', offset: 4, length: 8 })],
        nodes: [node('Constant', [], ['c'], attributes)],
        outputs: [value('c')],
      }),
    );
    const { constants, nodes } = await loadOnnx(inFolder('model.onnx'));
    expect(constants.get('w')!.data).toEqual(Float32Array.of(2, 3));
    expect(nodes[0]!.attributes.get('value')).toMatchObject({ data: Float32Array.of(4) });
  });

  test('are read once for tensors that share their data', async () => {
    const { constants } = await load(
      { location: 'weights.bin' },
      externalTensor('v', [2, 2], { location: './weights.bin' }),
    );
    expect(constants.get('v')!.data.buffer).toBe(constants.get('w')!.data.buffer);
  });

  test('beyond 4 GiB are read where the data are', async () => {
    const file = inFolder('large.bin');
    writeFileSync(file, '');
    truncateSync(file, 2 ** 32 + 4096);
    const { constants } = await load({ location: 'large.bin', offset: 2 ** 32, length: 16 });
    expect(constants.get('w')!.data).toEqual(new Float32Array(4));
  });

  test.each([
    [{ location: '../secret.bin' }, /outside of the model's folder/],
    [{ location: 'parts/../../secret.bin' }, /outside of the model's folder/],
    [{ location: '..\\secret.bin' }, /outside of the model's folder/],
    [{ location: path.join(scratch, 'secret.bin') }, /outside of the model's folder/],
    [{ location: 'C:\\secret.bin' }, /outside of the model's folder/],
    [{ location: 'link.bin' }, /outside of the model's folder; copy the file there/],
    [{ location: 'up/secret.bin' }, /outside of the model's folder/],
    [{ location: 'dangling.bin' }, /cannot be read/],
    [{ location: 'missing.bin' }, /'missing.bin', which cannot be read/],
    [{ location: 'parts' }, /cannot be read: it is not a file/],
    [{ location: '.' }, /outside/],
    [{ location: 'zero\0byte' }, /cannot be read/],
    [{ location: '' }, /does not say in which/],
    [{}, /does not say in which/],
    [{ location: 'weights.bin', offset: 4 }, /needs 16 bytes from byte 4 of 'weights.bin', which has 16/],
    [{ location: 'weights.bin', offset: -4 }, /at an offset of '-4'/],
    [{ location: 'weights.bin', offset: '0x4' }, /at an offset of '0x4'/],
    [{ location: 'weights.bin', offset: '9'.repeat(30) }, /at an offset of '9+'/],
    [{ location: 'weights.bin', length: 12 }, /has 12 bytes of data in 'weights.bin' and needs 16/],
  ])('%j is refused', async (place, message) => {
    await expect(load(place)).rejects.toEqual(invalidModel(/initializer 'w'/));
    await expect(load(place)).rejects.toEqual(invalidModel(message));
  });

  test('are not read again and again in other ranges', async () => {
    const more = externalTensor('v', [3], { location: 'weights.bin', offset: 4 });
    await expect(load({ location: 'weights.bin' }, more)).rejects.toEqual(
      invalidModel(/'v' .*more bytes .* than it has/),
    );
  });

  test('for tensors without a form are not even looked for', async () => {
    const graph = await load(
      { location: 'weights.bin' },
      externalTensor('s', [1], { location: '../x' }, 'string'),
    );
    expect([...graph.constants.keys()]).toEqual(['w']);
  });

  test('that need more memory than there is', async () => {
    await expect(readFilePart(inFolder('weights.bin'), 0, 2 ** 50)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_OUT_OF_MEMORY',
    });
  });
});
