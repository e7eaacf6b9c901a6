/** examples/detect.mjs as its users run it: what it prints, and what it draws. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

import sharp from 'sharp';

import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, tensor, value, type OnnxModel } from '../support/onnx_builder';
import { EXAMPLES, runExample } from './support';

const SHAPES = path.join(EXAMPLES, 'detect/shapes.svg');

/** `[left, top, width, height]` */
type Box = readonly [number, number, number, number];

interface Found {
  readonly name: string;
  readonly score: number;
  readonly box: Box;
}

let folder: string;
let out: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'warpconv-detect-'));
  out = path.join(folder, 'out.png');
});

afterAll(() => rm(folder, { recursive: true }));

async function run(args: readonly string[], nodeOptions: readonly string[] = []) {
  const script = path.join(EXAMPLES, 'detect.mjs');
  const { code, stdout, stderr } = await runExample(
    [...nodeOptions, script, ...args, '--device', TEST_DEVICE],
    { cwd: folder },
  );
  return { code, stdout, stderr };
}

/** The detections that it printed. It complained of nothing. */
async function detect(...args: readonly string[]): Promise<Found[]> {
  const { code, stdout, stderr } = await run(args);
  expect([code, stderr]).toEqual([0, '']);
  const found = [...stdout.matchAll(/^ {2}(.+) ([\d.]+) at (\d+), (\d+), (\d+) x (\d+)$/gm)].map((match) => {
    const [score, ...box] = match.slice(2).map(Number);
    return { name: match[1]!, score: score!, box: box as unknown as Box };
  });
  expect(stdout).toMatch(new RegExp(`^\\S+ found ${found.length} in \\S+:\\n`));
  expect(stdout).toMatch(
    /^on (cpu|cuda:\d): loading [\d.]+ ms, decoding .* ms, run [\d.]+ ms,.* drawing [\d.]+ ms$/m,
  );
  expect(stdout.includes('on cpu: ')).toBe(TEST_DEVICE === 'cpu');
  return found;
}

function overlap(a: Box, b: Box): number {
  const common = [0, 1].map((axis) =>
    Math.max(0, Math.min(a[axis]! + a[axis + 2]!, b[axis]! + b[axis + 2]!) - Math.max(a[axis]!, b[axis]!)),
  );
  const intersection = common[0]! * common[1]!;
  return intersection / (a[2] * a[3] + b[2] * b[3] - intersection);
}

/** The element of an SVG for a shape of one of the detector's kinds. */
function shapeOf(name: string, [left, top, width, height]: Box): string {
  const [x, y] = [left + width / 2, top + height / 2];
  if (name === 'red circle') return `<circle cx="${x}" cy="${y}" r="${width / 2}" fill="#e02020"/>`;
  if (name === 'green square')
    return `<rect x="${left}" y="${top}" width="${width}" height="${height}" fill="#20c830"/>`;
  const points = `${x},${top} ${left + width},${y} ${x},${top + height} ${left},${y}`;
  return `<polygon points="${points}" fill="#2050e0"/>`;
}

interface Shape {
  readonly name: string;
  readonly box: Box;
}

/** The shapes that an SVG has in the detector's colours. */
function shapesIn(svg: string): Shape[] {
  const shapes: Shape[] = [];
  for (const [element, kind] of svg.matchAll(/<(circle|rect|polygon) [^>]*>/g)) {
    const number = (key: string) => Number(new RegExp(` ${key}="([\\d.]+)"`).exec(element)?.[1]);
    const [, red, green, blue] = / fill="#(..)(..)(..)"/.exec(element) ?? [];
    const levels = [red, green, blue].map((level) => parseInt(level ?? '0', 16));
    // Greys are no shapes.
    if (Math.max(...levels) - Math.min(...levels) < 64) continue;
    if (kind === 'circle') {
      const [x, y, r] = [number('cx'), number('cy'), number('r')];
      shapes.push({ name: 'red circle', box: [x - r, y - r, 2 * r, 2 * r] });
    } else if (kind === 'rect') {
      const box = [number('x'), number('y'), number('width'), number('height')] as const;
      shapes.push({ name: 'green square', box });
    } else {
      const points = / points="([^"]+)"/.exec(element)![1]!.split(/[ ,]/).map(Number);
      const [xs, ys] = [0, 1].map((axis) => points.filter((_, index) => index % 2 === axis)) as [
        number[],
        number[],
      ];
      const [left, top] = [Math.min(...xs), Math.min(...ys)];
      shapes.push({ name: 'blue diamond', box: [left, top, Math.max(...xs) - left, Math.max(...ys) - top] });
    }
  }
  return shapes;
}

