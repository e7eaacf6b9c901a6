/** Models that take images: tensors of bytes, and bodies that are a file, read by one thread and by three. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { crc32, deflateSync, gzipSync } from 'node:zlib';

import sharp from 'sharp';

import type { InferenceSession as Session } from '../../lib';
import type { RunningServer, ServedSession, ServeOptions } from '../../lib/serve';
import type { ModelOptions } from '../../lib/serve/model';
import { node, onnxModel, value } from '../support/onnx_builder';
import { InferenceSession, openBuilt, serve as serveBuilt } from './support/built';
import { binaryRequest, binaryResponse, json, postJson, RawConnection, request } from './support/client';
import { doublingSession } from './support/fake_session';
import { joinAll } from './support/joining';
import type * as Outside from './support/outside';
import { closeAll, until } from './support/serving';

// Runs are joined by the built package.
jest.mock('../../lib/serve/batch_sizes', () => {
  const { load } = jest.requireActual<typeof Outside>('./support/outside');
  return load('../../../dist/serve/batch_sizes') as object;
});

const sessions: Session[] = [];
afterEach(async () => {
  jest.restoreAllMocks();
  await closeAll();
  await Promise.all(sessions.splice(0).map((session) => session.release()));
});

type Shape = readonly (number | string)[];

const identity = (shape: Shape) =>
  onnxModel({
    inputs: [value('x', shape)],
    nodes: [node('Identity', ['x'], ['y'])],
    outputs: [value('y', shape)],
  });

/** Gives the elements of its input back, which are the bytes of images themselves where `scale` is 1. */
async function echo(shape: Shape = ['N', 3, 4, 6]): Promise<Session> {
  return keep(await InferenceSession.create(identity(shape), { device: 'cpu' }));
}

function keep(session: Session): Session {
  sessions.push(session);
  return session;
}

const INFER = '/v2/models/m/infer';
const BYTES = { scale: 1 } as const;
const NORMALISED = { mean: [0.5, 0.25, 0], std: [0.5, 0.25, 2] };

/** Models that only tell their input, by the names under which one server has them all. */
const ECHOES = {
  fixed: { shape: ['N', 3, 4, 6], image: BYTES },
  fixedCovered: { shape: ['N', 3, 4, 6], image: { ...BYTES, resize: 'cover' } },
  fixedFilled: { shape: ['N', 3, 4, 6], image: { ...BYTES, resize: 'fill' } },
  fixedPlanes: { shape: ['N', 3, 4, 6], image: { ...BYTES, layout: 'NCHW' } },
  grey: { shape: ['N', 1, 4, 6], image: BYTES },
  fourChannels: { shape: ['N', 4, 4, 6], image: BYTES },
  narrow: { shape: ['N', 3, 1, 2], image: BYTES },
  narrowPlanes: { shape: ['N', 3, 1, 2], image: { ...BYTES, layout: 'NCHW' } },
  narrowNormalised: { shape: ['N', 3, 1, 2], image: NORMALISED },
  narrowPlain: { shape: ['N', 3, 1, 2], image: undefined },
  plain: { shape: ['N', 3, 4, 6], image: undefined },
  smallFilled: { shape: ['N', 3, 2, 2], image: { ...BYTES, resize: 'fill' } },
  wideOfSix: { shape: ['N', 3, 2, 4], image: { ...BYTES, resize: 6 } },
  any: { shape: ['N', 3, 'H', 'W'], image: BYTES },
  anyCovered: { shape: ['N', 3, 'H', 'W'], image: { ...BYTES, resize: 'cover' } },
  anyFilled: { shape: ['N', 3, 'H', 'W'], image: { ...BYTES, resize: 'fill' } },
  anyOfFive: { shape: ['N', 3, 'H', 'W'], image: { ...BYTES, resize: 5 } },
  anyWidth: { shape: ['N', 3, 4, 'W'], image: BYTES },
  square: { shape: ['N', 3, 'S', 'S'], image: BYTES },
} as const;

type Pixel = readonly [number, number, number];

/** An RGB image, row by row. */
function picture(width: number, height: number, colour: (x: number, y: number) => Pixel): sharp.Sharp {
  const pixels = Buffer.alloc(3 * width * height);
  for (let at = 0; at < width * height; at++) pixels.set(colour(at % width, Math.floor(at / width)), 3 * at);
  return sharp(pixels, { raw: { width, height, channels: 3 } });
}

/** No two of its pixels are alike. */
const gradient = (width: number, height: number) =>
  picture(width, height, (x, y) => [10 * x, 20 * y, x + 100 * (y % 2)]);

/** The elements of [1, 3, height, width] that an RGB picture stands for. */
const planes = (width: number, height: number, colour: (x: number, y: number) => Pixel) =>
  [0, 1, 2].flatMap((channel) =>
    Array.from({ length: width * height }, (_, at) => colour(at % width, Math.floor(at / width))[channel]!),
  );

const GRADIENT = planes(6, 4, (x, y) => [10 * x, 20 * y, x + 100 * (y % 2)]);

