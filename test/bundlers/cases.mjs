/** What is built by which tool, and how it is run. */
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { execFileSync } from 'node:child_process';
import path from 'node:path';

import {
  begin,
  check,
  checkFailure,
  copyAway,
  emptyFolder,
  freePort,
  install,
  makeApp,
  registryUrl,
  RESULT,
  run,
  tool,
  versionOf,
} from './place.mjs';

const { execPath: NODE } = process;
const builder = (name) => path.join(import.meta.dirname, 'builders', name);
const libc = process.report.getReport().header.glibcVersionRuntime === undefined ? 'musl' : 'gnu';
export const TARGET = [process.platform, process.arch, ...(process.platform === 'linux' ? [libc] : [])].join(
  '-',
);
const BINARY = `node_modules/@warpconv/${TARGET}/warpconv.node`;
const SAY = path.join(import.meta.dirname, 'apps/say.cjs');
const COPY = `cp ${BINARY} OUT`;

let common;
/** The programs, with the package installed by npm. */
const installed = () => (common ??= installedAnew());
async function installedAnew(manifest, ...options) {
  const folder = makeApp(manifest);
  await install(folder, ['warpconv'], ...options);
  return folder;
}

/** As on another machine: a bundle may have the absolute names of files. */
async function withoutPackages(app, act) {
  const [packages, hidden] = ['node_modules', 'hidden'].map((name) => path.join(app, name));
  renameSync(packages, hidden);
  try {
    return await act();
  } finally {
    renameSync(hidden, packages);
  }
}

/** A folder with a copy of a bundle and the package beside it. */
async function withPackage(output) {
  const folder = copyAway(output);
  writeFileSync(path.join(folder, 'package.json'), '{ "private": true }');
  await install(folder, ['warpconv']);
  return folder;
}

/**
 * What holds of every bundler.
 *
 * @param {string[]} files - the programs below the folder that `build` fills
 * @param {(app: string, out: string, external: boolean) => Promise<void>} build
 * @param {string} line - that leaves the package out of the bundle, and is in the error
 */
async function bundle(row, { files, build, line, runtime = [NODE] }) {
  const app = await installed();
  const out = path.join(app, `out-${path.basename(emptyFolder())}`);
  const runAll = async (folder, act, ...options) => {
    for (const name of files) {
      const file = path.join(folder, name);
      await act(path.dirname(file), [...runtime, ...options, file]);
    }
  };
  await row('as is, with node_modules in a folder above', async () => {
    await build(app, out, false);
    await runAll(out, check);
  });
  await row(`the bundle alone, ${COPY}`, () =>
    runAll(copyAway(out), async (folder, command) => {
      copyFileSync(path.join(app, BINARY), path.join(folder, 'warpconv.node'));
      await withoutPackages(app, () => check(folder, command));
    }),
  );
  await row('the bundle alone: refused, with what to do', () =>
    runAll(
      copyAway(out),
      (folder, command) =>
        withoutPackages(app, () =>
          checkFailure(folder, command, ['was bundled without its binary', `${BINARY} into ${folder}`, line]),
        ),
      ...['-r', SAY],
    ),
  );
  await row(line, async () => {
    const external = path.join(app, `out-${path.basename(emptyFolder())}`);
    await build(app, external, true);
    await runAll(await withPackage(external), check);
  });
}

/** Next.js's program: all that it needs is in its own folder, as nothing else would be traced. */
function makeNext() {
  const app = makeApp();
  cpSync(path.join(app, 'next'), app, { recursive: true });
  return app;
}

/** Copies packages of the tools, with all that they need. */
function copyPackages(names, app) {
  const seen = new Set(names);
  for (const name of seen) {
    if (!existsSync(tool(name))) continue;
    const to = path.join(app, 'node_modules', name);
    if (!existsSync(to)) cpSync(tool(name), to, { recursive: true });
    const { dependencies, optionalDependencies } = JSON.parse(
      readFileSync(tool(`${name}/package.json`), 'utf8'),
    );
    Object.keys({ ...dependencies, ...optionalDependencies }).forEach((other) => seen.add(other));
  }
}

