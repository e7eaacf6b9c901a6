/** What onnxruntime-common exports is here under the same name, or in a list with the reason. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import ts from 'typescript';

import * as ort from '../../lib';
import tsconfig from '../../tsconfig.json';

const ROOT = path.join(__dirname, '../..');
const TENSORS = ['Tensor', 'TypedTensor', 'OnnxValue'];
const ELSEWHERE = 'coreml dml nnapi qnn tensorrt wasm webgl webgpu webnn xnnpack'.split(' ');

/** Those that are not here. `A.b` is a name in A, `A#b` a member of an A, `A='b'` one of the words that A stands for. */
const MISSING: Readonly<Record<string, readonly string[]>> = {
  "are between onnxruntime's own packages; 'warpconv/onnxruntime' is a backend": [
    ...['Backend', 'InferenceSessionHandler', 'SessionHandler'],
    ...['TRACE', 'TRACE_EVENT_BEGIN', 'TRACE_EVENT_END', 'TRACE_FUNC_BEGIN', 'TRACE_FUNC_END'],
  ],
  'are of browsers: they need a canvas, WebGL, WebGPU or WebNN': [
    ...TENSORS.flatMap((name) => ['texture', 'mlTensor', 'toDataURL'].map((member) => `${name}#${member}`)),
    ...['Tensor.', 'TensorFactory#', 'TensorConstructor#'].flatMap((owner) => [
      `${owner}fromTexture`,
      `${owner}fromMLTensor`,
    ]),
    ...['OnnxValueDataLocation', 'Tensor.DataLocation'].flatMap((name) => [
      `${name}='texture'`,
      `${name}='ml-tensor'`,
    ]),
    ...['Tensor.TextureType', 'Tensor.TextureDataTypes'],
    ...['Tensor.MLTensorType', 'Tensor.MLTensorDataTypes', 'Tensor.MLTensorTypeFallback'],
    ...['Tensor.GpuBufferType#size', 'Tensor.GpuBufferType#mapState', 'Tensor.GpuBufferTypeFallback'],
    ...['TensorFromImageBitmapOptions', 'TensorFromImageElementOptions', 'TensorToDataUrlOptions'],
    ...['TensorFromTextureOptions', 'TensorFromMLTensorOptions', 'FileBlob'],
  ],
  'are for memory of somebody else, and a tensor here is over memory of another tensor': [
    ...['TensorFromGpuBufferOptions#download', 'TensorFromGpuBufferOptions#dispose'],
  ],
  'are strings, which there are no tensors of': [
    ...["Tensor.Type='string'", 'Tensor.DataTypeMap#string', 'Tensor.ElementTypeMap#string'],
  ],
  'are of providers that there are not here: their names are passed over': [
    ...ELSEWHERE.flatMap((name) => [
      `InferenceSession.ExecutionProviderName='${name}'`,
      `InferenceSession.ExecutionProviderOptionMap#${name}`,
    ]),
    ...[
      'CoreML',
      'Dml',
      'Nnapi',
      'Qnn',
      'TensorRt',
      'WebAssembly',
      'WebGL',
      'WebGpu',
      'WebNN',
      'Xnnpack',
    ].map((name) => `InferenceSession.${name}ExecutionProviderOption`),
    ...[
      'ContextOptions',
      'ExecutionProviderName',
      'OptionsWebGpu',
      'OptionsWithMLContext',
      'OptionsWithoutMLContext',
    ].map((name) => `InferenceSession.WebNN${name}`),
  ],
  'describe settings that have no effect here: they can be anything': [
    ...['WasmFilePaths', 'WasmPathPrefix', 'WasmPrefixOrFilePaths', 'WebAssemblyFlags', 'WebGLFlags'],
    ...['WebGpuFlags', 'WebGpuProfilingData', 'WebGpuProfilingDataV1', 'WebGpuProfilingDataV1TensorMetadata'],
  ].map((name) => `Env.${name}`),
  'are parts from which other declarations are put together': [
    ...['ConversionUtils', 'OptionResizedDimensions', 'OptionsDimensions', 'OptionsFormat'],
    ...[
      'OptionsNormalizationParameters',
      'OptionsTensorDataType',
      'OptionsTensorFormat',
      'OptionsTensorLayout',
    ],
    ...['InferenceSession.ValueMetadataBase', 'TensorFromUrlOptions'],
    ...['CpuPinned', 'GpuBuffer', 'MLTensor', 'Texture'].map((name) => `${name}ConstructorParameters`),
  ],
  'are of values that are no tensors, which networks here do not have': [
    ...['NonTensorType', 'InferenceSession.NonTensorValueMetadata'],
  ],
};

const program = ts.createProgram(
  [path.join(ROOT, 'lib/index.ts'), path.join(ROOT, 'node_modules/onnxruntime-common/dist/cjs/index.d.ts')],
  {
    ...ts.convertCompilerOptionsFromJson(tsconfig.compilerOptions, ROOT).options,
    types: ['node'],
  },
);
const checker = program.getTypeChecker();