interface Output {
  readonly shape: number[];
  readonly data: number[];
}

function outputOf(received: Awaited<ReturnType<typeof request>>): Output {
  expect([received.status, received.body.toString().slice(0, 200)]).toEqual([200, expect.anything()]);
  return (json(received).outputs as [Output])[0];
}

/** What is asked for inference at the address of a model, or of the model `m` of a server. */
const pathOf = (url: string) => `${new URL(url).pathname.replace(/^\/$/, '/v2/models/m')}/infer`;

const post = (url: string, type: string, body: Buffer | readonly Buffer[], headers = {}) =>
  request(url, { path: pathOf(url), headers: { 'Content-Type': type, ...headers }, body });

async function metric(url: string, name: string): Promise<number> {
  const page = (await request(url, { path: '/metrics' })).body.toString();
  return Number(new RegExp(`^warpconv_${name.replace(/[{}]/g, '\\$&')} (.*)$`, 'm').exec(page)?.[1] ?? 0);
}

async function untilIdle(url: string): Promise<void> {
  while ((await metric(url, 'held_bytes')) > 0 || (await metric(url, 'requests_in_flight')) > 0);
}

/** The average difference of two lists of bytes of one length. */
function difference(actual: readonly number[], expected: ArrayLike<number>): number {
  expect(actual.length).toBe(expected.length);
  return actual.reduce((sum, one, at) => sum + Math.abs(one - expected[at]!), 0) / actual.length;
}