/** Starts a server, and asks it for the page with the result. */
async function checkServer(cwd, command) {
  const server = begin(cwd, command, { PORT: String(await freePort()), HOSTNAME: '127.0.0.1' });
  try {
    const answer = await server.ask('/convolve');
    if (answer !== RESULT) throw new Error(`it answered ${answer}\n${server.said()}`);
  } finally {
    await server.end();
  }
}

const esbuild = (app, out, ...options) =>
  run(app, [
    tool('@esbuild/linux-x64/bin/esbuild'),
    '--bundle',
    '--platform=node',
    '--log-level=warning',
    ...options,
    `--outdir=${out}`,
  ]);

const BANNER =
  "--banner:js=import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

const CASES = {
  nft: {
    package: '@vercel/nft',
    async run(row) {
      const app = await installed();
      const out = emptyFolder();
      await row('as is', async () => {
        await run(app, [NODE, builder('nft.mjs'), out, 'app.cjs', 'app.mjs', 'smoke.cjs', 'server.mjs']);
        for (const file of ['app.cjs', 'app.mjs', 'smoke.cjs']) await check(out, [NODE, file]);
      });
      await row('as is, a server with two threads', async () => {
        const answer = await run(out, [NODE, 'server.mjs', '2']);
        if (answer.trim() !== '1,2') throw new Error(answer);
      });
    },
  },
  esbuild: {
    package: 'esbuild',
    async run(row) {
      const line = '--external:warpconv';
      await bundle(row, {
        files: ['app.js'],
        line,
        build: (app, out, isExternal) => esbuild(app, out, 'app.cjs', ...(isExternal ? [line] : [])),
      });
      const app = await installed();
      await row(`--format=esm, ${BANNER}`, async () => {
        await esbuild(
          app,
          path.join(app, 'out-esm'),
          'app.mjs',
          '--format=esm',
          '--out-extension:.js=.mjs',
          BANNER,
        );
        await check(app, [NODE, 'out-esm/app.mjs']);
      });
      await row('a server, as is', async () => {
        await esbuild(app, path.join(app, 'out-server'), 'server.mjs');
        const answer = await run(app, [NODE, 'out-server/server.js']);
        if (answer.trim() !== '1,2') throw new Error(answer);
      });
      await row('a server with threads: refused, with what to do', () =>
        checkFailure(app, [NODE, 'out-server/server.js', '2'], ['options.threads 2', 'bundled']),
      );
    },
  },
  'Next.js': {
    package: 'next',
    async run(row) {
      const app = makeNext();
      const line = "serverExternalPackages: ['warpconv']";
      const settings = { NEXT_SETTINGS: JSON.stringify({ serverExternalPackages: ['warpconv'] }) };
      const next = path.join(app, 'node_modules/next/dist/bin/next');
      const build = (env, ...options) => run(app, [NODE, next, 'build', ...options], env);
      const standalone = () => copyAway(path.join(app, '.next/standalone'));
      await install(app, ['warpconv'], '--no-save', '--legacy-peer-deps');
      copyPackages(['next', 'react', 'react-dom'], app);
      for (const [title, option] of [
        ['Turbopack', '--turbopack'],
        ['webpack', '--webpack'],
      ]) {
        await row(`${title}, ${line}, standalone`, async () => {
          await build(settings, option);
          await checkServer(standalone(), [NODE, 'server.js']);
        });
      }
      await row('as is, in place', async () => {
        await build({}, '--turbopack');
        await checkServer(app, [NODE, next, 'start']);
      });
      await row('as is, standalone: refused, with what to do', () =>
        checkServer(standalone(), [NODE, 'server.js']).then(
          () => Promise.reject(new Error('it answered')),
          ({ message }) => message.includes(line) || Promise.reject(new Error(message)),
        ),
      );
    },
  },
  webpack: { package: 'webpack', run: (row) => bundle(row, webpack('webpack')) },
  Rspack: { package: '@rspack/core', run: (row) => bundle(row, webpack('rspack')) },
  Rollup: {
    package: 'rollup',
    run: (row) =>
      bundle(row, {
        files: ['cjs/app.cjs', 'esm/app.mjs'],
        line: "external: ['warpconv']",
        build: (app, out, isExternal) =>
          run(app, [NODE, builder('rollup.mjs'), out, ...(isExternal ? ['warpconv'] : [])]),
      }),
  },
  Vite: {
    package: 'vite',
    async run(row) {
      const build = (ssr) => (app, out) => run(app, [NODE, builder('vite.mjs'), out, JSON.stringify(ssr)]);
      await row('as is: it leaves packages out, which are installed where it runs', async () => {
        const out = emptyFolder();
        await build({})(await installed(), out);
        const folder = await withPackage(out);
        await check(folder, [NODE, path.join(folder, 'app.mjs')]);
      });
      await bundle(row, {
        files: ['app.mjs'],
        line: "ssr: { external: ['warpconv'] }",
        build: (app, out, isExternal) =>
          build({ noExternal: true, ...(isExternal && { external: ['warpconv'] }) })(app, out),
      });
    },
  },
  ncc: {
    package: '@vercel/ncc',
    run: (row) =>
      bundle(row, {
        files: ['index.cjs'],
        line: "externals: { warpconv: 'node-commonjs warpconv' }",
        build: (app, out, isExternal) =>
          run(app, [
            NODE,
            tool('@vercel/ncc/dist/ncc/cli.js'),
            'build',
            'app.cjs',
            '-o',
            out,
            ...(isExternal ? ['-e', 'warpconv'] : []),
          ]),
      }),
  },
};

