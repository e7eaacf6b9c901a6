/** Models of a folder: how they come, are replaced and go, while clients ask. */
import { utimesSync, writeFileSync } from 'node:fs';
import { appendFile, cp, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';

import Fastify from 'fastify';

import type { ModelFolder as Folder, ModelFolderOptions, ModelState } from '../../lib/serve';
import type * as FastifyPlugin from '../../lib/serve/fastify';
import { withoutGarbage } from '../support/garbage';
import { InferenceSession, memory, ModelFolder, openBuilt } from './support/built';
import { json, postJson, request } from './support/client';
import { BROKEN, factorOf, Hammer, index, newFolder, put, scaling } from './support/models';
import { load as loadBuilt } from './support/outside';
import { closeAll } from './support/serving';

let folder: string;
let before: ReturnType<typeof memory>;
const opened: Folder[] = [];

beforeEach(async () => {
  folder = await newFolder();
  before = await withoutGarbage(memory);
});
afterEach(async () => {
  jest.restoreAllMocks();
  await closeAll();
  await Promise.all(opened.splice(0).map((models) => models.close()));
  await rm(folder, { recursive: true, force: true });
});

const CPU = { sessionOptions: { device: 'cpu' } } as const;

async function openFolder(options: ModelFolderOptions = {}) {
  const models = await ModelFolder.open(folder, { defaults: CPU, ...options });
  opened.push(models);
  return models;
}

const until = async (condition: () => boolean | Promise<boolean>) => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
};

/** As much as there was before: what was loaded has been let go of. */
const used = () => {
  const { plans, cpu } = memory();
  return { plans: plans - before.plans, cpu: cpu - before.cpu };
};
const NOTHING = { plans: 0, cpu: 0 };

/** What is said of models, one line each */
function recorder() {
  const lines: string[] = [];
  const log = (level: string) => (details: object, message: string) => {
    const { model, version, err } = details as { model?: string; version?: string; err?: Error };
    lines.push([level, message, model, version, err?.message].filter((one) => one !== undefined).join(' '));
  };
  return { lines, logger: { error: log('error'), warn: log('warn'), info: log('info') } };
}

const post = (url: string, action: string, body: object = {}) =>
  postJson(url, `/v2/repository/${action}`, body);
const statusOf = async (url: string, target: string) => (await request(url, { path: target })).status;
const stateOf = async (models: { index(): Promise<ModelState[]> }, name: string) =>
  (await models.index()).filter((one) => one.name === name);

