/** `npx warpconv build`: the binary is compiled from the sources that the package has. */
import { accessSync, constants, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { command, Misuse } from './command';
import { PACKAGE_ROOT } from '../here';
import { packageVersion } from '../load';
import { ownBuilds } from '../own_builds';

export const buildCommand = command({
  name: 'build',
  summary: 'compile the binary on this machine, from the sources in the package',
  synopsis: 'build [--cuda | --cpu] [--jobs N]',
  help: `
Compile the binary on this machine, from the sources in the package. It is then loaded before any other.

It takes a C++20 compiler, cmake and make or ninja, and for GPUs also nvcc of the CUDA toolkit. What is missing is named.
Where there are a GPU and nvcc, the binary has code for the GPUs of this machine, and elsewhere for the CPU alone.

  --cuda     code for GPUs, also where there is none: for every generation, which takes many times as long
  --cpu      code for the CPU alone
  --jobs N   compile N files at once; as many as there are cores by default

The binary goes into the package's folder, or into the user's cache where that folder cannot be written. Installing the
package again removes it. CXX, CUDACXX and CUDAARCHS in the environment mean what they mean to cmake.
`,
  options: { cuda: { type: 'boolean' }, cpu: { type: 'boolean' }, jobs: { type: 'string' } },
  mostArguments: 0,
  async run({ cuda = false, cpu = false, jobs = String(availableParallelism()) }) {
    if (cuda && cpu) throw new Misuse('--cuda and --cpu exclude each other');
    if (!/^[1-9]\d{0,3}$/.test(jobs)) throw new Misuse(`--jobs takes a number from 1 on, got '${jobs}'`);
    try {
      const tools = await loadTools();
      const environment = environmentOf(cuda ? 'asked' : cpu ? 'refused' : 'possible', tools);
      await build(environment, jobs, tools);
      return 0;
    } catch (error) {
      if (!(error instanceof BuildFailure)) throw error;
      process.stderr.write(`warpconv: ${error.message}\n`);
      return 1;
    }
  },
});

class BuildFailure extends Error {}

/** What of scripts/ the package has. A clone is built by the same. */
interface Tools {
  readonly toolComplaints: (environment: NodeJS.ProcessEnv) => string[];
  readonly which: (program: string) => string | undefined;
  readonly localGpus: () => number[];
  readonly run: (program: string, args: readonly string[], options: object) => Promise<Ran>;
  readonly progressOf: (title: string, start: number) => (text: string) => void;
  readonly excerpt: (output: string) => string;
}

interface Ran {
  readonly ok: boolean;
  readonly output: string;
}

const HEADERS = path.join(PACKAGE_ROOT, 'dist/include');

async function loadTools(): Promise<Tools> {
  if (process.platform === 'win32')
    throw new BuildFailure('build does not run on Windows; build there from a clone of the repository');
  if (existsSync(path.join(PACKAGE_ROOT, 'package-lock.json')))
    throw new BuildFailure(`${PACKAGE_ROOT} is a clone of the repository, which \`npm run build\` builds`);
  const scripts = ['prerequisites', 'gpus', 'run'].map((name) => `scripts/${name}.mjs`);
  const missing = ['CMakeLists.txt', ...scripts].find((file) => !existsSync(path.join(PACKAGE_ROOT, file)));
  if (missing !== undefined)
    throw new BuildFailure(
      `there are no whole sources in ${PACKAGE_ROOT}, ${missing} is missing: install the package again`,
    );
  const modules = scripts.map(
    (file) => import(pathToFileURL(path.join(PACKAGE_ROOT, file)).href) as Promise<Tools>,
  );
  return Object.assign({}, ...(await Promise.all(modules))) as Tools;
}

/** What CMakeLists.txt is told of GPUs: by environment variables, as in a clone. */
function environmentOf(cuda: 'asked' | 'refused' | 'possible', tools: Tools): NodeJS.ProcessEnv {
  const gpus = cuda === 'refused' ? [] : tools.localGpus();
  const isCuda = cuda === 'asked' || (gpus.length > 0 && hasNvcc(tools));
  if (gpus.length > 0 && !isCuda)
    process.stderr.write('warpconv: there is a GPU and no nvcc on the PATH; building for the CPU alone\n');
  const environment = { ...process.env, WARPCONV_CUDA: isCuda ? 'ON' : 'OFF' };
  const wrong = tools.toolComplaints(environment);
  if (wrong.length > 0) throw new BuildFailure(wrong.join('\n'));
  return gpus.length > 0 ? { CUDAARCHS: gpus.join(';'), ...environment } : environment;
}

const hasNvcc = ({ which }: Tools) => Boolean(process.env.CUDACXX) || which('nvcc') !== undefined;

async function build(environment: NodeJS.ProcessEnv, jobs: string, tools: Tools): Promise<void> {
  const binary = path.join(writableFolder(), 'Release', 'warpconv.node');
  // What is half done lies apart: the binary there is may be in use, and stays where the build fails.
  const work = path.join(path.dirname(binary), '../work');
  rmSync(work, { recursive: true, force: true });
  const configure = [
    ...['-S', PACKAGE_ROOT, '-B', work, '-DCMAKE_BUILD_TYPE=Release', `-DCMAKE_JS_INC=${HEADERS}`],
    `-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=${work}/out`,
    ...(tools.which('ninja') === undefined ? [] : ['-G', 'Ninja']),
    // The functions of Node-API are those of the program that loads the binary.
    ...(process.platform === 'darwin' ? ['-DCMAKE_MODULE_LINKER_FLAGS=-undefined dynamic_lookup'] : []),
  ];
  const compile = ['--build', work, '--target', 'warpconv_addon', '--parallel', jobs];
  const device = environment.WARPCONV_CUDA === 'ON' ? 'CPU and GPUs' : 'CPU';
  const start = performance.now();
  await step('configuring', 'cmake', configure, environment, tools);
  await step(`building for ${device}`, 'cmake', compile, environment, tools);
  const built = path.join(work, 'out', 'warpconv.node');
  await step('loading', process.execPath, ['-e', 'require(process.argv[1])', built], process.env, tools);
  mkdirSync(path.dirname(binary), { recursive: true });
  renameSync(built, binary);
  rmSync(work, { recursive: true });
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  process.stdout.write(`${binary}, for ${device}, in ${seconds} s\n`);
}

/** The first of the folders for builds in which there can be one. */
function writableFolder(): string {
  const failures: unknown[] = [];
  for (const folder of ownBuilds(PACKAGE_ROOT, packageVersion())) {
    try {
      mkdirSync(folder, { recursive: true });
      accessSync(folder, constants.W_OK);
      return folder;
    } catch (error) {
      failures.push(error);
    }
  }
  throw new BuildFailure(`there is no folder for the binary: ${failures.map(String).join('; ')}`);
}

async function step(
  title: string,
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { run, progressOf, excerpt }: Tools,
): Promise<void> {
  const isTerminal = process.stderr.isTTY;
  process.stderr.write(`warpconv: ${title} …${isTerminal ? '' : '\n'}`);
  const onText = isTerminal ? progressOf(`warpconv: ${title}`, performance.now()) : undefined;
  const { ok, output } = await run(program, args, { env, onText });
  if (isTerminal) process.stderr.write('\r\x1b[K');
  if (!ok) throw new BuildFailure(`${title} failed\n${excerpt(output)}`);
}