/**
 * Sizes of boxes are 12 % apart and places four pixels of the network, so the nearest of them to the smallest shape that
 * these pictures have, 26 pixels there, overlaps it by 0.73.
 */
function expectShapes(found: readonly Found[], shapes: readonly Shape[]): void {
  expect(found.map(({ name }) => name).sort()).toEqual(shapes.map(({ name }) => name).sort());
  for (const { name, box } of shapes) {
    const best = Math.max(...found.filter((one) => one.name === name).map((one) => overlap(one.box, box)));
    expect(best).toBeGreaterThan(0.7);
  }
}

async function pixelsOf(file: string) {
  const { data, info } = await sharp(file).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  const at = (x: number, y: number) => [...data.subarray(3 * (y * info.width + x)).subarray(0, 3)];
  return { at, width: info.width, height: info.height };
}

describe('its own detector', () => {
  const COLOURS: Readonly<Record<string, readonly number[]>> = {
    'red circle': [0xff, 0, 0xff],
    'green square': [0xff, 0xb0, 0],
    'blue diamond': [0, 0xe5, 0xff],
  };

  test('finds the shapes of its own picture, and draws boxes around them', async () => {
    const found = await detect();
    expectShapes(found, shapesIn(await readFile(SHAPES, 'utf8')));
    const [drawn, plain] = await Promise.all([path.join(folder, 'detected.png'), SHAPES].map(pixelsOf));
    expect([drawn!.width, drawn!.height]).toEqual([plain!.width, plain!.height]);
    for (const { name, box } of found) {
      const [left, top, width, height] = box;
      const [x, y] = [Math.round(left + width / 2), Math.round(top + height / 2)];
      expect(drawn!.at(x, y)).toEqual(plain!.at(x, y));
      // A line of two pixels covers one of them at least, within one of the rounded edge.
      const across = (at: (offset: number) => number[]) => [-2, -1, 0, 1, 2].map(at);
      for (const edge of [
        across((offset) => drawn!.at(left + offset, y)),
        across((offset) => drawn!.at(left + width + offset, y)),
        across((offset) => drawn!.at(x, top + height + offset)),
      ]) {
        expect(edge).toContainEqual(COLOURS[name]);
      }
    }
  });

  test.each([
    ['upright', 300, 450],
    ['wide', 800, 200],
  ])('finds shapes in a picture that is %s', async (_, width, height) => {
    const scale = Math.min(320 / width, 240 / height);
    const shapes: Shape[] = ['red circle', 'green square', 'blue diamond'].map((name, index) => {
      const size = Math.round([30, 44, 60][index]! / scale);
      const [x, y] = width > height ? [(1 + index) / 4, 0.5] : [0.5, (1 + index) / 4];
      return { name, box: [Math.round(x * width - size / 2), Math.round(y * height - size / 2), size, size] };
    });
    const elements = shapes.map(({ name, box }) => shapeOf(name, box)).join('');
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">
      <rect width="${width}" height="${height}" fill="#d0d0d0"/>${elements}</svg>`;
    const picture = path.join(folder, 'shapes.jpg');
    await sharp(Buffer.from(svg)).jpeg({ quality: 85 }).toFile(picture);
    expectShapes(await detect(path.join(EXAMPLES, 'detect/shapes.onnx'), picture, out), shapes);
  });

  test.each([
    ['jpg', 'jpeg'],
    ['JPEG', 'jpeg'],
    ['webp', 'webp'],
  ])('writes .%s in the format of that name', async (ending, format) => {
    const file = path.join(folder, `drawn.${ending}`);
    await detect(path.join(EXAMPLES, 'detect/shapes.onnx'), SHAPES, file);
    expect((await sharp(file).metadata()).format).toBe(format);
  });

  test('finds nothing where nothing is', async () => {
    const picture = path.join(folder, 'grey.png');
    await sharp({ create: { width: 90, height: 90, channels: 3, background: '#808080' } })
      .png()
      .toFile(picture);
    expect(await detect(path.join(EXAMPLES, 'detect/shapes.onnx'), picture, out)).toEqual([]);
  });
});

describe('models of other forms', () => {
  const INPUT = value('image', [1, 3, 64, 64]);
  let picture: string;

  // Scaled by 0.32 to 64 x 32, with 16 rows of grey above and below.
  beforeAll(async () => {
    picture = path.join(folder, 'red.png');
    await sharp({ create: { width: 200, height: 100, channels: 3, background: '#ff0000' } })
      .png()
      .toFile(picture);
  });

  async function detectBy(model: OnnxModel, ...options: string[]): Promise<Found[]> {
    const file = path.join(folder, 'model.onnx');
    await writeFile(file, onnxModel(model));
    return detect(file, picture, out, ...options);
  }

  /** A model that gives constants for whatever picture. */
  function constantly(
    outputs: Readonly<Record<string, readonly [dims: readonly number[], elements: readonly number[]]>>,
  ): OnnxModel {
    const entries = Object.entries(outputs);
    return {
      inputs: [INPUT],
      initializers: [
        tensor('zero', [1], [0]),
        ...entries.map(([name, [dims, elements]]) => tensor(`${name}_`, dims, elements)),
      ],
      nodes: [
        node('ReduceMean', ['image'], ['mean'], { keepdims: 0 }),
        node('Mul', ['mean', 'zero'], ['nothing']),
        ...entries.map(([name]) => node('Add', [`${name}_`, 'nothing'], [name])),
      ],
      outputs: entries.map(([name, [dims]]) => value(name, dims)),
    };
  }

  // As x1, y1, x2, y2 in 64 x 64: one twice, the second time a little beside it, one that goes beyond the picture, and noise.
  const BOXES = [
    [10, 20, 30, 40],
    [11, 20, 31, 40],
    [40, 8, 72, 40],
    [0, 16, 16, 32],
  ] as const;
  /** Of three classes for each box. */
  const SCORES = [
    [0, 0.9, 0.1],
    [0, 0.8, 0.7],
    [0.6, 0, 0],
    [0.1, 0.1, 0.1],
  ] as const;
  const EXPECTED = [
    { name: 'class 1', score: 0.9, box: [31, 13, 63, 63] },
    { name: 'class 2', score: 0.7, box: [34, 13, 63, 63] },
    { name: 'class 0', score: 0.6, box: [125, 0, 75, 75] },
  ];
  // Real detectors have more boxes than numbers for each, by which their forms are told apart. The others have no scores.
  const MANY = 12;
  const boxes = Array.from({ length: MANY }, (_, index) => BOXES[index] ?? [0, 0, 1, 1]);
  const scores = Array.from({ length: MANY }, (_, index) => SCORES[index] ?? [0, 0, 0]);
  const centred = boxes.map(([x1, y1, x2, y2]) => [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1]);
  const turned = (rows: readonly (readonly number[])[]) =>
    rows[0]!.map((_, column) => rows.map((row) => row[column]!));

  test.each<[string, Parameters<typeof constantly>[0]]>([
    [
      'YOLOv5',
      {
        output0: [
          [1, MANY, 8],
          centred.flatMap((box, row) => [...box, 0.5, ...scores[row]!.map((one) => 2 * one)]),
        ],
      },
    ],
    [
      'YOLOv8',
      { output0: [[1, 7, MANY], turned(centred.map((box, row) => [...box, ...scores[row]!])).flat()] },
    ],
    [
      'SSD, with a background and in parts of the picture',
      {
        scores: [[1, MANY, 4], scores.flatMap((row) => [1 - row.reduce((sum, one) => sum + one, 0), ...row])],
        boxes: [[1, MANY, 4], boxes.flat().map((one) => one / 64)],
      },
    ],
    [
      'SSD, with scores by class and in pixels',
      { boxes: [[1, MANY, 4], boxes.flat()], scores: [[1, 3, MANY], turned(scores).flat()] },
    ],
  ])('%s', async (_, outputs) => {
    expect(await detectBy(constantly(outputs))).toEqual(EXPECTED);
  });

  describe('that select themselves, [1, N, 6]', () => {
    const rows = [
      [...BOXES[0], 0.9, 1],
      [...BOXES[1], 0.8, 1],
      [...BOXES[1], 0.7, 2],
      [...BOXES[2], 0.6, 0],
      [...BOXES[3], 0.1, 2],
    ];
    // Nothing is suppressed a second time.
    const found = EXPECTED.toSpliced(1, 0, { name: 'class 1', score: 0.8, box: [34, 13, 63, 63] });

    test.each([
      ['as many rows as detections', []],
      ['zeros below', Array.from({ length: 300 }, () => [0, 0, 0, 0, 0, 0])],
      ['rows of class -1 below', Array.from({ length: 3 }, () => [0, 0, 0, 0, 0.9, -1])],
    ])('%s', async (_, rest) => {
      const all = [...rows, ...rest];
      expect(await detectBy(constantly({ output0: [[1, all.length, 6], all.flat()] }))).toEqual(found);
    });

    test('in parts of the picture', async () => {
      const parts = rows.map((row) => row.map((one, column) => (column < 4 ? one / 64 : one)));
      expect(await detectBy(constantly({ output0: [[1, parts.length, 6], parts.flat()] }))).toEqual(found);
    });

    test('and what found nothing', async () => {
      const model: OnnxModel = {
        inputs: [INPUT],
        initializers: [tensor('none', [3], [1, 0, 6], 'int64'), tensor('start', [1], [0], 'int64')],
        nodes: [
          node('Slice', ['image', 'start', 'start'], ['nothing']),
          node('Reshape', ['nothing', 'none'], ['output0'], { allowzero: 1 }),
        ],
        outputs: [value('output0', [1, 0, 6])],
      };
      expect(await detectBy(model)).toEqual([]);
    });

    test('a YOLOv5 of one class has that shape, too', async () => {
      const elements = centred.flatMap((box, row) => [...box, 0.5, 2 * scores[row]![0]!]);
      const [, , only] = EXPECTED;
      expect(await detectBy(constantly({ output0: [[1, MANY, 6], elements] }))).toEqual([only]);
    });
  });

  // Half of the network's input is red, the other half grey.
  const GREY = 0x72 / 255;
  test.each([
    ['as they are usual', [], [(1 + GREY) / 2, GREY / 2]],
    [
      'with a mean',
      ['--mean', '51', '--std', '102'],
      [(2 + (0x72 - 51) / 102) / 2, (-0.5 + (0x72 - 51) / 102) / 2],
    ],
  ])('the network gets channels of red, green and blue, %s', async (_, options, [red, green]) => {
    const model: OnnxModel = {
      inputs: [INPUT],
      initializers: [
        tensor('box', [1, 4, 1], [32, 32, 25, 25]),
        tensor('shape', [3], [1, 3, 1], 'int64'),
        tensor('many', [3], [1, 7, MANY], 'int64'),
      ],
      nodes: [
        node('GlobalAveragePool', ['image'], ['means']),
        node('Reshape', ['means', 'shape'], ['scores']),
        node('Concat', ['box', 'scores'], ['detection'], { axis: 1 }),
        node('Expand', ['detection', 'many'], ['output0']),
      ],
      outputs: [value('output0', [1, 7, MANY])],
    };
    const found = await detectBy(model, ...options, '--score=-9');
    const byName = Object.fromEntries(found.map(({ name, score }) => [name, score]));
    expect(Object.keys(byName).sort()).toEqual(['class 0', 'class 1', 'class 2']);
    // Two places are printed.
    expect(Math.abs(byName['class 0']! - red!)).toBeLessThan(0.0051);
    expect(Math.abs(byName['class 1']! - green!)).toBeLessThan(0.0051);
  });

  test('classes have the names of the file beside the model', async () => {
    await writeFile(path.join(folder, 'model.txt'), 'cat\n<dog> & co\n');
    const model = constantly({
      output0: [[1, 7, MANY], turned(centred.map((box, row) => [...box, ...scores[row]!])).flat()],
    });
    expect((await detectBy(model)).map(({ name }) => name)).toEqual(['<dog> & co', 'class 2', 'cat']);
    await rm(path.join(folder, 'model.txt'));
  });
});

describe('what it says when it cannot', () => {
  test('without sharp', async () => {
    const hooks = `export const resolve = (name, context, next) => {
      if (name === 'sharp') throw Object.assign(new Error('gone'), { code: 'ERR_MODULE_NOT_FOUND' });
      return next(name, context);
    };`;
    const url = (text: string) => `data:text/javascript,${encodeURIComponent(text)}`;
    const register = `import { register } from 'node:module'; register(${JSON.stringify(url(hooks))});`;
    expect(await run([], ['--import', url(register)])).toEqual({
      code: 1,
      stdout: '',
      stderr: 'sharp, which reads and writes pictures, is not installed: npm install sharp\n',
    });
  });

  const MODEL = path.join(EXAMPLES, 'detect/shapes.onnx');
  test.each([
    ['an option that is none', ['--size', '3'], /^Unknown option '--size'.*\nusage: node examples/],
    ['a score that is no number', ['--score', 'high'], /^--score must be a number, got 'high'\nusage: /],
    ['too many files', [MODEL, SHAPES, 'out.png', 'more.png'], /^more\.png is one argument .*\nusage: /],
    ['a picture alone', ['photo.jpg'], /^photo\.jpg is a picture; the model comes before it\nusage: /],
    ['another format', [MODEL, 'nothing.jpg', 'out.bmp'], /^out\.bmp cannot be written: .* \.webp\nusage: /],
    ['a model that is not there', ['nothing.onnx'], /^nothing\.onnx: ENOENT/],
    ['a model that is a directory', [EXAMPLES], /examples: is a directory\n$/],
    ['a model that is none', [path.join(EXAMPLES, 'basic.mjs')], /basic\.mjs: the model is not an ONNX file/],
    ['a picture that is not there', [MODEL, 'nothing.jpg'], /^nothing\.jpg: ENOENT/],
    ['a picture that is a directory', [MODEL, EXAMPLES], /examples: is a directory\n$/],
    ['a picture that is none', [MODEL, MODEL], /shapes\.onnx: Input file contains unsupported/],
    [
      'a model that takes no pictures',
      [path.join(EXAMPLES, 'digits/digits.onnx')],
      /a detector has one input of shape \[1, 3, height, width\]; this model has 'image' \[N,1,8,8\]/,
    ],
  ])('%s', async (_, args, reason) => {
    const { code, stdout, stderr } = await run(args);
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(reason)]);
  });

  test.each(['-h', '--help'])('its usage for %s', async (option) => {
    const { code, stdout, stderr } = await run([option]);
    expect([code, stdout, stderr]).toEqual([0, expect.stringMatching(/^usage: node examples/), '']);
  });

  test('outputs of another form', async () => {
    const model = {
      inputs: [value('x', [1, 3, 8, 8])],
      nodes: [node('Relu', ['x'], ['y'])],
      outputs: [value('y')],
    };
    const file = path.join(folder, 'other.onnx');
    await writeFile(file, onnxModel(model));
    const { code, stderr } = await run([file]);
    expect([code, stderr]).toEqual([
      1,
      "these outputs are neither YOLO's nor SSD's: 'y' float32 [1, 3, 8, 8]\n",
    ]);
  });
});