describe.each([1, 3])('%i threads', (threads) => {
  test('a reload while clients ask three models: none fails, and each goes over to the new one', async () => {
    for (const name of ['a', 'b']) await put(folder, name, '1', scaling(2));
    await writeFile(path.join(folder, 'c.onnx'), scaling(2));
    const models = await openFolder();
    const { url, close } = await openBuilt({ models }, threads);
    const hammer = new Hammer(url, ['a', 'b', 'c'], 6);
    await hammer.more(60);
    await put(folder, 'a', '2', scaling(3));
    await writeFile(path.join(folder, 'b', '1', 'model.onnx'), scaling(4));
    await put(folder, 'd', '1', scaling(5));
    await models.reload();
    await hammer.more(60);
    await hammer.stop();
    for (const seen of hammer.seen)
      expect(Object.fromEntries(seen)).toEqual({ a: [2, 3], b: [2, 4], c: [2] });
    expect(await factorOf(url, 'd')).toBe(5);
    expect(await models.index()).toEqual([
      { name: 'a', version: '2', state: 'READY' },
      { name: 'b', version: '1', state: 'READY' },
      { name: 'c', version: '1', state: 'READY' },
      { name: 'd', version: '1', state: 'READY' },
    ]);
    await rm(path.join(folder, 'd'), { recursive: true });
    await models.reload();
    expect(await factorOf(url, 'd')).toBe(404);
    // The old ones have gone with the new ones, though nothing has been closed.
    for (const name of ['a', 'b', 'c']) await models.unload(name);
    await until(() => used().plans === 0 && used().cpu === 0);
    await close();
    await models.close();
    expect(used()).toEqual(NOTHING);
  });

  test('clients of a model that is loaded and unloaded again and again get answers or 404, and all memory comes back', async () => {
    await put(folder, 'always', '1', scaling(2));
    await put(folder, 'm', '1', scaling(3));
    const models = await openFolder({ control: 'explicit', load: ['always', 'm'] });
    const { url, close } = await openBuilt({ models }, threads);
    const hammer = new Hammer(url, ['m', 'always'], 4);
    for (let round = 0; round < 4; round++) {
      await hammer.more(20);
      expect((await post(url, 'models/m/unload')).status).toBe(200);
      expect(await factorOf(url, 'm')).toBe(404);
      await hammer.more(20);
      expect((await post(url, 'models/m/load')).status).toBe(200);
      expect(await factorOf(url, 'm')).toBe(3);
    }
    await hammer.stop();
    for (const seen of hammer.seen) {
      expect(seen.get('always')).toEqual([2]);
      for (const got of seen.get('m')!)
        expect([3, `{"error":"model 'm' is not served; there is 'always'"}`]).toContain(got);
    }
    await close();
    await models.close();
    expect(used()).toEqual(NOTHING);
  });

  test('the model repository as Triton has it', async () => {
    await put(folder, 'a', '1', scaling(2));
    await put(folder, 'b', '3', scaling(3));
    await put(folder, 'b', '10', scaling(4));
    await put(folder, 'broken', '1', BROKEN);
    const models = await openFolder({ control: 'explicit', load: ['a'] });
    const { url } = await openBuilt({ models }, threads);
    expect((json(await request(url, { path: '/v2' })) as { extensions: unknown }).extensions).toEqual([
      'binary_tensor_data',
      'statistics',
      'model_repository',
    ]);
    expect(await index(url)).toEqual([
      { name: 'a', version: '1', state: 'READY' },
      { name: 'b' },
      { name: 'broken' },
    ]);
    const loaded = await request(url, { path: '/v2/repository/models/b/load', method: 'POST' });
    expect([loaded.status, json(loaded)]).toEqual([200, {}]);
    expect(await factorOf(url, 'b')).toBe(4);
    expect(await statusOf(url, '/v2/models/b/versions/10')).toBe(200);
    expect(await statusOf(url, '/v2/models/b/versions/3')).toBe(404);
    const failed = await post(url, 'models/broken/load');
    expect([failed.status, json(failed)]).toEqual([
      400,
      { error: expect.stringMatching(/^failed to load 'broken': ./) },
    ]);
    expect(await statusOf(url, '/v2/health/ready')).toBe(200);
    expect((await post(url, 'models/a/unload', { parameters: { unload_dependents: true } })).status).toBe(
      200,
    );
    expect(await factorOf(url, 'a')).toBe(404);
    expect(await index(url)).toEqual([
      { name: 'a', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' },
      { name: 'b', version: '10', state: 'READY' },
      { name: 'broken', version: '1', state: 'UNAVAILABLE', reason: expect.any(String) },
    ]);
    const ready = [{ name: 'b', version: '10', state: 'READY' }];
    expect(await index(url, { ready: true })).toEqual(ready);
    expect(await index(url, { ready: false })).toHaveLength(3);
    // Again is harmless, and what is not there is named.
    expect((await post(url, 'models/a/unload')).status).toBe(200);
    for (const action of ['load', 'unload']) {
      const received = await post(url, `models/none/${action}`);
      const error = `failed to ${action} 'none', failed to poll from model repository: there is no such model`;
      expect([received.status, json(received)]).toEqual([400, { error }]);
    }
  });
});

describe('requests for the model repository', () => {
  test.each([
    ['..%2f', 400, /failed to load '\.\.\/', failed to poll/],
    ['..%2fsecret', 400, /failed to load '\.\.\/secret', failed to poll/],
    ['..', 400, /failed to poll/],
    ['.', 400, /failed to poll/],
    ['%2e%2e%2f%2e%2e%2fetc%2fpasswd', 400, /failed to poll/],
    ['m%2f1', 400, /failed to poll/],
    ['m%00', 400, /failed to poll/],
    ['.hidden', 400, /failed to poll/],
    ['%zz', 400, /not a valid percent-encoding/],
    ['__proto__', 400, /failed to poll/],
    ['a/b', 404, /there is nothing at/],
    ['', 404, /there is nothing at/],
  ])('the name %s', async (name, status, message) => {
    const secret = path.join(folder, 'secret');
    await put(secret, '1', '', scaling(7));
    const inside = path.join(folder, 'models');
    await put(inside, 'm', '1', scaling(2));
    await put(inside, '.hidden', '1', scaling(2));
    const models = await ModelFolder.open(inside, { defaults: CPU, control: 'explicit' });
    opened.push(models);
    const { url } = await openBuilt({ models });
    const received = await request(url, { path: `/v2/repository/models/${name}/load`, method: 'POST' });
    expect([received.status, json(received)]).toEqual([status, { error: expect.stringMatching(message) }]);
    expect(used()).toEqual(NOTHING);
  });

  test.each<[string, object | string, number, RegExp]>([
    ['a configuration', { parameters: { config: '{}' } }, 400, /'config' is not supported/],
    ['a file', { parameters: { 'file:1/model.onnx': 'AAAA' } }, 400, /'file:1\/model.onnx' is not supported/],
    ['parameters that are none', { parameters: 3 }, 400, /'parameters' must be an object, got 3/],
    ['a body that is no object', [1], 400, /must be a JSON object/],
    ['a body that is no JSON', '{', 400, /the body is not JSON/],
  ])('%s is refused', async (_, body, status, message) => {
    await put(folder, 'm', '1', scaling(2));
    const { url } = await openBuilt({ models: await openFolder({ control: 'explicit' }) });
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const received = await request(url, { path: '/v2/repository/models/m/load', body: text });
    expect([received.status, json(received)]).toEqual([status, { error: expect.stringMatching(message) }]);
    expect(await factorOf(url, 'm')).toBe(404);
  });

  test('without being asked for, load and unload are off, and the index is there', async () => {
    await put(folder, 'm', '1', scaling(2));
    const { url } = await openBuilt({ models: folder });
    for (const action of ['load', 'unload']) expect((await post(url, `models/m/${action}`)).status).toBe(403);
    expect(await factorOf(url, 'm')).toBe(2);
    expect(await index(url)).toEqual([{ name: 'm', version: '1', state: 'READY' }]);
    const { extensions } = json(await request(url, { path: '/v2' }));
    expect(extensions).toEqual(['binary_tensor_data', 'statistics']);
  });

  test('a server without a folder has an index of its models', async () => {
    await put(folder, 'm', '1', scaling(2));
    const file = path.join(folder, 'm', '1', 'model.onnx');
    const { url } = await openBuilt({ models: { m: { file, version: '7', ...CPU } } });
    expect(await index(url)).toEqual([{ name: 'm', version: '7', state: 'READY' }]);
    expect((await post(url, 'models/m/unload')).status).toBe(403);
  });

  test('pages of other sites control nothing', async () => {
    await put(folder, 'm', '1', scaling(2));
    const { url } = await openBuilt({ models: await openFolder({ control: 'explicit', load: ['m'] }) });
    const unload = (origin: string) =>
      request(url, { path: '/v2/repository/models/m/unload', method: 'POST', headers: { Origin: origin } });
    expect((await unload('https://example.com')).status).toBe(403);
    expect((await unload('null')).status).toBe(403);
    expect(await factorOf(url, 'm')).toBe(2);
    expect((await unload(url)).status).toBe(200);
  });

  test('other methods', async () => {
    await put(folder, 'm', '1', scaling(2));
    const { url } = await openBuilt({ models: folder });
    for (const target of ['index', 'models/m/load', 'models/m/unload']) {
      const received = await request(url, { path: `/v2/repository/${target}` });
      expect([received.status, received.headers.allow]).toEqual([405, 'POST, OPTIONS']);
    }
  });
});

describe('what is broken stops nothing else', () => {
  test('at first: it is listed with its reason, and the server is not ready', async () => {
    await put(folder, 'good', '1', scaling(2));
    await put(folder, 'broken', '1', BROKEN);
    await mkdir(path.join(folder, 'empty', '1'), { recursive: true });
    await put(folder, 'unversioned', '.', scaling(2));
    await put(folder, '1', '.', scaling(2));
    const { lines, logger } = recorder();
    const models = await openFolder({ logger });
    const { url } = await openBuilt({ models });
    expect(await factorOf(url, 'good')).toBe(2);
    expect(await models.index()).toEqual([
      {
        ...{ name: '1', state: 'UNAVAILABLE' },
        reason: `it has no version: the file should be at '1/1/model.onnx'; if '1' is a version, give the folder above`,
      },
      { name: 'broken', version: '1', state: 'UNAVAILABLE', reason: expect.stringMatching(/./) },
      { name: 'empty', version: '1', state: 'UNAVAILABLE', reason: 'its version 1 has no model.onnx' },
      { name: 'good', version: '1', state: 'READY' },
      {
        ...{ name: 'unversioned', state: 'UNAVAILABLE' },
        reason: `it has no version: the file should be at 'unversioned/1/model.onnx'`,
      },
    ]);
    expect(lines.filter((line) => line.startsWith('error'))).toHaveLength(4);
    expect(lines).toContain('info a model is served good 1');
    const ready = await request(url, { path: '/v2/health/ready' });
    expect([ready.status, json(ready)]).toEqual([503, { ready: false }]);
    expect(await statusOf(url, '/v2/health/live')).toBe(200);
    expect(await statusOf(url, '/v2/models/good/ready')).toBe(200);
    expect(await statusOf(url, '/v2/models/broken/ready')).toBe(404);
    await put(folder, 'broken', '1', scaling(3));
    await put(folder, 'empty', '1', scaling(4));
    await rm(path.join(folder, 'unversioned'), { recursive: true });
    await rm(path.join(folder, '1'), { recursive: true });
    await models.reload();
    expect(await statusOf(url, '/v2/health/ready')).toBe(200);
    expect([await factorOf(url, 'broken'), await factorOf(url, 'empty')]).toEqual([3, 4]);
  });

  test('readiness need not be strict', async () => {
    await put(folder, 'broken', '1', BROKEN);
    const { url } = await openBuilt({ models: await openFolder({ strictReadiness: false }) });
    expect(await statusOf(url, '/v2/health/ready')).toBe(200);
  });

  test('a new version that is broken leaves the old one, and the server ready', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder();
    const { url } = await openBuilt({ models });
    await put(folder, 'm', '2', BROKEN);
    await models.reload();
    expect(await factorOf(url, 'm')).toBe(2);
    expect(await models.index()).toEqual([
      { name: 'm', version: '1', state: 'READY' },
      { name: 'm', version: '2', state: 'UNAVAILABLE', reason: expect.stringMatching(/./) },
    ]);
    expect(await statusOf(url, '/v2/health/ready')).toBe(200);
    await rm(path.join(folder, 'm', '2'), { recursive: true });
    await models.reload();
    expect(await models.index()).toEqual([{ name: 'm', version: '1', state: 'READY' }]);
  });

  test('so does a file that was overwritten by something else', async () => {
    await writeFile(path.join(folder, 'm.onnx'), scaling(2));
    const models = await openFolder();
    const { url } = await openBuilt({ models });
    await writeFile(path.join(folder, 'm.onnx'), BROKEN);
    await models.reload();
    expect(await factorOf(url, 'm')).toBe(2);
    expect(await models.index()).toEqual([
      { name: 'm', version: '1', state: 'READY', reason: expect.stringMatching(/./) },
    ]);
  });
});

