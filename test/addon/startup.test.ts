/** What a fresh process sees of the built package: the import, the first call, and the command line. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';

const ROOT = path.resolve(__dirname, '../..');
/** No binary is below it. */
const NOWHERE = { WARPCONV_PREBUILD: path.join(ROOT, 'docs') };

function node(args: string[], env: NodeJS.ProcessEnv = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: ROOT,
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '', DEBUG: '', ...env },
  });
  return { status, stdout, stderr };
}

const script = (text: string, env?: NodeJS.ProcessEnv) => node(['-e', text], env);
const cli = (args: string[], env?: NodeJS.ProcessEnv) => node(['dist/cli.js', ...args], env);

describe('the import', () => {
  it('prints nothing', () => {
    expect(script(`require('./dist')`)).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  it('says which binary it loaded when asked', () => {
    const { stderr } = script(`require('./dist')`, { DEBUG: 'warpconv:load' });
    expect(stderr).toMatch(/warpconv:load loaded .*\.node/);
  });

  it('throws with a code and a remedy where there is no binary', () => {
    const report = `try { require('./dist') } catch (e) { console.log(e.code, e.message) }`;
    expect(script(report, NOWHERE).stdout).toMatch(/^ERR_WARPCONV_LOAD_FAILED .*npx warpconv build/s);
  });
});

it('warns once in a process about ending on the CPU, worker threads included', () => {
  const { stderr } = script(`
    const { Worker, isMainThread } = require('node:worker_threads');
    const call = \`
      const { conv2dSync, Tensor } = require('./dist');
      const one = new Tensor('float32', [1], [1, 1, 1, 1]);
      conv2dSync(one, one);
      conv2dSync(one, one);\`;
    eval(call);
    new Worker(call, { eval: true });
  `);
  expect(stderr.match(/\[WARPCONV_CPU_FALLBACK\] WarpconvWarning/g)).toHaveLength(1);
});

describe('the command line', () => {
  it('reports a machine on which convolutions run', () => {
    const { status, stdout } = cli(['doctor']);
    expect(stdout).toMatch(/^warpconv \d+\.\d+\.\d+, Node\.js v/);
    expect(stdout).toMatch(/^self-test +ok /m);
    expect(status).toBe(0);
  });

  it('reports as JSON', () => {
    const { status, stdout } = cli(['doctor', '--json']);
    expect(JSON.parse(stdout)).toMatchObject({
      healthy: true,
      findings: expect.arrayContaining([expect.objectContaining({ name: 'CPU', status: 'ok' })]) as object,
    });
    expect(status).toBe(0);
  });

  it('runs, and fails with the remedy, where there is no binary', () => {
    const { status, stdout } = cli(['doctor'], NOWHERE);
    expect(stdout).toMatch(/^binary +failed .*npx warpconv build/ms);
    expect(status).toBe(1);
  });

  it('finds cuDNN where it is told to look', () => {
    const { stdout } = cli(['doctor'], { WARPCONV_CUDNN: path.join(ROOT, 'package.json') });
    expect(stdout).toMatch(/^cuDNN +ok +.*package\.json$/m);
  });

  it('prints its version and its usage', () => {
    expect(cli(['--version'])).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string,
    });
    expect(cli(['--help'])).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^usage: warpconv/) as string,
    });
  });

  it.each([[[]], [['docter']], [['doctor', 'twice']], [['doctor', '--jsn']]])(
    'refuses %j with its usage',
    (args) => {
      expect(cli(args)).toMatchObject({
        status: 2,
        stdout: '',
        stderr: expect.stringMatching(/^warpconv: .*\nusage: warpconv/) as string,
      });
    },
  );
});