/** What a module exports, and what is in it, by paths as those of {@link MISSING}. */
function namesOf(file: string): Set<string> {
  const source = program.getSourceFile(path.join(ROOT, file))!;
  const names = new Set<string>();
  const addMembers = (prefix: string, members: readonly ts.Symbol[]) =>
    members.filter(isDeclaredHere).forEach(({ name }) => names.add(`${prefix}${name}`));
  const add = (prefix: string, exported: ts.Symbol) => {
    const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
    const name = `${prefix}${exported.name}`;
    names.add(name);
    if (symbol.flags & ts.SymbolFlags.Value)
      addMembers(`${name}.`, checker.getTypeOfSymbol(symbol).getProperties());
    if (symbol.flags & ts.SymbolFlags.Type) {
      const type = checker.getDeclaredTypeOfSymbol(symbol);
      const words = (type.isUnion() ? type.types : [type]).filter((one) => one.isStringLiteral());
      words.forEach(({ value }) => names.add(`${name}='${value}'`));
      addMembers(`${name}#`, type.getProperties());
    }
    if (symbol.flags & ts.SymbolFlags.Namespace)
      symbol.exports?.forEach((inner) => inner.flags & ts.SymbolFlags.Type && add(`${name}.`, inner));
  };
  checker.getExportsOfModule(checker.getSymbolAtLocation(source)!).forEach((symbol) => add('', symbol));
  return names;
}

/** Not what arrays and functions of JavaScript have by themselves. */
function isDeclaredHere(symbol: ts.Symbol): boolean {
  const files = symbol.declarations?.map((declaration) => declaration.getSourceFile().fileName) ?? [];
  return (
    symbol.name !== 'prototype' && files.some((file) => !/node_modules\/(typescript|@types)\//.test(file))
  );
}

const theirs = namesOf('node_modules/onnxruntime-common/dist/cjs/index.d.ts');
const ours = namesOf('lib/index.ts');

/** Of what is missing whole, not the parts. */
function missing(): string[] {
  const absent = [...theirs].filter((name) => !ours.has(name));
  return absent.filter(
    (name) => !absent.some((whole) => name.startsWith(whole) && /^[.#=]/.test(name.slice(whole.length))),
  );
}

test('what is looked at is what there is', () => {
  expect([...theirs]).toEqual(
    expect.arrayContaining([
      'Tensor#dims',
      'Tensor.fromImage',
      "Tensor.Type='int4'",
      'InferenceSession.create',
      'InferenceSession.SessionOptions#extra',
      'Env#wasm',
    ]),
  );
});

test('every name is here, or in the list', () => {
  expect(missing().sort()).toEqual(Object.values(MISSING).flat().sort());
});

test('the page about it tells of every member', () => {
  const page = readFileSync(path.join(ROOT, 'docs/onnxruntime.md'), 'utf8');
  const prose = page.replaceAll(/```.*?```/gs, '');
  const told = new Set([...prose.matchAll(/`([^`]+)`/g)].flatMap(([, code]) => code!.match(/\w+/g) ?? []));
  const classes = [
    'Tensor',
    'InferenceSession',
    'InferenceSession.SessionOptions',
    'InferenceSession.RunOptions',
    'Env',
  ];
  const members = [...theirs].filter((name) =>
    classes.some((owner) => /^[.#]\w+$/.test(name.slice(owner.length)) && name.startsWith(owner)),
  );
  const words = members.map((name) => name.split(/[.#]/).at(-1)!).filter((name) => /^[a-z]/.test(name));
  expect(words.length).toBeGreaterThan(50);
  expect(words.filter((word) => !told.has(word))).toEqual([]);
});

test('a program that uses its types runs', async () => {
  const options: ort.InferenceSession.SessionOptions = { graphOptimizationLevel: 'all', logSeverityLevel: 3 };
  const providers: ort.InferenceSession.ExecutionProviderConfig[] = [
    'cpu',
    { name: 'cpu', useArena: true } as const,
  ];
  const load = async (create: ort.InferenceSessionFactory['create']): Promise<ort.InferenceSession> =>
    create(Uint8Array.of(1), { ...options, executionProviders: providers });
  await expect(load(ort.InferenceSession.create.bind(ort.InferenceSession))).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_MODEL',
  });
  const type: ort.Tensor.Type = 'float32';
  const x: ort.TypedTensor<'float32'> = new ort.Tensor(type, [1, 2], [2]);
  const feeds: ort.InferenceSession.FeedsType = { x };
  const values: Record<string, ort.OnnxValue> = { x, n: new ort.Tensor('int64', [1n], [1]) };
  const data: ort.Tensor.DataTypeMap['float32'] = x.data;
  expect([Object.keys(feeds), Object.keys(values), [...data]]).toEqual([['x'], ['x', 'n'], [1, 2]]);
});
