/** Images as tensors and back. */
import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import * as common from 'onnxruntime-common';
import sharp from 'sharp';

import { Tensor, type DataType, type FromImageOptions } from '../../lib';
import { Random } from '../support/random';

const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-image-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Two pixels: red, green, blue and, where there is one, opacity. */
const PIXELS = { data: Uint8Array.of(255, 0, 51, 102, 10, 20, 30, 40), width: 2, height: 1 };
const elementsOf = async (options?: FromImageOptions, image = PIXELS) => {
  const { dims, data, type } = await Tensor.fromImage(image, options);
  return { type, dims, elements: Array.from(data, (one) => Math.round(one * 1e5) / 1e5) };
};

test('red, green and blue from 0 to 1, unless said otherwise', async () => {
  expect(await elementsOf()).toEqual({
    type: 'float32',
    dims: [1, 3, 1, 2],
    elements: [1, 0.03922, 0, 0.07843, 0.2, 0.11765],
  });
});

test.each([
  ['BGR', [51, 30, 0, 20, 255, 10]],
  ['RBG', [255, 10, 51, 30, 0, 20]],
  ['RGBA', [255, 10, 0, 20, 51, 30, 102, 40]],
] as const)('as %s', async (tensorFormat, elements) => {
  const dims = [1, elements.length / 2, 1, 2];
  const made = await elementsOf({ tensorFormat, dataType: 'uint8' });
  expect(made).toEqual({ type: 'uint8', dims, elements });
});

test('channels last', async () => {
  const made = await elementsOf({ tensorLayout: 'NHWC', dataType: 'uint8' });
  expect(made).toEqual({ type: 'uint8', dims: [1, 1, 2, 3], elements: [255, 0, 51, 10, 20, 30] });
});

test('normalised, by one number or one for each channel', async () => {
  const one = await elementsOf({ norm: { mean: 5, bias: 5 } });
  expect(one.elements).toEqual([52, 3, 1, 5, 11.2, 7]);
  const each = await elementsOf({ norm: { mean: [1, 10, 3], bias: [0, 10, -3] } });
  expect(each.elements).toEqual([255, 10, 1, 3, 16, 9]);
});

test('grey is the same in all colours, and without opacity is opaque', async () => {
  const grey = { data: Uint8Array.of(7), width: 1, height: 1, channels: 1 };
  const made = await elementsOf({ tensorFormat: 'RGBA', dataType: 'uint8' }, grey);
  expect(made.elements).toEqual([7, 7, 7, 255]);
});

test('encoded images, by their bytes, a path and URLs, also resized', async () => {
  const random = new Random(1);
  const data = Uint8Array.from({ length: 5 * 4 * 3 }, () => random.integer(0, 255));
  const png = await sharp(data, { raw: { width: 5, height: 4, channels: 3 } })
    .png()
    .toBuffer();
  const file = path.join(folder, 'image.png');
  writeFileSync(file, png);
  const raw = await Tensor.fromImage({ data, width: 5, height: 4, channels: 3 });
  for (const image of [new Uint8Array(png), file, pathToFileURL(file), pathToFileURL(file).href]) {
    expect(await Tensor.fromImage(image)).toEqual(raw);
  }
  const resized = { resizedWidth: 3, resizedHeight: 2 };
  const [a, b] = [
    await Tensor.fromImage(file, resized),
    await Tensor.fromImage({ data, width: 5, height: 4 }, resized),
  ];
  expect(a.dims).toEqual([1, 3, 2, 3]);
  expect(a).toEqual(b);
});

test('pixels with what sharp says of them', async () => {
  const { data, width, height } = PIXELS;
  const options = { raw: { width, height, channels: 4 } } as const;
  const output = await sharp(data, options).raw().toBuffer({ resolveWithObject: true });
  expect(await Tensor.fromImage(output)).toEqual(await Tensor.fromImage(PIXELS));
});