describe('polling', () => {
  const POLL = { control: 'poll', pollInterval: 20 } as const;

  test('finds what is new, changed and gone, while clients ask', async () => {
    await put(folder, 'a', '1', scaling(2));
    await put(folder, 'b', '1', scaling(2));
    const { url } = await openBuilt({ models: await openFolder(POLL) }, 3);
    const hammer = new Hammer(url, ['a'], 4);
    await hammer.more(20);
    await put(folder, 'a', '2', scaling(3));
    await until(async () => (await factorOf(url, 'a')) === 3);
    await rm(path.join(folder, 'b'), { recursive: true });
    await until(async () => (await factorOf(url, 'b')) === 404);
    await put(folder, 'c', '1', scaling(5));
    await until(async () => (await factorOf(url, 'c')) === 5);
    await hammer.more(20);
    await hammer.stop();
    for (const seen of hammer.seen) expect(seen.get('a')).toEqual([2, 3]);
  });

  test('never takes a file that is still being written', async () => {
    await put(folder, 'm', '1', scaling(2));
    const { lines, logger } = recorder();
    const models = await openFolder({ ...POLL, pollInterval: 50, logger });
    const { url } = await openBuilt({ models });
    const whole = scaling(3);
    const file = path.join(folder, 'm', '2', 'model.onnx');
    await mkdir(path.dirname(file));
    for (let part = 1; part <= 40; part++) {
      writeFileSync(file, whole.subarray(0, Math.floor((whole.length * Math.min(part, 39)) / 40)));
      utimesSync(file, part, part);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(await factorOf(url, 'm')).toBe(2);
    writeFileSync(file, whole);
    await until(async () => (await factorOf(url, 'm')) === 3);
    expect(lines.filter((line) => line.startsWith('error'))).toEqual([]);
  });

  test('tries what is broken once, and again when it has changed', async () => {
    const { lines, logger } = recorder();
    const models = await openFolder({ ...POLL, logger });
    const { url } = await openBuilt({ models });
    await put(folder, 'm', '1', BROKEN);
    await until(() => lines.length > 0);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(lines).toEqual([expect.stringMatching(/^error a model cannot be loaded m /)]);
    await put(folder, 'm', '1', scaling(2));
    await until(async () => (await factorOf(url, 'm')) === 2);
  });

  test('follows links as Kubernetes swings them, to files of one size and time', async () => {
    const [one, two] = [path.join(folder, '..2026_1'), path.join(folder, '..2026_2')];
    for (const [place, factor] of [
      [one, 2],
      [two, 3],
    ] as const) {
      await mkdir(place);
      await writeFile(path.join(place, 'm.onnx'), scaling(factor));
      utimesSync(path.join(place, 'm.onnx'), 0, 0);
    }
    await symlink('..2026_1', path.join(folder, '..data'));
    await symlink('..data/m.onnx', path.join(folder, 'm.onnx'));
    const models = await openFolder(POLL);
    const { url } = await openBuilt({ models });
    expect(await models.index()).toEqual([{ name: 'm', version: '1', state: 'READY' }]);
    expect(await factorOf(url, 'm')).toBe(2);
    await symlink('..2026_2', path.join(folder, '..tmp'));
    await rename(path.join(folder, '..tmp'), path.join(folder, '..data'));
    await until(async () => (await factorOf(url, 'm')) === 3);
  });

  test.each<[string, () => Promise<void>]>([
    ['a folder that vanishes', () => rename(folder, `${folder}-away`)],
    [
      'a folder that is empty, as that of a volume that is not mounted any more',
      async () => {
        await mkdir(`${folder}-away`);
        await rename(path.join(folder, 'm'), path.join(`${folder}-away`, 'm'));
      },
    ],
  ])('%s takes no model with it, and is told of once', async (_, vanish) => {
    await put(folder, 'm', '1', scaling(2));
    const { lines, logger } = recorder();
    const { url } = await openBuilt({ models: await openFolder({ ...POLL, logger }) });
    await vanish();
    await until(() => lines.some((line) => line.startsWith('warn')));
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(lines.filter((line) => line.startsWith('warn'))).toHaveLength(1);
    expect(await factorOf(url, 'm')).toBe(2);
    expect(await statusOf(url, '/v2/health/ready')).toBe(200);
    await put(`${folder}-away`, 'm', '2', scaling(3));
    await rm(folder, { recursive: true, force: true });
    await rename(`${folder}-away`, folder);
    await until(async () => (await factorOf(url, 'm')) === 3);
  });

  test('begins with an empty folder', async () => {
    const { url } = await openBuilt({ models: await openFolder(POLL) });
    expect(await statusOf(url, '/v2/health/ready')).toBe(200);
    const received = await postJson(url, '/v2/models/m/infer', {});
    expect(json(received)).toEqual({ error: `model 'm' is not served; there is no model` });
    await put(folder, 'm', '1', scaling(2));
    await until(async () => (await factorOf(url, 'm')) === 2);
  });
});

describe('what a folder may have in it', () => {
  const ODD = [
    'with space',
    'ünïcødé 模型',
    'a%2fb',
    '__proto__',
    'constructor',
    'x.y',
    '-',
    'quote\'"',
    'line\nbreak',
  ];

  test.each(ODD)('a model of the name %j', async (name) => {
    await put(folder, name, '1', scaling(2));
    const { url } = await openBuilt({ models: await openFolder() });
    expect(await factorOf(url, name)).toBe(2);
    expect(await index(url)).toEqual([{ name, version: '1', state: 'READY' }]);
    const stats = await request(url, { path: `/v2/models/${encodeURIComponent(name)}/stats` });
    expect(json(stats)).toMatchObject({ model_stats: [{ name, version: '1', inference_count: 1 }] });
  });

  test('versions are numbers, and the largest is served', async () => {
    for (const version of ['9', '10', '08', '0', '1.5', 'latest', '99999999999999999999'])
      await put(folder, 'm', version, scaling(version.length));
    const { url } = await openBuilt({ models: await openFolder() });
    expect(await index(url)).toEqual([{ name: 'm', version: '99999999999999999999', state: 'READY' }]);
    expect(await factorOf(url, 'm')).toBe(20);
  });

  test('links, also ones that lead nowhere or in a circle, and files that are none', async () => {
    const elsewhere = await newFolder();
    await put(elsewhere, 'there', '4', scaling(3));
    await symlink(path.join(elsewhere, 'there'), path.join(folder, 'linked'));
    await symlink('nowhere', path.join(folder, 'gone.onnx'));
    await symlink('loop.onnx', path.join(folder, 'loop.onnx'));
    await symlink('nowhere', path.join(folder, 'folder'));
    await mkdir(path.join(folder, 'lost+found'));
    await mkdir(path.join(folder, '.git', '1'), { recursive: true });
    await mkdir(path.join(folder, 'docs', 'pictures'), { recursive: true });
    await writeFile(path.join(folder, 'README.md'), 'text');
    const { url } = await openBuilt({ models: await openFolder() });
    expect(await index(url)).toEqual([
      { name: 'gone', version: '1', state: 'UNAVAILABLE', reason: expect.stringMatching(/ENOENT/) },
      { name: 'linked', version: '4', state: 'READY' },
      { name: 'loop', version: '1', state: 'UNAVAILABLE', reason: expect.stringMatching(/ELOOP/) },
    ]);
    expect(await factorOf(url, 'linked')).toBe(3);
    await rm(elsewhere, { recursive: true });
  });

  test('links within a version are not followed to other folders', async () => {
    const version = path.join(folder, 'm', '1');
    await put(folder, 'm', '1', scaling(2));
    // Followed, these two would be as many paths as there are numbers of 40 bits.
    for (const name of ['one', 'other']) await symlink('.', path.join(version, name));
    await symlink('/', path.join(version, 'root'));
    expect(await (await openFolder()).index()).toEqual([{ name: 'm', version: '1', state: 'READY' }]);
  });

  test('versions that are no numbers, where there is no other', async () => {
    for (const [name, version] of [
      ['a', 'v2'],
      ['b', '01'],
    ] as const)
      await put(folder, name, version, scaling(2));
    const reason = (version: string) =>
      `its version '${version}' must be a number from 1, without zeros in front`;
    expect(await (await openFolder()).index()).toEqual([
      { name: 'a', state: 'UNAVAILABLE', reason: reason('v2') },
      { name: 'b', state: 'UNAVAILABLE', reason: reason('01') },
    ]);
  });

  test('a name twice is refused, and says where', async () => {
    await put(folder, 'm', '1', scaling(2));
    await writeFile(path.join(folder, 'm.onnx'), scaling(3));
    const reason = `there are both 'm' and 'm.onnx'; remove one`;
    expect(await (await openFolder()).index()).toEqual([
      { name: 'm', version: '1', state: 'UNAVAILABLE', reason },
    ]);
  });

  test('a config.json says what there is to say of one model', async () => {
    const bytes = { name: 'x', datatype: 'UINT8', shape: [1, 2, 2, 1], data: [1, 2, 3, 4] };
    await put(folder, 'images', '1', scaling(2));
    await writeFile(
      path.join(folder, 'images', 'config.json'),
      JSON.stringify({ image: { scale: 1 }, device: 'cpu' }),
    );
    await put(folder, 'plain', '1', scaling(2));
    const models = await openFolder({ defaults: {} });
    const { url } = await openBuilt({ models });
    const infer = (name: string) => postJson(url, `/v2/models/${name}/infer`, { inputs: [bytes] });
    expect(json(await infer('images')).outputs).toMatchObject([{ data: [2, 4, 6, 8] }]);
    expect((await infer('plain')).status).toBe(400);
    await writeFile(path.join(folder, 'plain', 'config.json'), JSON.stringify({ image: { scale: 2 } }));
    await models.reload();
    expect(json(await infer('plain')).outputs).toMatchObject([{ data: [4, 8, 12, 16] }]);
  });

  test.each([
    ['{', /^config\.json is not JSON: /],
    ['[]', /^config\.json must be an object/],
    ['{"maxbatch": 2}', /^config\.json\.maxbatch is not known; did you mean 'maxBatch'\?/],
    ['{"maxBatch": 0}', /^the model\.maxBatch must be/],
    ['{"device": "tpu"}', /device must be/],
    ['{"sessionOptions": {}}', /^config\.json\.sessionOptions is not known/],
  ])('a config.json of %s', async (text, reason) => {
    await put(folder, 'm', '1', scaling(2));
    await writeFile(path.join(folder, 'm', 'config.json'), text);
    const [state] = await (await openFolder()).index();
    expect(state).toEqual({
      ...{ name: 'm', version: '1', state: 'UNAVAILABLE' },
      reason: expect.stringMatching(reason),
    });
    expect(used()).toEqual(NOTHING);
  });

  test("Triton's config.pbtxt is ignored, and one line says so", async () => {
    await put(folder, 'm', '1', scaling(2));
    await writeFile(path.join(folder, 'm', 'config.pbtxt'), 'max_batch_size: 8');
    const { lines, logger } = recorder();
    await openFolder({ logger });
    expect(lines).toEqual([
      'info a config.pbtxt is ignored; use a config.json m',
      'info a model is served m 1',
    ]);
  });
});

describe('calls', () => {
  test('several loads of one name at once are one', async () => {
    await put(folder, 'm', '1', scaling(2));
    const { lines, logger } = recorder();
    const models = await openFolder({ control: 'explicit', logger });
    await Promise.all([models.load('m'), models.load('m'), models.reload(), models.load('m')]);
    expect(lines).toEqual(['info a model is served m 1']);
    await models.close();
    expect(used()).toEqual(NOTHING);
  });

  test('many calls that wait are one, and the last of each model counts', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder({ control: 'explicit' });
    const reloads = Array.from({ length: 100 }, () => models.reload());
    expect(new Set(reloads).size).toBe(1);
    const load = models.load('m');
    expect(models.load('m')).toBe(load);
    const unload = models.unload('m');
    const again = models.load('m');
    expect(again).not.toBe(load);
    await Promise.all([...reloads, load, unload, again]);
    expect(await stateOf(models, 'm')).toEqual([{ name: 'm', version: '1', state: 'READY' }]);
    expect(models.load('m')).not.toBe(again);
  });

  test('what is asked for during a load comes after it', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder({ control: 'explicit' });
    const { url } = await openBuilt({ models });
    await Promise.all([models.load('m'), models.unload('m')]);
    expect(await factorOf(url, 'm')).toBe(404);
    await Promise.all([models.unload('m'), models.load('m')]);
    expect(await factorOf(url, 'm')).toBe(2);
  });

  test('the folder closes during a load', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder({ control: 'explicit' });
    const loading = models.load('m');
    const closed = { code: 'ERR_WARPCONV_DISPOSED' };
    await Promise.all([expect(loading).rejects.toMatchObject(closed), models.close(), models.close()]);
    expect(used()).toEqual(NOTHING);
    await expect(models.load('m')).rejects.toMatchObject(closed);
    await expect(models.reload()).rejects.toMatchObject(closed);
  });

  test('a version that comes while threads start is served by all of them', async () => {
    await put(folder, 'm', '1', scaling(2));
    await writeFile(path.join(folder, 'm', 'config.pbtxt'), '');
    let onInfo: (message: string) => void = () => {};
    const logger = { error: () => {}, info: (_: object, message: string) => onInfo(message) };
    const models = await openFolder({ logger });
    // That the configuration is ignored is said when a version begins to be loaded. Threads take longer to start.
    let starting: ReturnType<typeof openBuilt> | undefined;
    onInfo = (message) => {
      if (message.includes('config.pbtxt')) starting = openBuilt({ models }, 3);
    };
    await put(folder, 'm', '2', scaling(3));
    await models.reload();
    const { url } = await starting!;
    for (let connection = 0; connection < 6; connection++) expect(await factorOf(url, 'm')).toBe(3);
  });

  test('the server closes during a load over HTTP', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder({ control: 'explicit' });
    const { url, close } = await openBuilt({ models }, 3);
    const loading = post(url, 'models/m/load').catch((error: NodeJS.ErrnoException) => error.code);
    await close();
    await loading;
    await models.close();
    expect(used()).toEqual(NOTHING);
  });

  test('a model that is unloaded by a call stays away until it is loaded by one', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder();
    await models.unload('m');
    await models.reload();
    expect(await stateOf(models, 'm')).toMatchObject([{ state: 'UNAVAILABLE', reason: 'unloaded' }]);
    expect(models.isReady).toBe(true);
    await models.load('m');
    expect(await stateOf(models, 'm')).toMatchObject([{ state: 'READY' }]);
  });

  test('a file that goes on being written is not loaded', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder();
    const file = path.join(folder, 'm', '1', 'model.onnx');
    await cp(file, `${file}.copy`);
    await appendFile(`${file}.copy`, 'x');
    let [writes, isOver] = [0, false];
    const reloading = models.reload().then(() => (isOver = true));
    while (writes < 100) {
      utimesSync(`${file}.copy`, ++writes, writes);
      await new Promise((resolve) => setTimeout(resolve, 10));
      expect(isOver).toBe(false);
    }
    await reloading;
  });

  test('a folder serves two servers, and begins and ends apart from them', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder();
    const one = await openBuilt({ models });
    const two = await openBuilt({ models }, 3);
    await one.close();
    await put(folder, 'm', '2', scaling(3));
    await models.reload();
    expect(await factorOf(two.url, 'm')).toBe(3);
    await models.close();
    expect(await factorOf(two.url, 'm')).toBe(404);
    expect(used()).toEqual(NOTHING);
  });
});

