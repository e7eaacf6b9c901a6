import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { loadBinary } from '../../lib/load';
import type * as loading from '../../lib/load';

const PREBUILDS = `prebuilds/${process.platform}-${process.arch}`;
const environment = { ...process.env };

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'warpconv-load-'));
  writeFileSync(path.join(root, 'package.json'), '{ "name": "warpconv" }');
});
afterEach(() => {
  rmSync(root, { recursive: true });
  process.env = { ...environment };
});

function place(...files: string[]): void {
  for (const file of files) {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    writeFileSync(path.join(root, file), 'not a binary');
  }
}

/** Opens the files that load, and throws for the others what the loader would say. */
const opener =
  (complaints: Record<string, string>, opened: string[] = []) =>
  (file: string) => {
    const name = path.relative(root, file);
    opened.push(name);
    if (name in complaints) throw new Error(complaints[name]);
    return { from: name };
  };

const failure = (message: RegExp) =>
  expect.objectContaining({
    code: 'ERR_WARPCONV_LOAD_FAILED',
    message: expect.stringMatching(message) as string,
  });

it('loads the local build first', () => {
  place('build/Release/warpconv.node', `${PREBUILDS}/warpconv.node`);
  const { addon, file } = loadBinary(root, opener({}));
  expect(addon).toEqual({ from: 'build/Release/warpconv.node' });
  expect(file).toBe(path.join(root, 'build/Release/warpconv.node'));
});

it('goes on to what else is there, trying each once', () => {
  const files = ['build/Release/warpconv.node', 'build/Debug/warpconv.node', `${PREBUILDS}/warpconv.node`];
  place(...files);
  const opened: string[] = [];
  const open = opener({ [files[0]!]: 'file too short', [files[1]!]: 'file too short' }, opened);
  expect(loadBinary(root, open).addon).toEqual({ from: files[2] });
  expect(opened).toEqual(files);
});

it('lists every candidate with its error, and remedies matched to the causes', () => {
  place('build/Release/warpconv.node', `${PREBUILDS}/warpconv.node`);
  const open = opener({
    'build/Release/warpconv.node': `/lib/libstdc++.so.6: version \`GLIBCXX_3.4.32' not found (required by x)\nmore`,
    [`${PREBUILDS}/warpconv.node`]: 'wrong ELF class: ELFCLASS32',
  });
  expect(() => loadBinary(root, open)).toThrow(
    failure(/Release\/warpconv\.node\n.*GLIBCXX_3\.4\.32' not found/),
  );
  expect(() => loadBinary(root, open)).toThrow(failure(/warpconv\.node\n.*ELFCLASS32/));
  expect(() => loadBinary(root, open)).toThrow(
    failure(/To do: the C or C\+\+ library of this system is older/),
  );
  expect(() => loadBinary(root, open)).toThrow(failure(/To do: the file is not a binary for/));
});

it.each([
  ['libc.musl-x86_64.so.1: cannot open shared object file: No such file', /other C library/],
  ['Error loading shared library ld-linux-x86-64.so.2: No such file', /other C library/],
  ['libfoo.so.1: cannot open shared object file: No such file', /install the library that the message names/],
  ['undefined symbol: node_api_get_module_file_name', /newer Node\.js/],
  ['Module did not self-register', /damaged/],
  ['something nobody foresaw', /npx warpconv build/],
])('has a remedy for: %s', (complaint, remedy) => {
  place('build/Release/warpconv.node');
  const open = opener({ 'build/Release/warpconv.node': complaint });
  expect(() => loadBinary(root, open)).toThrow(failure(remedy));
});

it('really opens files', () => {
  place('build/Release/warpconv.node');
  expect(() => loadBinary(root)).toThrow(failure(/Release\/warpconv\.node\n/));
});

it('says how to build where there is nothing', () => {
  const message = new RegExp(
    `there is no native binary .* for ${process.platform}-${process.arch}.*npx warpconv build`,
    's',
  );
  expect(() => loadBinary(root, opener({}))).toThrow(failure(message));
});

it.each([
  ['throws nothing at all', () => Promise.reject.call(undefined)],
  ['gives nothing', () => undefined],
])('goes on after one that %s', (_, load) => {
  const name = `@warpconv/${process.platform}-${process.arch}`;
  const packages = { [`${name}-a`]: load, [`${name}-b`]: () => ({ from: 'b' }) };
  expect(loadBinary(root, opener({}), packages).addon).toEqual({ from: 'b' });
});

describe('packages of binaries', () => {
  const own = `@warpconv/${process.platform}-${process.arch}`;
  const missing = (name: string) => () => {
    throw Object.assign(new Error(`Cannot find module '${name}'\nRequire stack:`), {
      code: 'MODULE_NOT_FOUND',
    });
  };

  it('have the binary where the package itself has none that loads', () => {
    const packages = {
      '@warpconv/other-cpu': missing('other'),
      [`${own}-gnu`]: () => ({ from: 'the package' }),
    };
    expect(loadBinary(root, opener({}), packages)).toEqual({
      addon: { from: 'the package' },
      file: `${own}-gnu`,
    });
    place('build/Release/warpconv.node');
    expect(loadBinary(root, opener({}), packages).addon).toEqual({ from: 'build/Release/warpconv.node' });
    const open = opener({ 'build/Release/warpconv.node': 'file too short' });
    expect(loadBinary(root, open, packages).addon).toEqual({ from: 'the package' });
  });

  it('are tried for each C library', () => {
    const packages = { [`${own}-gnu`]: missing(`${own}-gnu`), [`${own}-musl`]: () => ({ from: 'musl' }) };
    expect(loadBinary(root, opener({}), packages).addon).toEqual({ from: 'musl' });
  });

  it('are named where they are not installed, or do not load', () => {
    expect(() => loadBinary(root, opener({}))).toThrow(
      failure(new RegExp(`no native binary .*\nTo do: npm installs ${own}.* --omit=optional`, 's')),
    );
    const packages = {
      [`${own}-gnu`]: () => {
        throw new Error("version `GLIBC_2.99' not found");
      },
    };
    expect(() => loadBinary(root, opener({}), packages)).toThrow(
      failure(new RegExp(`${own}-gnu\n.*GLIBC_2.99' not found\nTo do: the C or C`, 's')),
    );
  });
});

it('says of a bundle how to leave the package out of it', () => {
  rmSync(path.join(root, 'package.json'));
  expect(() => loadBinary(root, opener({}))).toThrow(failure(/To do: warpconv was bundled .*external/));
});

it('does not look at local builds under PREBUILDS_ONLY', () => {
  place('build/Release/warpconv.node', 'build/Debug/warpconv.node');
  process.env.PREBUILDS_ONLY = '1';
  // node-gyp-build reads the variable when it is first loaded, as it does in a fresh process.
  jest.isolateModules(() => {
    const fresh = jest.requireActual<typeof loading>('../../lib/load');
    expect(() => fresh.loadBinary(root, opener({}))).toThrow(failure(/there is no native binary/));
    place(`${PREBUILDS}/warpconv.node`);
    expect(fresh.loadBinary(root, opener({})).addon).toEqual({ from: `${PREBUILDS}/warpconv.node` });
  });
});

it('looks below WARPCONV_PREBUILD instead', () => {
  place('build/Release/warpconv.node', `elsewhere/${PREBUILDS}/warpconv.node`);
  process.env.WARPCONV_PREBUILD = path.join(root, 'elsewhere');
  expect(loadBinary(root, opener({})).addon).toEqual({ from: `elsewhere/${PREBUILDS}/warpconv.node` });
});