function webpack(name) {
  const externals = JSON.stringify({ warpconv: 'node-commonjs warpconv' });
  return {
    files: ['cjs/app.cjs', 'esm/app.mjs'],
    line: "externals: { warpconv: 'node-commonjs warpconv' }",
    build: (app, out, isExternal) =>
      run(app, [NODE, builder('webpack.mjs'), name, out, ...(isExternal ? [externals] : [])]),
  };
}

const NODES = ['22', '24', '26'];
const nodeOf = (major) => tool(`node${major}/bin/node`);
const BUN = tool('@oven/bun-linux-x64/bin/bun');
const DENO = tool('@deno/linux-x64-glibc/deno');

const SMOKE = 'require, import, a worker thread, and an end by itself';
async function smoke(row, command, title = SMOKE) {
  const app = await installed();
  await row(title, () => check(app, [...command, 'smoke.cjs']));
}

/** Makes an executable of Node.js and a program. @returns {Promise<string>} the folder with it */
async function makeExecutable(entry, assets) {
  const app = await installed();
  const out = path.join(app, `out-${path.basename(emptyFolder())}`);
  await esbuild(app, out, entry);
  const main = path.join(out, entry.replace('.cjs', '.js'));
  const [settings, blob, program] = ['sea.json', 'sea.blob', 'app'].map((name) => path.join(out, name));
  writeFileSync(
    settings,
    JSON.stringify({ main, output: blob, assets, disableExperimentalSEAWarning: true }),
  );
  await run(app, [NODE, '--experimental-sea-config', settings]);
  copyFileSync(NODE, program);
  chmodSync(program, 0o755);
  const fuse = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
  await run(app, [
    NODE,
    tool('postject/dist/cli.js'),
    program,
    'NODE_SEA_BLOB',
    blob,
    '--sentinel-fuse',
    fuse,
  ]);
  const alone = emptyFolder();
  cpSync(program, path.join(alone, 'app'));
  return alone;
}