describe('options', () => {
  test.each<[object, string]>([
    [{ control: 'push' }, `options.control must be 'none', 'poll' or 'explicit'`],
    [{ pollInterval: 0 }, 'options.pollInterval must be'],
    [{ load: 'm' }, 'options.load must be a list of names'],
    [{ load: [''] }, 'options.load[0] must be'],
    [{ load: ['m'], control: 'poll' }, `options.load needs options.control 'explicit', got 'poll'`],
    [{ strictReadiness: 1 }, 'options.strictReadiness must be'],
    [{ defaults: { version: '2' } }, 'options.defaults.version is not known'],
    [{ logger: {} }, 'options.logger must be'],
    [{ poll: 3 }, 'options.poll is not known'],
  ])('%j', async (options, message) => {
    await put(folder, 'm', '1', scaling(2));
    await expect(ModelFolder.open(folder, options)).rejects.toMatchObject({
      ...{ code: 'ERR_WARPCONV_INVALID_ARGUMENT', message: expect.stringContaining(message) },
    });
  });

  test('a folder that is not there, or has nothing in it', async () => {
    const code = 'ERR_WARPCONV_INVALID_ARGUMENT';
    await expect(ModelFolder.open(path.join(folder, 'none'))).rejects.toMatchObject({
      ...{ code, message: expect.stringMatching(/^the folder of models cannot be read: ENOENT/) },
    });
    await expect(ModelFolder.open(folder)).rejects.toMatchObject({
      ...{ code, message: expect.stringMatching(/^there is no model in '/) },
    });
    await expect(openBuilt({ models: path.join(folder, 'none') })).rejects.toMatchObject({
      ...{ code, message: expect.stringMatching(/^options\.models must be a folder of models/) },
    });
  });

  test('a name to load that is not there is listed, and the server not ready', async () => {
    await put(folder, 'm', '1', scaling(2));
    const models = await openFolder({ control: 'explicit', load: ['m', 'none'] });
    expect(models.isReady).toBe(false);
    expect(await stateOf(models, 'none')).toMatchObject([{ state: 'UNAVAILABLE' }]);
  });

  test('a name to load whose model is removed is missed', async () => {
    for (const name of ['m', 'other']) await put(folder, name, '1', scaling(2));
    const models = await openFolder({ control: 'explicit', load: ['m', 'other'] });
    const { url } = await openBuilt({ models });
    await rm(path.join(folder, 'm'), { recursive: true });
    await models.reload();
    expect(await factorOf(url, 'm')).toBe(404);
    expect(await stateOf(models, 'm')).toMatchObject([{ state: 'UNAVAILABLE' }]);
    expect(models.isReady).toBe(false);
    await put(folder, 'm', '1', scaling(3));
    await models.reload();
    expect(await factorOf(url, 'm')).toBe(3);
    expect(models.isReady).toBe(true);
  });

  test('a path alone: what the server opens ends with it', async () => {
    await put(folder, 'm', '1', scaling(2));
    const { url, close } = await openBuilt({ models: folder }, 3);
    expect(await factorOf(url, 'm')).toBe(2);
    await close();
    expect(used()).toEqual(NOTHING);
  });
});

test('in Fastify', async () => {
  const { servePlugin } = loadBuilt('../../../dist/serve/fastify') as typeof FastifyPlugin;
  await put(folder, 'm', '1', scaling(2));
  const models = await openFolder({ control: 'explicit', load: ['m'] });
  const app = Fastify();
  await app.register(servePlugin, { prefix: '/ml', models });
  await app.register(servePlugin, { prefix: '/own', models: folder });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  expect(await factorOf(`${url}`, 'm')).toBe(404);
  const unload = await request(url, { path: '/ml/v2/repository/models/m/unload', method: 'POST' });
  expect([unload.status, json(unload)]).toEqual([200, {}]);
  expect(await statusOf(url, '/ml/v2/models/m')).toBe(404);
  expect(await statusOf(url, '/own/v2/models/m')).toBe(200);
  await app.close();
  await models.close();
  expect(used()).toEqual(NOTHING);
});

test('a plugin that cannot begin ends what it has opened', async () => {
  const { servePlugin } = loadBuilt('../../../dist/serve/fastify') as typeof FastifyPlugin;
  await put(folder, 'm', '1', scaling(2));
  const app = Fastify();
  void app.register(servePlugin, { prefix: '/ml', models: folder });
  void app.register(servePlugin, { prefix: '/ml', models: folder });
  await expect(app.ready()).rejects.toMatchObject({ code: 'FST_ERR_DUPLICATED_ROUTE' });
  await app.close();
  expect(used()).toEqual(NOTHING);
});

test('sessions of the application are beside no folder', async () => {
  await put(folder, 'm', '1', scaling(2));
  const session = await InferenceSession.create(path.join(folder, 'm', '1', 'model.onnx'), { device: 'cpu' });
  const { url } = await openBuilt({ models: { m: session } });
  expect(await index(url)).toEqual([{ name: 'm', version: '1', state: 'READY' }]);
  await session.release();
});