test('and back, as ImageData has it', async () => {
  for (const [tensorFormat, tensorLayout] of [
    ['RGB', 'NCHW'],
    ['BGR', 'NHWC'],
    ['RGBA', 'NHWC'],
  ] as const) {
    const tensor = await Tensor.fromImage(PIXELS, { tensorFormat, tensorLayout });
    const { data, width, height } = tensor.toImageData({ format: tensorFormat, tensorLayout });
    const opacity = tensorFormat === 'RGBA' ? [102, 40] : [255, 255];
    expect([width, height]).toEqual([2, 1]);
    expect(Array.from(data)).toEqual([255, 0, 51, opacity[0], 10, 20, 30, opacity[1]]);
  }
});

test('numbers beyond a byte are brought to its ends', () => {
  for (const type of ['float32', 'float16', 'bfloat16'] as const) {
    const tensor = new Tensor<DataType>(type, [-1, 2, 0.5], [1, 3, 1, 1]);
    expect([type, ...tensor.toImageData().data]).toEqual([type, 0, 255, 128, 255]);
  }
});

test.each([
  ['no image', 5, undefined, /image must be .*, got 5$/],
  ['a promise of one', Promise.resolve(PIXELS), undefined, /image must be .*, got a promise$/],
  [
    'an instance of sharp',
    sharp(),
    undefined,
    /^image must be \{ data, width, height \}, sharp's .*; pass what its toBuffer\(\) resolves to$/,
  ],
  ['pixels of sharp without a height', { ...PIXELS, info: { width: 2 } }, undefined, /image\.info\.height/],
  ['a URL of another scheme', new URL('https://localhost/a.png'), undefined, /must be of scheme file/],
  ['its text', 'https://localhost/a.png', undefined, /must be of scheme file/],
  ['too few bytes', { data: new Uint8Array(5), width: 2, height: 1 }, undefined, /has 5 bytes; 2 x 1 pixels/],
  ['a width of 0', { data: new Uint8Array(0), width: 0, height: 1 }, undefined, /image.width/],
  ['a file that is not there', 'nowhere.png', undefined, /image cannot be read/],
  ['bytes of nothing', new Uint8Array(8), undefined, /no image that sharp decodes/],
  ['another format', PIXELS, { tensorFormat: 'XYZ' }, /options.tensorFormat/],
  ['one side alone', PIXELS, { resizedWidth: 3 }, /options.resizedHeight/],
  ['a mean of 0', PIXELS, { norm: { mean: 0 } }, /must not be 0/],
  ['two means', PIXELS, { norm: { mean: [1, 2] } }, /options.norm.mean/],
])('%s is refused', async (_, image, options, message) => {
  await expect(Tensor.fromImage(image as never, options as never)).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringMatching(message) as string,
  });
});

test('where sharp is not installed, one line says what to do', async () => {
  const missing = new Error("Cannot find module 'sharp'\nRequire stack:\n- from_image.js");
  jest.resetModules();
  jest.doMock('sharp', () => {
    throw missing;
  });
  const lib = jest.requireActual<{ Tensor: typeof Tensor }>('../../lib');
  await expect(lib.Tensor.fromImage(new Uint8Array(8))).rejects.toMatchObject({
    code: 'ERR_WARPCONV_UNSUPPORTED',
    message: "decoding an image needs sharp: npm install sharp (Cannot find module 'sharp')",
    cause: missing,
  });
  jest.dontMock('sharp');
});

test('a tensor that is no image is refused', () => {
  expect(() => new Tensor('int4', new Int8Array(2), [1, 1, 2, 2]).toImageData()).toThrow(
    /is of int4; an image/,
  );
  expect(() => new Tensor('float32', new Float32Array(4), [4]).toImageData()).toThrow(
    /an image of RGB in NCHW has 4/,
  );
});

test('over memory that there is', () => {
  const data = Float32Array.of(1, 2);
  const tensor = Tensor.fromPinnedBuffer('float32', data, [1, 2]);
  expect([tensor.data, tensor.dims]).toEqual([data, [1, 2]]);
  expect(() => Tensor.fromGpuBuffer({}, { dims: [1] })).toThrow(/buffer must be the gpuBuffer of a tensor/);
});

test('the names are onnxruntime-common’s', () => {
  for (const name of ['fromImage', 'fromGpuBuffer', 'fromPinnedBuffer'] as const) {
    expect([typeof common.Tensor[name], typeof Tensor[name]]).toEqual(['function', 'function']);
  }
});
