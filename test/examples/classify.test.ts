/** examples/classify.mjs as its users run it. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

import sharp from 'sharp';

import { node, onnxModel, value } from '../support/onnx_builder';
import { DIGITS, EIGHT, EXAMPLES, runExample, softmax } from './support';

let folder: string;
const classify = (...args: string[]) =>
  runExample([path.join(EXAMPLES, 'classify.mjs'), ...args], { cwd: folder });

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'warpconv-classify-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** The classes that it printed, with their percentages. It complained of nothing. */
async function classesOf(...args: string[]): Promise<[label: string, percent: number][]> {
  const { code, stdout, stderr } = await classify(...args);
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/^\S+ sees in \S+:\n/);
  expect(stdout).toMatch(/\non (cpu|cuda:\d): decoding [\d.]+ ms, run [\d.]+ ms\n$/);
  return [...stdout.matchAll(/^ *([\d.]+) % {2}(.+)$/gm)].map(([, percent, label]) => [
    label!,
    Number(percent),
  ]);
}

test('its own network reads its own picture', async () => {
  const classes = await classesOf();
  expect(classes).toHaveLength(5);
  expect(classes[0]![0]).toBe('eight');
  expect(classes[0]![1]).toBeGreaterThan(90);
});

describe('a model of colours', () => {
  // The mean of each channel as the network gets it is a logit.
  const MODEL = onnxModel({
    inputs: [value('image', ['N', 3, 224, 224])],
    nodes: [node('GlobalAveragePool', ['image'], ['scores'])],
    outputs: [value('scores', ['N', 3, 1, 1])],
  });
  const BACKGROUND = { r: 255, g: 0, b: 0 };
  const MIDDLE = { r: 40, g: 90, b: 200 };
  let model: string;
  let picture: string;

  // ImageNet's pictures come to 256 pixels, of which the middle 224 are seen.
  beforeAll(async () => {
    model = path.join(folder, 'colours.onnx');
    picture = path.join(folder, 'blue.png');
    const create = { width: 224, height: 224, channels: 3, background: MIDDLE } as const;
    const middle = await sharp({ create }).png().toBuffer();
    const around = { ...create, width: 512, height: 256, background: BACKGROUND };
    await Promise.all([
      writeFile(model, MODEL),
      sharp({ create: around })
        .composite([{ input: middle }])
        .png()
        .toFile(picture),
    ]);
  });

  test('sees the middle, prepared as ImageNet is', async () => {
    const { r, g, b } = MIDDLE;
    const logits = [(r / 255 - 0.485) / 0.229, (g / 255 - 0.456) / 0.224, (b / 255 - 0.406) / 0.225];
    const [red, green, blue] = softmax(logits).map((one) => Number((100 * one).toFixed(1)));
    expect(await classesOf(model, picture)).toEqual([
      ['class 2', blue],
      ['class 1', green],
      ['class 0', red],
    ]);
  });

  test('classes have the names of a file, and else of the one beside the model', async () => {
    await writeFile(path.join(folder, 'names.txt'), 'red\r\ngreen\r\nblue\r\n');
    const first = await classesOf(model, picture, 'names.txt');
    expect(first.map(([label]) => label)).toEqual(['blue', 'green', 'red']);
    await writeFile(path.join(folder, 'colours.txt'), 'rot\ngrün\nblau');
    const second = await classesOf(model, picture);
    expect(second.map(([label]) => label)).toEqual(['blau', 'grün', 'rot']);
  });

  test('says what is wrong', async () => {
    const two = path.join(folder, 'two.txt');
    await writeFile(two, 'red\ngreen\n');
    const complaints: [args: string[], complaint: RegExp][] = [
      [[picture], /blue\.png is a picture; the model comes before it\nusage: node examples/],
      [[model], /^name a picture\nusage: /],
      [[model, picture, two, 'more'], /^more is one argument too many\nusage: /],
      [['nothing.onnx', picture], /^nothing\.onnx: .*ENOENT/],
      [[model, 'nothing.jpg'], /^nothing\.jpg: ENOENT/],
      [[model, model], /colours\.onnx: not a picture that can be read: Input buffer .*unsupported/],
      [[model, picture, 'nothing.txt'], /^nothing\.txt: ENOENT/],
      [[model, picture, two], /two\.txt: 2 names for 3 classes\n$/],
      [[two, picture], /two\.txt: the model is not an ONNX file/],
      [
        [path.join(EXAMPLES, 'detect/suppression.onnx'), EIGHT],
        /a classifier has one input \[N, 3 or 1, height, width\]; this model has 'boxes' /,
      ],
    ];
    const endings = await Promise.all(complaints.map(([args]) => classify(...args)));
    expect(endings.map(({ code, stdout, stderr }) => [code, stdout, stderr])).toEqual(
      complaints.map(([, complaint]) => [1, '', expect.stringMatching(complaint)]),
    );
  });
});

test('a model that is no classifier is refused', async () => {
  const file = path.join(folder, 'detector.onnx');
  const model = {
    inputs: [value('x', [1, 3, 8, 8])],
    nodes: [node('Relu', ['x'], ['y'])],
    outputs: [value('y')],
  };
  await writeFile(file, onnxModel(model));
  const { code, stderr } = await classify(file, DIGITS);
  expect([code, stderr]).toEqual([1, `${file}: a classifier gives one number a class; 'y' is [1,3,8,8]\n`]);
});