Object.assign(CASES, {
  'Node.js': {
    version: '',
    async run(row) {
      await smoke(row, [NODE], `${process.version}: ${SMOKE}`);
      for (const major of NODES.filter((major) => existsSync(nodeOf(major))))
        await smoke(row, [nodeOf(major)], `v${versionOf(`node${major}`)}: ${SMOKE}`);
    },
  },
  'A single executable (Node.js)': {
    version: process.version.slice(1),
    async run(row) {
      await row(COPY, async () => {
        const alone = await makeExecutable('app.cjs');
        await checkFailure(alone, ['./app'], ['was bundled without its binary', `${BINARY} into ${alone}`]);
        copyFileSync(path.join(await installed(), BINARY), path.join(alone, 'warpconv.node'));
        await check(alone, ['./app']);
      });
      await row(`assets: { 'warpconv.node': '${BINARY}' }, and WARPCONV_PREBUILD`, async () =>
        check(await makeExecutable('sea.cjs', { 'warpconv.node': path.join(await installed(), BINARY) }), [
          './app',
        ]),
      );
    },
  },
  pkg: {
    package: '@yao-pkg/pkg',
    async run(row) {
      await row('--sea, as is', async () => {
        const app = await installedAnew({ bin: 'app.cjs' });
        const alone = emptyFolder();
        await run(app, [nodeOf('22'), builder('pkg.mjs'), path.join(alone, 'app')]);
        await withoutPackages(app, () => check(alone, ['./app']));
      });
    },
  },
  Bun: {
    package: 'bun',
    async run(row) {
      await smoke(row, [BUN]);
      await bundle(row, {
        files: ['app.js'],
        // Or else Bun fetches what is not there.
        runtime: [BUN, '--no-install'],
        line: '--external warpconv',
        build: (app, out, isExternal) =>
          run(app, [
            BUN,
            'build',
            'app.cjs',
            '--target=bun',
            `--outdir=${out}`,
            ...(isExternal ? ['--external', 'warpconv'] : []),
          ]),
      });
      await row(`bun build --compile, ${COPY}`, async () => {
        const app = await installed();
        const alone = emptyFolder();
        await run(app, [BUN, 'build', '--compile', 'app.cjs', '--outfile', path.join(alone, 'app')]);
        await withoutPackages(app, async () => {
          await checkFailure(alone, ['./app'], [`${BINARY} into ${alone}`]);
          copyFileSync(
            path.join(app, BINARY.replace('node_modules', 'hidden')),
            path.join(alone, 'warpconv.node'),
          );
          await check(alone, ['./app']);
        });
      });
      await row('bun install', async () => {
        const app = makeApp();
        await run(app, [BUN, 'add', 'warpconv', `--registry=${registryUrl()}`]);
        await check(app, [BUN, 'app.mjs']);
      });
    },
  },
  Deno: {
    package: 'deno',
    async run(row) {
      await smoke(row, [DENO, 'run', '-A']);
      await row('--allow-read --allow-env --allow-sys --allow-ffi', async () =>
        check(await installed(), [
          DENO,
          'run',
          '--allow-read',
          '--allow-env',
          '--allow-sys',
          '--allow-ffi',
          'app.mjs',
        ]),
      );
      await row("import 'npm:warpconv'", async () => {
        const app = makeApp({ type: 'module' });
        rmSync(path.join(app, 'package.json'));
        const source = readFileSync(path.join(app, 'app.mjs'), 'utf8');
        writeFileSync(path.join(app, 'npm.mjs'), source.replace("'warpconv'", "'npm:warpconv'"));
        await check(app, [DENO, 'run', '-A', 'npm.mjs'], {
          NPM_CONFIG_REGISTRY: registryUrl(),
          DENO_DIR: emptyFolder(),
        });
      });
    },
  },
  tsx: {
    package: 'tsx',
    async run(row) {
      await row('as is', async () => {
        const app = await installed();
        copyFileSync(path.join(app, 'app.mjs'), path.join(app, 'app.mts'));
        await check(app, [NODE, tool('tsx/dist/cli.mjs'), 'app.mts']);
      });
    },
  },
  npm: {
    version: execFileSync('npm', ['--version'], { encoding: 'utf8' }).trim(),
    async run(row) {
      const packages = (app) => readdirSync(path.join(app, 'node_modules/@warpconv')).join();
      await row('--ignore-scripts', async () =>
        check(await installedAnew({}, '--ignore-scripts'), [NODE, 'smoke.cjs']),
      );
      await row('npm ci after npm install, with one binary', async () => {
        const app = await installedAnew();
        await run(app, ['npm', 'ci', '--no-audit', '--no-fund']);
        if (packages(app) !== TARGET) throw new Error(packages(app));
        await check(app, [NODE, 'app.cjs']);
      });
      await row('workspaces', async () => {
        const app = makeApp({ workspaces: ['packages/*'] });
        const member = path.join(app, 'packages/member');
        mkdirSync(member, { recursive: true });
        for (const name of ['app.cjs', 'check.cjs'])
          copyFileSync(path.join(app, name), path.join(member, name));
        writeFileSync(
          path.join(member, 'package.json'),
          JSON.stringify({ name: 'member', version: '1.0.0', dependencies: { warpconv: '*' } }),
        );
        await install(app, []);
        await check(member, [NODE, 'app.cjs']);
      });
      await row('--omit=optional: refused, with what to do', async () =>
        checkFailure(
          await installedAnew({}, '--omit=optional'),
          [NODE, 'app.cjs'],
          [`npm installs @warpconv/${TARGET}`, '--omit=optional'],
        ),
      );
      const other = process.platform === 'darwin' ? ['linux', 'x64', '--libc=glibc'] : ['darwin', 'arm64'];
      const [os, cpu, ...libcOption] = other;
      await row('node_modules of another platform: refused, naming both', async () => {
        const app = await installedAnew({}, `--os=${os}`, `--cpu=${cpu}`, ...libcOption);
        const platform = `${process.platform}-${process.arch}`;
        await checkFailure(
          app,
          [NODE, 'app.cjs'],
          [`was installed for ${os}-${cpu}`, `this is ${platform}`, `--os=${process.platform}`],
        );
      });
    },
  },
  pnpm: {
    package: 'pnpm',
    async run(row) {
      for (const [title, linker] of [
        ['strict', 'isolated'],
        ['hoisted', 'hoisted'],
      ])
        await row(`as is, ${title} (node-linker=${linker})`, async () => {
          const app = makeApp();
          writeFileSync(path.join(app, 'pnpm-workspace.yaml'), `nodeLinker: ${linker}\n`);
          const node = existsSync(nodeOf('24')) ? nodeOf('24') : NODE;
          await run(app, [
            node,
            tool('pnpm/bin/pnpm.mjs'),
            'add',
            'warpconv',
            `--registry=${registryUrl()}`,
            `--store-dir=${emptyFolder()}`,
            `--config.node-linker=${linker}`,
            '--config.minimum-release-age=0',
          ]);
          await check(app, [NODE, 'smoke.cjs']);
          const out = emptyFolder();
          await run(app, [NODE, builder('nft.mjs'), out, 'app.cjs']);
          await check(out, [NODE, 'app.cjs']);
        });
    },
  },
  Yarn: {
    package: '@yarnpkg/cli-dist',
    async run(row) {
      for (const linker of ['pnp', 'node-modules'])
        await row(`as is, nodeLinker: ${linker}`, async () => {
          const app = makeApp();
          writeFileSync(
            path.join(app, '.yarnrc.yml'),
            [
              `nodeLinker: ${linker}`,
              `npmRegistryServer: '${registryUrl()}'`,
              "unsafeHttpWhitelist: ['127.0.0.1']",
              'enableTelemetry: false',
              'npmMinimalAgeGate: 0',
              '',
            ].join('\n'),
          );
          writeFileSync(path.join(app, 'yarn.lock'), '');
          const yarn = [NODE, tool('@yarnpkg/cli-dist/bin/yarn.js')];
          await run(app, [...yarn, 'add', 'warpconv', 'onnxruntime-common']);
          await check(app, [...yarn, 'node', 'app.cjs']);
        });
    },
  },
});

export { CASES };