/** A PNG file that says it has these dims, and has a line of zeros. */
function hugePng(width: number, height: number): Buffer {
  const chunk = (type: string, data: Buffer) => {
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    const body = Buffer.concat([Buffer.from(type), data]);
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const pixels = deflateSync(Buffer.alloc(100_000));
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('IDAT', pixels),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

describe.each([
  ['one thread', 1],
  ['three threads', 3],
])('%s', (_, threads) => {
  const start = (options: ServeOptions) => openBuilt(options, threads);

  const sessions: Session[] = [];
  let server: RunningServer;
  beforeAll(async () => {
    const models: Record<string, ServedSession | ModelOptions> = {};
    for (const [name, { shape, image }] of Object.entries(ECHOES)) {
      const session = await InferenceSession.create(identity(shape), { device: 'cpu' });
      sessions.push(session);
      models[name] = image === undefined ? session : { session, image: image as never };
    }
    server = await serveBuilt({ models, threads, port: 0 });
  });
  afterAll(async () => {
    const closed = server.close();
    server.server.closeAllConnections();
    await closed;
    await Promise.all(sessions.map((session) => session.release()));
  });

  /** The address of a model. */
  const echoing = (name: keyof typeof ECHOES) => `${server.url}/v2/models/${name}`;

  /** A server of one model, `m`, for images. */
  async function serveModel(
    session: ServedSession,
    image: ModelOptions['image'] = BYTES,
    options: Omit<ServeOptions, 'models'> = {},
  ): Promise<string> {
    return (await start({ models: { m: { session, image: image! } }, ...options })).url;
  }

  describe('UINT8', () => {
    const x = { name: 'x', datatype: 'UINT8', shape: [2, 1, 2, 3] };
    const data = [0, 1, 2, 3, 4, 5, 250, 251, 252, 253, 254, 255];
    const expected = { shape: [2, 3, 1, 2], data: [0, 3, 1, 4, 2, 5, 250, 253, 251, 254, 252, 255] };

    test('in JSON, flat and nested', async () => {
      const url = echoing('narrow');
      expect(outputOf(await postJson(url, pathOf(url), { inputs: [{ ...x, data }] }))).toMatchObject(
        expected,
      );
      const rows = [data.slice(0, 6), data.slice(6)];
      const nested = rows.map((row) => [[row.slice(0, 3), row.slice(3)]]);
      expect(outputOf(await postJson(url, pathOf(url), { inputs: [{ ...x, data: nested }] }))).toMatchObject(
        expected,
      );
      await untilIdle(url);
    });

    test('as binary data, at any offset, with and without a length', async () => {
      const url = echoing('narrow');
      for (let shift = 0; shift < 8; shift++) {
        const inputs = [{ ...x, parameters: { binary_data_size: data.length } }];
        const { headers, body } = binaryRequest({ id: 'x'.repeat(shift), inputs }, Buffer.from(data));
        expect(outputOf(await request(url, { path: pathOf(url), headers, body }))).toMatchObject(expected);
        const parts = [body.subarray(0, 9), body.subarray(9)];
        expect(outputOf(await request(url, { path: pathOf(url), headers, body: parts }))).toMatchObject(
          expected,
        );
      }
      await untilIdle(url);
    });

    test('in planes, where the model takes them so', async () => {
      const url = echoing('narrowPlanes');
      const inputs = [{ ...x, shape: [2, 3, 1, 2], data }];
      expect(outputOf(await postJson(url, pathOf(url), { inputs }))).toMatchObject({
        shape: [2, 3, 1, 2],
        data,
      });
      expect((await postJson(url, pathOf(url), { inputs: [{ ...x, data }] })).status).toBe(400);
    });

    test('normalised as the options say', async () => {
      const { mean, std } = NORMALISED;
      const url = echoing('narrowNormalised');
      const { data: got } = outputOf(await postJson(url, pathOf(url), { inputs: [{ ...x, data }] }));
      for (const [at, byte] of expected.data.entries()) {
        const channel = Math.floor(at / 2) % 3;
        expect(got[at]).toBeCloseTo((byte / 255 - mean[channel]!) / std[channel]!, 5);
      }
    });

    test.each<[string, object[], RegExp]>([
      [
        'of another layout',
        [{ ...x, shape: [2, 3, 1, 2], data }],
        /inputs\[0\]\.shape must be \[N, 1, 2, 3\] for 'x'/,
      ],
      ['with too few elements', [{ ...x, data: [1] }], /inputs\[0\]\.data/],
      ['with a number that is no byte', [{ ...x, data: data.with(0, 256) }], /inputs\[0\]\.data/],
      [
        'twice',
        [
          { ...x, data },
          { ...x, data },
        ],
        /inputs\[1\]\.name is 'x', which an input before it has too/,
      ],
      [
        'beside its numbers',
        [
          { ...x, data },
          { ...x, datatype: 'FP32', shape: [2, 3, 1, 2], data },
        ],
        /inputs\[1\]\.name is 'x', which an input before it has too/,
      ],
      [
        'as another type',
        [{ ...x, datatype: 'INT8', data }],
        /inputs\[0\]\.datatype must be 'FP32'.*got 'INT8'/,
      ],
    ])('%s is refused', async (_, inputs, message) => {
      const url = echoing('narrow');
      const received = await postJson(url, pathOf(url), { inputs });
      expect([received.status, json(received)]).toEqual([400, { error: expect.stringMatching(message) }]);
      await untilIdle(url);
    });

    test('is refused where the model takes no images', async () => {
      const url = echoing('narrowPlain');
      const received = await postJson(url, pathOf(url), { inputs: [{ ...x, data }] });
      expect([received.status, json(received)]).toEqual([
        400,
        { error: expect.stringContaining(`inputs[0].datatype must be 'FP32' for 'x', got 'UINT8'`) },
      ]);
    });
  });

  describe('a file', () => {
    test.each(['png', 'webp'] as const)('of the model’s size, %s, is given as it is', async (format) => {
      const url = echoing('fixed');
      const file = await gradient(6, 4).toFormat(format, { lossless: true }).toBuffer();
      const output = outputOf(await post(url, `image/${format}`, file));
      expect(output).toMatchObject({ shape: [1, 3, 4, 6], data: GRADIENT });
      await untilIdle(url);
    });

    test('of JPEG is what sharp makes of it', async () => {
      const url = echoing('fixed');
      const file = await gradient(6, 4).jpeg({ quality: 90 }).toBuffer();
      const raw = await sharp(file).raw().toBuffer();
      const expected = [0, 1, 2].flatMap((channel) => [...raw].filter((_, at) => at % 3 === channel));
      expect(outputOf(await post(url, 'image/jpeg', file)).data).toEqual(expected);
    });

    test('is taken whichever of the three types it is said to be, in chunks, and of a type with parameters', async () => {
      const url = echoing('fixed');
      const file = await gradient(6, 4).png().toBuffer();
      for (const type of ['image/jpeg', 'image/webp', 'IMAGE/PNG', 'image/png; charset=binary'])
        expect(outputOf(await post(url, type, file)).data).toEqual(GRADIENT);
      const parts = Array.from(file, (_, at) => file.subarray(at, at + 1));
      expect(outputOf(await post(url, 'image/png', parts)).data).toEqual(GRADIENT);
      await untilIdle(url);
    });

    test('is answered in binary data where that is accepted', async () => {
      const url = echoing('fixed');
      const file = await gradient(6, 4).png().toBuffer();
      for (const accept of ['application/octet-stream', 'application/json;q=0.1, application/octet-stream']) {
        const received = await post(url, 'image/png', file, { Accept: accept });
        const { head, data } = binaryResponse(received);
        expect(head).toMatchObject({
          model_name: 'fixed',
          outputs: [{ name: 'y', datatype: 'FP32', shape: [1, 3, 4, 6] }],
        });
        const { buffer, byteOffset } = Buffer.from(data);
        expect([...new Float32Array(buffer.slice(byteOffset, byteOffset + data.length))]).toEqual(GRADIENT);
      }
      for (const accept of ['*/*', 'application/json'])
        expect(outputOf(await post(url, 'image/png', file, { Accept: accept })).data).toEqual(GRADIENT);
    });

    test('may be turned, as EXIF says', async () => {
      const url = echoing('any');
      const upright = planes(4, 6, (x, y) => [10 * y, 20 * (3 - x), y + 100 * ((3 - x) % 2)]);
      const file = await gradient(6, 4).withMetadata({ orientation: 6 }).webp({ lossless: true }).toBuffer();
      expect((await sharp(file).metadata()).orientation).toBe(6);
      expect(outputOf(await post(url, 'image/webp', file))).toMatchObject({
        shape: [1, 3, 6, 4],
        data: upright,
      });
    });

    test('may be turned before it is cut', async () => {
      const url = echoing('smallFilled');
      const halves = picture(8, 4, (x) => (x < 4 ? [255, 0, 0] : [0, 0, 255]));
      const file = await halves.withMetadata({ orientation: 6 }).webp({ lossless: true }).toBuffer();
      // What was on the left is above.
      const { data } = outputOf(await post(url, 'image/webp', file));
      const expected = planes(2, 2, (_, y) => (y === 0 ? [255, 0, 0] : [0, 0, 255]));
      expect(difference(data, expected)).toBeLessThan(20);
    });

    test('of greys, with alpha, of four inks and of 16 bits becomes what the model takes', async () => {
      const url = echoing('fixed');
      const flat = (background: object, channels: 3 | 4 = 3) =>
        sharp({ create: { width: 6, height: 4, channels, background } });
      const plane = new Array<number>(24);
      const of = (...colour: number[]) => colour.flatMap((one) => plane.slice().fill(one));
      const grey = await flat({ r: 90, g: 90, b: 90 }).toColourspace('b-w').png().toBuffer();
      expect((await sharp(grey).metadata()).channels).toBe(1);
      expect(outputOf(await post(url, 'image/png', grey)).data).toEqual(of(90, 90, 90));
      const clear = await flat({ r: 255, g: 10, b: 20, alpha: 0.5 }, 4).png().toBuffer();
      expect((await sharp(clear).metadata()).channels).toBe(4);
      expect(outputOf(await post(url, 'image/png', clear)).data).toEqual(of(255, 10, 20));
      const greyAlpha = await sharp(clear).toColourspace('b-w').png().toBuffer();
      expect((await sharp(greyAlpha).metadata()).channels).toBe(2);
      expect(outputOf(await post(url, 'image/png', greyAlpha)).shape).toEqual([1, 3, 4, 6]);
      const deep = await flat({ r: 255, g: 10, b: 20 }).toColourspace('rgb16').png().toBuffer();
      expect((await sharp(deep).metadata()).depth).toBe('ushort');
      expect(difference(outputOf(await post(url, 'image/png', deep)).data, of(255, 10, 20))).toBeLessThan(1);
      const few = await flat({ r: 255, g: 10, b: 20 }).png({ palette: true, colours: 2 }).toBuffer();
      expect(difference(outputOf(await post(url, 'image/png', few)).data, of(255, 10, 20))).toBeLessThan(1);
      const inks = await flat({ r: 200, g: 100, b: 50 }).toColourspace('cmyk').jpeg().toBuffer();
      expect((await sharp(inks).metadata()).channels).toBe(4);
      // Inks have other colours than screens.
      expect(difference(outputOf(await post(url, 'image/jpeg', inks)).data, of(200, 100, 50))).toBeLessThan(
        25,
      );
      await untilIdle(url);
    });

    test('becomes grey where the model takes one channel', async () => {
      const url = echoing('grey');
      const plane = (grey: number) => ({ shape: [1, 1, 4, 6], data: new Array(24).fill(grey) });
      for (const space of ['b-w', 'grey16', 'srgb'] as const) {
        const background = { r: 90, g: 90, b: 90 };
        const file = sharp({ create: { width: 6, height: 4, channels: 3, background } });
        const output = outputOf(
          await post(url, 'image/png', await file.toColourspace(space).png().toBuffer()),
        );
        expect(output).toMatchObject(plane(90));
      }
      const red = picture(6, 4, () => [255, 0, 0]);
      const { data } = outputOf(await post(url, 'image/png', await red.png().toBuffer()));
      expect(new Set(data).size).toBe(1);
      expect(data[0]).toBeGreaterThan(40);
      expect(data[0]).toBeLessThan(140);
    });

    test('in planes, where the model takes bytes so', async () => {
      const url = echoing('fixedPlanes');
      const file = await gradient(6, 4).png().toBuffer();
      expect(outputOf(await post(url, 'image/png', file))).toMatchObject({
        shape: [1, 3, 4, 6],
        data: GRADIENT,
      });
    });
  });

  describe('a file of another size', () => {
    const bands = (x: number): Pixel => (x < 6 ? [255, 0, 0] : x < 12 ? [0, 255, 0] : [0, 0, 255]);

    test('is scaled to cover, and its centre is cut out, by default and by "cover"', async () => {
      const file = await picture(18, 4, bands).png().toBuffer();
      for (const name of ['fixed', 'fixedCovered'] as const) {
        const url = echoing(name);
        expect(outputOf(await post(url, 'image/png', file))).toMatchObject({
          shape: [1, 3, 4, 6],
          data: planes(6, 4, () => [0, 255, 0]),
        });
      }
      const url = echoing('fixed');
      const tall = await picture(6, 12, (_, y) => bands(1.5 * y))
        .png()
        .toBuffer();
      expect(outputOf(await post(url, 'image/png', tall)).data).toEqual(planes(6, 4, () => [0, 255, 0]));
    });

    test('is scaled to both sides by "fill"', async () => {
      const url = echoing('fixedFilled');
      const file = await picture(18, 4, bands).png().toBuffer();
      const { data } = outputOf(await post(url, 'image/png', file));
      // Where bands meet, they are mixed.
      expect(
        difference(
          data,
          planes(6, 4, (x) => bands(3 * x)),
        ),
      ).toBeLessThan(20);
    });

    test('is scaled to a number of pixels, and its centre is cut out', async () => {
      const url = echoing('wideOfSix');
      const colour = (x: number, y: number): Pixel => [10 * x, 20 * y, x + 100 * (y % 2)];
      const square = await picture(6, 6, colour).png().toBuffer();
      expect(outputOf(await post(url, 'image/png', square))).toMatchObject({
        shape: [1, 3, 2, 4],
        data: planes(4, 2, (x, y) => colour(x + 1, y + 2)),
      });
      const wide = picture(24, 12, (x) => (x < 6 ? [255, 0, 0] : x < 18 ? [0, 255, 0] : [0, 0, 255]));
      const { data } = outputOf(await post(url, 'image/png', await wide.png().toBuffer()));
      expect(
        difference(
          data,
          planes(4, 2, () => [0, 255, 0]),
        ),
      ).toBeLessThan(3);
    });

    test('keeps its size where the model takes any, or is a square of a number', async () => {
      for (const name of ['anyCovered', 'anyFilled'] as const) {
        const url = echoing(name);
        for (const [width, height] of [
          [6, 4],
          [1, 1],
          [33, 7],
        ] as const) {
          const { shape } = outputOf(
            await post(url, 'image/png', await gradient(width, height).png().toBuffer()),
          );
          expect(shape).toEqual([1, 3, height, width]);
        }
      }
      const url = echoing('anyOfFive');
      const wide = await picture(20, 10, (x) => (x < 5 || x > 14 ? [255, 0, 0] : [0, 255, 0]))
        .png()
        .toBuffer();
      const { shape, data } = outputOf(await post(url, 'image/png', wide));
      expect(shape).toEqual([1, 3, 5, 5]);
      // The centre, of which a reduction mixes the sides with what lay beside them.
      expect(
        difference(
          data,
          planes(5, 5, () => [0, 255, 0]),
        ),
      ).toBeLessThan(40);
    });

    test('is refused where only one side is free and the other does not fit', async () => {
      const url = echoing('anyWidth');
      expect(outputOf(await post(url, 'image/png', await gradient(9, 4).png().toBuffer())).shape).toEqual([
        1, 3, 4, 9,
      ]);
      const received = await post(url, 'image/png', await gradient(9, 5).png().toBuffer());
      expect([received.status, json(received)]).toEqual([
        400,
        { error: expect.stringMatching(/\[., 4, W, 3\].*\[1, 5, 9, 3\]/) },
      ]);
      await untilIdle(url);
    });

    test('is refused where sides of one name differ', async () => {
      const url = echoing('square');
      expect(outputOf(await post(url, 'image/png', await gradient(5, 5).png().toBuffer())).shape).toEqual([
        1, 3, 5, 5,
      ]);
      const received = await post(url, 'image/png', await gradient(6, 5).png().toBuffer());
      expect([received.status, json(received)]).toEqual([400, { error: expect.stringContaining(`'S'`) }]);
    });
  });

  describe('a body that is no image', () => {
    const refused = async (url: string, type: string, body: Buffer, message: RegExp) => {
      const received = await post(url, type, body);
      expect([received.status, json(received)]).toEqual([400, { error: expect.stringMatching(message) }]);
      await untilIdle(url);
    };
    const SVG =
      '<svg xmlns="http://www.w3.org/2000/svg" width="6" height="4"><rect width="6" height="4"/></svg>';

    test('or another one is refused', async () => {
      const url = echoing('fixed');
      const none = /^the body is no JPEG, PNG or WebP file$/;
      const image = sharp({ create: { width: 6, height: 4, channels: 3, background: 'red' } });
      for (const body of [
        Buffer.alloc(0),
        Buffer.from([0xff]),
        Buffer.from(SVG),
        Buffer.from(`<?xml version="1.0"?>${SVG}`),
        await image.clone().gif().toBuffer(),
        await image.clone().tiff().toBuffer(),
        Buffer.from('{"inputs": []}'),
        Buffer.from('%PDF-1.7\n'),
      ])
        for (const type of ['image/png', 'image/jpeg', 'image/webp']) await refused(url, type, body, none);
    });

    // WEBP at byte 8 is enough to be let through, and sharp finds out by itself what a file is.
    test('but SVG that says WEBP at byte 8 is refused, too', async () => {
      const url = echoing('fixed');
      const body = Buffer.from(SVG.replace('<svg ', '<svg a="WEBP" '));
      expect((await post(url, 'image/png', body)).status).toBe(400);
    });

    test('in whole is refused: cut off, and damaged', async () => {
      const url = echoing('any');
      const noise = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, at) => (at * 7919) % 251));
      const image = () => sharp(noise, { raw: { width: 64, height: 64, channels: 3 } });
      for (const format of ['png', 'jpeg', 'webp'] as const) {
        const file = await image().toFormat(format).toBuffer();
        for (const length of [12, 40, file.length >> 1, file.length - 200])
          await refused(url, `image/${format}`, file.subarray(0, length), /^the image cannot be decoded: ./);
        const damaged = Buffer.from(file);
        damaged.fill(0x55, file.length >> 1, (file.length >> 1) + 200);
        const received = await post(url, `image/${format}`, damaged);
        // JPEG has no sums by which a change would be noticed.
        expect(format === 'png' ? [400] : [200, 400]).toContain(received.status);
      }
      expect(outputOf(await post(url, 'image/png', await image().png().toBuffer())).shape).toEqual([
        1, 3, 64, 64,
      ]);
      await untilIdle(url);
    });

    test('of a reasonable size is refused before it is decoded', async () => {
      const url = echoing('fixed');
      const before = process.memoryUsage.rss();
      for (const [width, height] of [
        [100_000, 100_000],
        [8193, 8192],
        [2 ** 27, 1],
      ] as const)
        await refused(
          url,
          'image/png',
          hugePng(width, height),
          /^the image cannot be decoded: .*(pixel limit|corrupt header)/,
        );
      expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 2 ** 20);
    });

    test('with no pixels is refused', async () => {
      const url = echoing('fixed');
      await refused(url, 'image/png', hugePng(0, 10), /^the image cannot be decoded: ./);
    });
  });

  test('a file for a model of several inputs is refused, and one of its inputs may be bytes', async () => {
    const model = onnxModel({
      inputs: [value('x', ['N', 3, 1, 2]), value('s', ['N', 1, 1, 1])],
      nodes: [node('Add', ['x', 's'], ['y'])],
      outputs: [value('y', ['N', 3, 1, 2])],
    });
    const session = keep(await InferenceSession.create(model, { device: 'cpu' }));
    const url = await serveModel(session, { ...BYTES, input: 'x' });
    const file = await gradient(2, 1).png().toBuffer();
    const received = await post(url, 'image/png', file);
    expect([received.status, json(received)]).toEqual([
      400,
      { error: `the model has an input 's', too, which no image brings` },
    ]);
    const s = { name: 's', datatype: 'FP32', shape: [1, 1, 1, 1], data: [0.5] };
    const x = { name: 'x', datatype: 'UINT8', shape: [1, 1, 2, 3], data: [1, 2, 3, 4, 5, 6] };
    for (const inputs of [
      [s, x],
      [x, s],
    ])
      expect(outputOf(await postJson(url, INFER, { inputs })).data).toEqual([1.5, 4.5, 2.5, 5.5, 3.5, 6.5]);
    const bytes = { ...s, datatype: 'UINT8', data: [1] };
    expect((await postJson(url, INFER, { inputs: [x, bytes] })).status).toBe(400);
    await untilIdle(url);
  });

  test('a file for a model that takes no images is refused by its type', async () => {
    const file = await gradient(6, 4).png().toBuffer();
    const received = await post(echoing('plain'), 'image/png', file);
    expect([received.status, json(received)]).toEqual([
      415,
      {
        error:
          `Content-Type must be 'application/json' or 'application/octet-stream', got 'image/png'; ` +
          `images need 'image' in the options of the model`,
      },
    ]);
    const url = echoing('fixed');
    const path = pathOf(url);
    for (const type of ['image/gif', 'image/svg+xml', 'image/*', 'image/', 'image']) {
      const headers = { 'Content-Type': type };
      const other = await request(url, { path, headers, body: file });
      expect([other.status, json(other)]).toEqual([
        415,
        { error: expect.stringContaining(`'image/jpeg', 'image/png' or 'image/webp', got '${type}'`) },
      ]);
    }
    const headers = { 'Content-Type': 'image/png', 'Content-Encoding': 'zstd' };
    expect((await request(url, { path, headers, body: file })).status).toBe(415);
    await untilIdle(url);
  });

  test('a file that is compressed once more is answered as it is', async () => {
    const url = echoing('fixed');
    const file = await gradient(6, 4).png().toBuffer();
    const headers = { 'Content-Type': 'image/png', 'Content-Encoding': 'gzip' };
    const [plain, compressed] = await Promise.all([
      post(url, 'image/png', file),
      request(url, { path: pathOf(url), headers, body: gzipSync(file) }),
    ]);
    expect([plain.status, compressed.status]).toEqual([200, 200]);
    expect(json(compressed).outputs).toEqual(json(plain).outputs);
    await untilIdle(url);
  });

  test('a file of three channels for a model of four is refused', async () => {
    const url = echoing('fourChannels');
    const received = await post(url, 'image/png', await gradient(6, 4).png().toBuffer());
    expect([received.status, json(received)]).toEqual([
      400,
      { error: 'the image has 3 channels, and the model takes 4' },
    ]);
    await untilIdle(url);
  });

  test('the metadata of the model is what it was', async () => {
    const of = async (name: string) => json(await request(server.url, { path: `/v2/models/${name}` }));
    expect(await of('fixed')).toEqual({ ...(await of('plain')), name: 'fixed' });
    expect(await of('fixed')).toMatchObject({
      inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 3, 4, 6] }],
    });
  });

  describe('limits:', () => {
    test('a file may be as long as a body, and no longer', async () => {
      const noise = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, at) => (at * 7919) % 251));
      const file = await sharp(noise, { raw: { width: 64, height: 64, channels: 3 } })
        .png()
        .toBuffer();
      const limits = { maxBodyBytes: file.length, maxJsonBytes: 100 };
      const url = await serveModel(await echo(), BYTES, limits);
      const accept = { Accept: 'application/octet-stream' };
      expect((await post(url, 'image/png', file, accept)).status).toBe(200);
      expect((await post(url, 'image/png', [file], accept)).status).toBe(200);
      for (const body of [Buffer.concat([file, Buffer.alloc(1)]), [file, Buffer.alloc(1)]]) {
        const received = await post(url, 'image/png', body);
        expect([received.status, json(received)]).toEqual([
          413,
          { error: `the body is longer than ${file.length} bytes, the most that a request may have` },
        ]);
      }
      await untilIdle(url);
    });

    test('its pixels count as held', async () => {
      const limits = { maxBodyBytes: 100_000, maxHeldBytes: 100_000 };
      const url = await serveModel(await echo(['N', 3, 'H', 'W']), BYTES, limits);
      const red = (side: number) =>
        picture(side, side, () => [255, 0, 0])
          .png()
          .toBuffer();
      const accept = { Accept: 'application/octet-stream' };
      expect((await post(url, 'image/png', await red(100), accept)).status).toBe(200);
      await untilIdle(url);
      const received = await post(url, 'image/png', await red(400));
      expect([received.status, received.headers['retry-after']]).toEqual([503, '1']);
      await untilIdle(url);
    });

    test('clients that leave while their file is sent or decoded are forgotten', async () => {
      const url = await serveModel(await echo());
      const file = await gradient(1500, 1500).png().toBuffer();
      for (const sent of [10, file.length - 1, file.length, file.length, file.length]) {
        const connection = await RawConnection.open(url);
        const head = `POST ${INFER} HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: ${file.length}\r\n\r\n`;
        connection.write(head);
        connection.socket.write(file.subarray(0, sent));
        while ((await metric(url, 'requests_in_flight')) === 0);
        connection.socket.destroy();
        await untilIdle(url);
      }
      expect(await metric(url, 'requests_total{model="m",status="499"}')).toBeGreaterThan(1);
    });
  });

  /** A session whose runs wait, and say of what type they were. */
  function gated(session: Session) {
    const runs: { type: string; rows: number }[] = [];
    let [gate, release] = [Promise.resolve(), () => {}];
    const wrap = (one: Session): ServedSession => ({
      inputNames: one.inputNames,
      outputNames: one.outputNames,
      inputMetadata: one.inputMetadata,
      outputMetadata: one.outputMetadata,
      run: () => Promise.reject(new Error('never called')),
      runJoined: async (feeds, fetches, options) => {
        const parts = feeds.x!;
        runs.push({ type: parts[0]!.type, rows: parts.reduce((sum, { dims }) => sum + dims[0]!, 0) });
        await gate;
        return one.runJoined(feeds as never, fetches, options);
      },
      canJoin: (dims, rows) => one.canJoin(dims, rows),
      forImages: (options) => wrap(one.forImages(options)),
    });
    const hold = () => (gate = new Promise((resolve) => (release = resolve)));
    return { served: wrap(session), runs, hold, open: () => release() };
  }

  test('images are joined with images, and numbers with numbers', async () => {
    joinAll();
    const { served, runs, hold, open: release } = gated(await echo(['N', 3, 'H', 'W']));
    const url = await serveModel(served);
    void hold();
    const data = [1, 2, 3];
    // Their dims are the same either way.
    const numbers = (one: number) => ({
      name: 'x',
      datatype: 'FP32',
      shape: [1, 3, 3, 3],
      data: new Array(27).fill(one),
    });
    const bytes = (one: number) => ({ ...numbers(one), datatype: 'UINT8' });
    const file = await picture(3, 3, () => [7, 7, 7])
      .png()
      .toBuffer();
    const answers = [postJson(url, INFER, { inputs: [numbers(0)] })];
    await until(() => runs.length === 1);
    for (const one of data) answers.push(postJson(url, INFER, { inputs: [numbers(one)] }));
    for (const one of data) answers.push(postJson(url, INFER, { inputs: [bytes(10 * one)] }));
    answers.push(post(url, 'image/png', file), postJson(url, INFER, { inputs: [numbers(4)] }));
    while ((await metric(url, 'queue_length{model="m"}')) < 8);
    release();
    const values = (await Promise.all(answers)).map((one) => new Set(outputOf(one).data));
    expect(values).toEqual([0, 1, 2, 3, 10, 20, 30, 7, 4].map((one) => new Set([one])));
    expect(runs.slice(1).sort((a, b) => a.type.localeCompare(b.type))).toEqual([
      { type: 'float32', rows: 4 },
      { type: 'uint8', rows: 4 },
    ]);
    await untilIdle(url);
  });

  test('24 clients at once get each its own, whatever they send', async () => {
    const url = echoing('fixed');
    const client = async (index: number) => {
      for (let round = 0; round < 12; round++) {
        const colour: Pixel = [(index * 10 + round) % 256, (round * 20) % 256, index];
        const expected = planes(6, 4, () => colour);
        const kind = (index + round) % 3;
        if (kind === 0) {
          const inputs = [{ name: 'x', datatype: 'FP32', shape: [1, 3, 4, 6], data: expected }];
          expect(outputOf(await postJson(url, pathOf(url), { inputs })).data).toEqual(expected);
        } else if (kind === 1) {
          const data = Buffer.from(new Array(24).fill(colour).flat() as number[]);
          const x = { name: 'x', datatype: 'UINT8', shape: [1, 4, 6, 3] };
          const sent = binaryRequest({ inputs: [{ ...x, parameters: { binary_data_size: 72 } }] }, data);
          expect(outputOf(await request(url, { path: pathOf(url), ...sent })).data).toEqual(expected);
        } else {
          const file = await picture(6 * (1 + (round % 3)), 4 * (1 + (round % 3)), () => colour)
            .png()
            .toBuffer();
          expect(outputOf(await post(url, 'image/png', file)).data).toEqual(expected);
        }
      }
    };
    await Promise.all(Array.from({ length: 24 }, (_, index) => client(index)));
    await untilIdle(url);
  });

  test.each<[string, () => Promise<ServedSession>, unknown, RegExp]>([
    [
      'of a session of another package',
      async () => doublingSession(),
      {},
      /models\.m\.image needs an InferenceSession/,
    ],
    ['that are none', echo, true, /models\.m\.image must be an object, got true/],
    ['that are not known', echo, { size: 3 }, /models\.m\.image\.size is not known/],
    [
      'that resize otherwise',
      echo,
      { resize: 'contain' },
      /models\.m\.image\.resize must be 'cover' or 'fill'/,
    ],
    ['that resize to nothing', echo, { resize: 0 }, /models\.m\.image\.resize must be/],
    ['that resize to much', echo, { resize: 4097 }, /models\.m\.image\.resize must be .*4096/],
    [
      'that resize to less than is needed',
      echo,
      { resize: 5 },
      /models\.m\.image\.resize is 5, and 'x' needs 6 pixels/,
    ],
    ['whose std is 0', echo, { std: 0 }, /std has a 0/],
    ['for another input', echo, { input: 'z' }, /input must be .*'x'.*, got 'z'/],
    ['of two channels', echo, { mean: [1, 2] }, /mean has 2 numbers, and the input 3 channels/],
  ])('options %s are refused', async (_, session, image, message) => {
    await expect(serveModel(await session(), image as object)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(message),
    });
  });
});

