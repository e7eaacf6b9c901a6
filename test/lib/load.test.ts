import fs, { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { loadBinary, packageVersion } from '../../lib/load';
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
    return { from: name, version: packageVersion() };
  };

const failure = (message: RegExp) =>
  expect.objectContaining({
    code: 'ERR_WARPCONV_LOAD_FAILED',
    message: expect.stringMatching(message) as string,
  });

it('loads the local build first', () => {
  place('build/Release/warpconv.node', `${PREBUILDS}/warpconv.node`);
  const { addon, file } = loadBinary(root, opener({}));
  expect(addon).toMatchObject({ from: 'build/Release/warpconv.node' });
  expect(file).toBe(path.join(root, 'build/Release/warpconv.node'));
});

it('goes on to what else is there, trying each once', () => {
  const files = ['build/Release/warpconv.node', 'build/Debug/warpconv.node', `${PREBUILDS}/warpconv.node`];
  place(...files);
  const opened: string[] = [];
  const open = opener({ [files[0]!]: 'file too short', [files[1]!]: 'file too short' }, opened);
  expect(loadBinary(root, open).addon).toMatchObject({ from: files[2] });
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
  ['/a b/warpconv.node: cannot open shared object file: No such file', /the file is not a binary for/],
  ['/app/warpconv.node: cannot read file data', /damaged/],
  ['/app/warpconv.node: failed to map segment from shared object', /noexec/],
  ["EACCES: permission denied, open '/app/warpconv.node'", /may not be read/],
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

(process.platform === 'linux' ? it : it.skip)(
  'opens none that is cut off, which would end the process',
  () => {
    const whole = readFileSync(path.join(__dirname, '../../build/Release/warpconv.node'));
    place('build/Release/warpconv.node', 'build/Debug/warpconv.node');
    writeFileSync(path.join(root, 'build/Release/warpconv.node'), whole.subarray(0, whole.length - 1));
    writeFileSync(path.join(root, 'build/Debug/warpconv.node'), whole);
    const opened: string[] = [];
    loadBinary(root, opener({}, opened));
    expect(opened).toEqual(['build/Debug/warpconv.node']);
  },
);

it('opens one that only the loader can open, as in a virtual file system', () => {
  place('build/Release/warpconv.node');
  const opening = jest.spyOn(fs, 'openSync').mockImplementation(() => {
    throw Object.assign(new Error('ENOENT: no such file or directory'), { code: 'ENOENT' });
  });
  const opened: string[] = [];
  try {
    loadBinary(root, opener({}, opened));
  } finally {
    opening.mockRestore();
  }
  expect(opened).toEqual(['build/Release/warpconv.node']);
});

it('says how to build where there is nothing', () => {
  const message = new RegExp(
    `there is no native binary .* for ${process.platform}-${process.arch}.*npx warpconv build`,
    's',
  );
  expect(() => loadBinary(root, opener({}), none)).toThrow(failure(message));
});

const own = `@warpconv/${process.platform}-${process.arch}`;
/** Finds packages that are installed, and complains of others as Node.js does. */
const finder = (installed: (name: string) => boolean) => (name: string) => {
  if (installed(name)) return `/${name}`;
  throw Object.assign(new Error(`Cannot find module '${name}'\nRequire stack:`), {
    code: 'MODULE_NOT_FOUND',
  });
};
const isOwn = (name: string) => name.startsWith(own);
const none = finder(() => false);

it.each([
  ['throws nothing at all', () => Promise.reject.call(undefined)],
  ['gives nothing', () => undefined],
])('goes on after one that %s', (_, load) => {
  place('build/Release/warpconv.node');
  const open = (file: string) => (file.startsWith(root) ? load() : { from: file, version: packageVersion() });
  expect(loadBinary(root, open, finder(isOwn)).addon).toMatchObject({ from: expect.stringContaining(own) });
});

describe('packages of binaries', () => {
  const open = (file: string) => ({ from: file, version: packageVersion() });

  it('have the binary where the package itself has none that loads', () => {
    const { addon, file } = loadBinary(root, open, finder(isOwn));
    expect(addon).toMatchObject({ from: `/${file}` });
    expect(file).toMatch(own);
    place('build/Release/warpconv.node');
    const local = path.join(root, 'build/Release/warpconv.node');
    expect(loadBinary(root, open, finder(isOwn)).addon).toMatchObject({ from: local });
    const failing = (name: string) => {
      if (name === local) throw new Error('file too short');
      return { from: name, version: packageVersion() };
    };
    expect(loadBinary(root, failing, finder(isOwn)).addon).toMatchObject({ from: `/${file}` });
  });

  (process.platform === 'linux' ? it : it.skip)('are tried for each C library', () => {
    const find = finder((name) => name === `${own}-musl`);
    expect(loadBinary(root, open, find).file).toBe(`${own}-musl`);
  });

  it('are named where they are not installed, or do not load', () => {
    expect(() => loadBinary(root, open, none)).toThrow(
      failure(new RegExp(`no native binary .*\nTo do: npm installs ${own}.* --omit=optional`, 's')),
    );
    const failing = () => {
      throw new Error("version `GLIBC_2.99' not found");
    };
    expect(() => loadBinary(root, failing, finder(isOwn))).toThrow(
      failure(new RegExp(`${own}.*\n.*GLIBC_2.99' not found\nTo do: the C or C`, 's')),
    );
  });

  it('of other platforms are named beside this one', () => {
    const other = process.platform === 'win32' ? 'darwin-arm64' : 'win32-x64';
    const find = finder((name) => name === `@warpconv/${other}`);
    const platform = `${process.platform}-${process.arch}`;
    const options = `--os=${process.platform} --cpu=${process.arch}`;
    expect(() => loadBinary(root, open, find)).toThrow(
      failure(new RegExp(`was installed for ${other}, and this is ${platform}: run npm ci here.*${options}`)),
    );
  });

  it('that have lost their file are damaged', () => {
    const find = () => {
      throw Object.assign(new Error("Cannot find module '/x/warpconv.node'. Please verify"), {
        code: 'MODULE_NOT_FOUND',
      });
    };
    expect(() => loadBinary(root, open, find)).toThrow(failure(/To do: the package is damaged/));
  });
});

describe('in a bundle', () => {
  const load = () => loadBinary(root, opener({}), none);
  beforeEach(() => rmSync(path.join(root, 'package.json')));

  it('looks for the binary in the folder that WARPCONV_PREBUILD names', () => {
    place('elsewhere/warpconv.node');
    process.env.WARPCONV_PREBUILD = path.join(root, 'elsewhere');
    expect(load().addon).toMatchObject({ from: 'elsewhere/warpconv.node' });
  });

  it("leaves the program's own addons alone", () => {
    place('build/Release/other.node', `${PREBUILDS}/other.node`);
    expect(load).toThrow(failure(/bundled/));
  });

  const copy = `copy node_modules/${own}[^ ]*/warpconv.node into `;

  it.each([
    [
      'esbuild, Rollup and Vite',
      {},
      [/esbuild: --external:warpconv;/, /Rollup: external: \['warpconv'\];/, /Vite: ssr: \{/],
    ],
    [
      'Next.js',
      { NEXT_RUNTIME: 'nodejs' },
      [/To do: .* bundle runs. Next\.js: serverExternalPackages: \['warpconv'\]$/],
    ],
  ])('of %s says how to leave the package out of it', (_, variables, lines) => {
    Object.assign(process.env, variables);
    for (const line of [new RegExp(`To do: warpconv was bundled .*${copy}`), ...lines])
      expect(load).toThrow(failure(line));
  });

  it('of webpack, too', () => {
    Object.assign(globalThis, { __webpack_require__: () => undefined });
    try {
      expect(load).toThrow(failure(/runs. webpack: externals: \{ warpconv: 'node-commonjs warpconv' \}$/));
    } finally {
      delete (globalThis as Record<string, unknown>).__webpack_require__;
    }
  });

  it('of Bun, too', () => {
    Object.defineProperty(process.versions, 'bun', { value: '1', configurable: true });
    try {
      expect(load).toThrow(failure(/runs. bun build: --external warpconv$/));
    } finally {
      delete (process.versions as Record<string, string | undefined>).bun;
    }
  });
});

it('does not look at local builds under PREBUILDS_ONLY', () => {
  place('build/Release/warpconv.node', 'build/Debug/warpconv.node');
  process.env.PREBUILDS_ONLY = '1';
  // node-gyp-build reads the variable when it is first loaded, as it does in a fresh process.
  jest.isolateModules(() => {
    const fresh = jest.requireActual<typeof loading>('../../lib/load');
    expect(() => fresh.loadBinary(root, opener({}))).toThrow(failure(/there is no native binary/));
    place(`${PREBUILDS}/warpconv.node`);
    expect(fresh.loadBinary(root, opener({})).addon).toMatchObject({ from: `${PREBUILDS}/warpconv.node` });
  });
});

it('looks below WARPCONV_PREBUILD instead', () => {
  place('build/Release/warpconv.node', `elsewhere/${PREBUILDS}/warpconv.node`);
  process.env.WARPCONV_PREBUILD = path.join(root, 'elsewhere');
  expect(loadBinary(root, opener({})).addon).toMatchObject({ from: `elsewhere/${PREBUILDS}/warpconv.node` });
});

it('looks in WARPCONV_PREBUILD itself first', () => {
  place('elsewhere/warpconv.node', `elsewhere/${PREBUILDS}/warpconv.node`);
  process.env.WARPCONV_PREBUILD = path.join(root, 'elsewhere');
  expect(loadBinary(root, opener({})).addon).toMatchObject({ from: 'elsewhere/warpconv.node' });
});

it.each([
  ['the package has one', 'build/Release/warpconv.node', none],
  ['one for the platform is installed', 'package.json', finder(isOwn)],
])('names a folder of WARPCONV_PREBUILD that has no binary, also where %s', (_, file, find) => {
  place(file);
  process.env.WARPCONV_PREBUILD = '/nowhere';
  const message = /no native binary .* in .*nowhere, which WARPCONV_PREBUILD names\nTo do: name the folder/;
  expect(() => loadBinary(root, opener({}), find)).toThrow(failure(message));
});

describe('a binary of another version', () => {
  const of = (version?: string) => (file: string) => ({ from: file, version });
  const own = packageVersion();

  it.each([
    [
      '9.9.9',
      `it is of version 9.9.9 and this is warpconv ${own}\nTo do: take the warpconv.node of the package`,
    ],
    [undefined, `it is of another version and this is warpconv ${own}\nTo do: take`],
  ])('is refused: %s', (version, message) => {
    place('build/Release/warpconv.node');
    expect(() => loadBinary(root, of(version), none)).toThrow(failure(new RegExp(message)));
  });

  it('gives way to one of this version', () => {
    place('build/Release/warpconv.node', 'build/Debug/warpconv.node');
    const open = (file: string) => of(file.includes('Debug') ? own : '9.9.9')(file);
    expect(loadBinary(root, open, none).file).toMatch(/Debug/);
  });
});

it('takes WARPCONV_PREBUILD from the working directory', () => {
  place(`elsewhere/${PREBUILDS}/warpconv.node`);
  process.env.WARPCONV_PREBUILD = path.relative(process.cwd(), path.join(root, 'elsewhere'));
  const open = (file: string) => ({ from: file, version: packageVersion() });
  const file = path.join(root, 'elsewhere', PREBUILDS, 'warpconv.node');
  expect(loadBinary(root, open).addon).toMatchObject({ from: file });
});
