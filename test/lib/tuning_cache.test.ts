import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { cacheFolder } from '../../lib/cache_folder';
import { TuningCache, type TuningRecord } from '../../lib/conv2d/tuning_cache';

const scratch = mkdtempSync(path.join(os.tmpdir(), 'warpconv-tuning-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const key = (extent: number, version = '1.0.0') => JSON.stringify({ version, inputDims: [1, extent, 8, 8] });
const record = (milliseconds: number): TuningRecord => ({
  measuredAt: '2026-01-02T03:04:05.678Z',
  measurements: [
    { algorithm: 'shuffle', variant: 'wide', milliseconds },
    { algorithm: 'direct', variant: '', milliseconds: 2 * milliseconds },
  ],
});

let folder: string;
let environment: NodeJS.ProcessEnv;
let warnings: jest.SpyInstance;

beforeEach(() => {
  environment = { ...process.env };
  folder = mkdtempSync(path.join(scratch, 'cache-'));
  process.env.WARPCONV_CACHE_DIR = folder;
  warnings = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
});
afterEach(() => {
  process.env = environment;
  warnings.mockRestore();
});

const files = () =>
  readdirSync(path.join(folder, 'tuning-1')).map((name) => path.join(folder, 'tuning-1', name));

/** The file of an entry that is in the cache alone. */
function onlyFile(): string {
  new TuningCache().remember(key(3), record(1));
  expect(files()).toHaveLength(1);
  return files()[0]!;
}

const expectOneWarning = (message: string) =>
  expect(warnings.mock.calls).toEqual([
    [
      expect.stringContaining(message),
      expect.objectContaining({ type: 'WarpconvWarning', code: 'WARPCONV_TUNING_CACHE' }),
    ],
  ]);

it('recalls nothing where nothing was remembered, without a word', () => {
  expect(new TuningCache().recall(key(3))).toBeUndefined();
  expect(readdirSync(folder)).toEqual([]);
  expect(warnings).not.toHaveBeenCalled();
});

it('remembers each key by itself, for another process, too', () => {
  const cache = new TuningCache();
  cache.remember(key(3), record(1));
  cache.remember(key(4), record(2));
  for (const reader of [cache, new TuningCache()]) {
    expect(reader.recall(key(3))).toEqual(record(1));
    expect(reader.recall(key(4))).toEqual(record(2));
    expect(reader.recall(key(5))).toBeUndefined();
    expect(reader.recall(key(3, '1.0.1'))).toBeUndefined();
  }
  expect(files()).toHaveLength(2);
  expect(warnings).not.toHaveBeenCalled();
});

it('takes the later of two records', () => {
  new TuningCache().remember(key(3), record(1));
  new TuningCache().remember(key(3), record(5));
  expect(new TuningCache().recall(key(3))).toEqual(record(5));
  expect(files()).toHaveLength(1);
});

it('reads a file once', () => {
  const file = onlyFile();
  const cache = new TuningCache();
  cache.recall(key(3));
  rmSync(file);
  expect(cache.recall(key(3))).toEqual(record(1));
});

describe('a file that is not as it was written', () => {
  const whole = JSON.stringify({ key: JSON.parse(key(3)) as object, ...record(1) });
  const changed = (changes: object) => JSON.stringify({ ...(JSON.parse(whole) as object), ...changes });

  it.each([
    ['empty', ''],
    ['cut short', whole.slice(0, -9)],
    ['overwritten by zeros', '\0'.repeat(whole.length)],
    ['null', 'null'],
    ['a number', '5'],
    ['a list', '[]'],
    ['of another key', changed({ key: JSON.parse(key(4)) as object })],
    ['without a key', changed({ key: undefined })],
    ['without a time', changed({ measuredAt: undefined })],
    ['without measurements', changed({ measurements: undefined })],
    ['with no measurement', changed({ measurements: [] })],
    ['with a measurement that is null', changed({ measurements: [null] })],
    [
      'with a number for an algorithm',
      changed({ measurements: [{ algorithm: 1, variant: '', milliseconds: 1 }] }),
    ],
    ['with no variant', changed({ measurements: [{ algorithm: 'direct', milliseconds: 1 }] })],
    [
      'of lists in lists',
      changed({}).replace('{"key":{', `{"key":${'['.repeat(200_000)}${']'.repeat(200_000)},"k":{`),
    ],
    ['longer than any of ours', whole + ' '.repeat(2 ** 20)],
    [
      'with a text for a time',
      changed({ measurements: [{ algorithm: 'direct', variant: '', milliseconds: '1' }] }),
    ],
  ])('%s is ignored with a warning, and replaced', (_, text) => {
    const file = onlyFile();
    writeFileSync(file, text);
    const cache = new TuningCache();
    expect(cache.recall(key(3))).toBeUndefined();
    expectOneWarning(file);
    cache.remember(key(3), record(2));
    expect(new TuningCache().recall(key(3))).toEqual(record(2));
    expect(files()).toEqual([file]);
  });

  it('is whole as this test has it', () => {
    writeFileSync(onlyFile(), whole);
    expect(new TuningCache().recall(key(3))).toEqual(record(1));
    expect(warnings).not.toHaveBeenCalled();
  });

  it('is warned about once, however many there are', () => {
    const cache = new TuningCache();
    for (const extent of [1, 2, 3]) cache.remember(key(extent), record(1));
    for (const file of files()) writeFileSync(file, 'x');
    const reader = new TuningCache();
    for (const extent of [1, 2, 3]) expect(reader.recall(key(extent))).toBeUndefined();
    expect(warnings).toHaveBeenCalledTimes(1);
  });

  it('is warned about where it cannot be read at all', () => {
    const file = onlyFile();
    rmSync(file);
    mkdirSync(file);
    expect(new TuningCache().recall(key(3))).toBeUndefined();
    expectOneWarning('cannot be read');
  });
});

/** Leaves the home directory to say where the cache is. */
function forgetFolders(): void {
  for (const variable of ['WARPCONV_CACHE_DIR', 'XDG_CACHE_HOME', 'LOCALAPPDATA'])
    delete process.env[variable];
}

/** Remembers and recalls where no file can be had. */
function expectThisProcessAlone(): void {
  const cache = new TuningCache();
  for (const extent of [3, 4]) {
    expect(cache.recall(key(extent))).toBeUndefined();
    cache.remember(key(extent), record(extent));
    expect(cache.recall(key(extent))).toEqual(record(extent));
  }
}

it('keeps to this process where nothing can be written, with one warning', () => {
  const file = path.join(folder, 'no-directory');
  writeFileSync(file, '');
  process.env.WARPCONV_CACHE_DIR = path.join(file, 'below');
  expectThisProcessAlone();
  expectOneWarning('cannot be written');
});

it.each(['', 'somewhere'])(
  'keeps to this process where the home directory is %j, with one warning',
  (home) => {
    forgetFolders();
    const homedir = jest.spyOn(os, 'homedir').mockReturnValue(home);
    const started = process.cwd();
    process.chdir(folder);
    try {
      expectThisProcessAlone();
    } finally {
      process.chdir(started);
      homedir.mockRestore();
    }
    expect(readdirSync(folder)).toEqual([]);
    expectOneWarning(`the home directory is '${home}', and should be an absolute path`);
  },
);

it('leaves nothing behind where the last step fails', () => {
  const file = onlyFile();
  rmSync(file);
  mkdirSync(file);
  new TuningCache().remember(key(3), record(1));
  expectOneWarning('cannot be written');
  expect(files()).toEqual([file]);
});

it('is written as one line that people can read', () => {
  const text = readFileSync(onlyFile(), 'utf8');
  expect(text).toMatch(/^\{"key":\{"version":"1\.0\.0","inputDims":\[1,3,8,8\]\},"measuredAt":.*\}\n$/);
});

describe('the folder', () => {
  const home = os.homedir();
  const platform = Object.getOwnPropertyDescriptor(process, 'platform')!;
  afterEach(() => Object.defineProperty(process, 'platform', platform));

  it.each<[NodeJS.Platform, NodeJS.ProcessEnv, string]>([
    ['linux', {}, path.join(home, '.cache/warpconv')],
    ['linux', { XDG_CACHE_HOME: '/x' }, '/x/warpconv'],
    ['linux', { XDG_CACHE_HOME: 'x' }, path.join(home, '.cache/warpconv')],
    ['linux', { WARPCONV_CACHE_DIR: '', XDG_CACHE_HOME: '/x' }, '/x/warpconv'],
    ['linux', { WARPCONV_CACHE_DIR: '/y', XDG_CACHE_HOME: '/x' }, '/y'],
    ['linux', { WARPCONV_CACHE_DIR: 'y' }, path.resolve('y')],
    ['darwin', { XDG_CACHE_HOME: '/x' }, path.join(home, 'Library/Caches/warpconv')],
    ['win32', { LOCALAPPDATA: '/l' }, '/l/warpconv/Cache'],
    ['win32', {}, path.join(home, 'AppData/Local/warpconv/Cache')],
  ])('on %s with %j is %s', (name, variables, expected) => {
    Object.defineProperty(process, 'platform', { ...platform, value: name });
    forgetFolders();
    Object.assign(process.env, variables);
    expect(cacheFolder()).toBe(expected);
  });

  it('is not made before there is something to keep', () => {
    process.env.WARPCONV_CACHE_DIR = path.join(folder, 'a', 'b');
    const cache = new TuningCache();
    cache.recall(key(3));
    expect(existsSync(path.join(folder, 'a'))).toBe(false);
    cache.remember(key(3), record(1));
    expect(new TuningCache().recall(key(3))).toEqual(record(1));
  });
});