test.each([
  [1, '415', 'encoded images are decoded by sharp, which is not installed on the server; send UINT8'],
  [3, '415', 'encoded images are decoded by sharp, which is not installed on the server; send UINT8'],
  // The image is not to blame, and the log says why.
  [1, '500', 'sharp, which decodes images, does not load on the server; send UINT8'],
  [3, '500', 'sharp, which decodes images, does not load on the server; send UINT8'],
])(
  'without sharp files are refused, and bytes are taken: %i threads, %s',
  async (threads, status, message) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'warpconv-'));
    try {
      const file = path.join(folder, 'model.onnx');
      await writeFile(file, identity(['N', 1, 1, 1]));
      const children = path.join(__dirname, 'children');
      const { stdout, stderr } = await promisify(execFile)(
        process.execPath,
        [
          ...['--import', path.join(children, 'without_sharp.mjs')],
          ...[path.join(children, 'without_sharp.cjs'), String(threads), file],
        ],
        { env: { ...process.env, ...(status === '500' && { BROKEN_SHARP: '1' }) } },
      );
      const [first, second, third] = stdout.split('\n');
      const refusal = `${status} ${JSON.stringify({ error: message })}`;
      expect([first, second]).toEqual([refusal, refusal]);
      expect(third).toMatch(/^200 .*"data":\[7\]/);
      expect(stderr).toMatch(status === '500' ? /Could not load the "sharp" module/ : /^$/);
    } finally {
      await rm(folder, { recursive: true });
    }
  },
);
