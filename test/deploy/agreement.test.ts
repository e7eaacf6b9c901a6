/** The files of deploy/ beside the server that they run: paths, ports, signals and times. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { parse } from 'yaml';

import { HANDLER_DEFAULTS } from '../../lib/serve/options';
import { doublingSession } from '../serve/support/fake_session';
import { request } from '../serve/support/client';
import { closeAll, open } from '../serve/support/serving';
import {
  argument,
  kustomize,
  text,
  unitSetting,
  yaml,
  type Container,
  type Deployment,
  type KubernetesObject,
} from './files';

const ROOT = path.join(__dirname, '../..');
const SERVING = readFileSync(path.join(ROOT, 'docs/serving.md'), 'utf8');
/** What of docs/serving.md a grace period has beside the server's timeout. */
const CLOSING_SECONDS = 7;

const deploymentOf = (overlay: string) =>
  kustomize(`kubernetes/${overlay}`).find(({ kind }) => kind === 'Deployment') as Deployment;
const runtime = yaml<{ spec: { containers: Container[] } }>('kubernetes/kserve/serving_runtime.yaml');
const inferenceService = yaml<{ spec: { predictor: { terminationGracePeriodSeconds: number } } }>(
  'kubernetes/kserve/inference_service.yaml',
);
const compose = yaml<{ services: Record<string, { ports: string[]; stop_grace_period: string }> }>(
  'compose.yaml',
);
const environment = Object.fromEntries(
  argument('runtime', 'ENV')
    .split(' ')
    .map((one) => one.split('=') as [string, string]),
);
const containers: [string, Container][] = [
  ['cpu', deploymentOf('cpu').spec.template.spec.containers[0]!],
  ['gpu', deploymentOf('gpu').spec.template.spec.containers[0]!],
  ['kserve', runtime.spec.containers[0]!],
];

afterEach(closeAll);

const openFake = () => open({ models: { fake: doublingSession() } });

test.each(containers)(
  'probes of %s ask the port of the server for what it answers',
  async (_name, container) => {
    const { url, close } = await openFake();
    const { startupProbe, livenessProbe, readinessProbe } = container;
    for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe]) {
      const port = container.ports.find(
        ({ name, containerPort }) => httpGet.port === name || httpGet.port === containerPort,
      );
      expect(String(port?.containerPort)).toBe(environment.PORT);
      expect((await request(url, { path: httpGet.path })).status).toBe(200);
    }
    await close();
  },
);

test('what the autoscaler asks for is measured', async () => {
  const { url } = await openFake();
  const scaled = yaml<{ spec: { triggers: { metadata: { query: string } }[] } }>(
    'kubernetes/autoscaling/scaled_object.yaml',
  );
  const monitor = yaml<{ spec: { podMetricsEndpoints: { path: string }[] } }>(
    'kubernetes/autoscaling/pod_monitor.yaml',
  );
  const inputs = [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }];
  await request(url, { path: '/v2/models/fake/infer', body: JSON.stringify({ inputs }) });
  const page = (await request(url, { path: monitor.spec.podMetricsEndpoints[0]!.path })).body.toString();
  for (const { metadata } of scaled.spec.triggers) {
    const [name] = /warpconv_\w+/.exec(metadata.query)!;
    expect(page).toMatch(new RegExp(`^${name}\\{`, 'm'));
  }
});

/** Runs the image's health check. */
function checkHealth(port: string): Promise<number | null> {
  const [, command] = /CMD (\[.*\])$/s.exec(argument('runtime', 'HEALTHCHECK'))!;
  const [program, ...args] = JSON.parse(command!) as string[];
  const child = spawn(program!, args, { env: { ...process.env, PORT: port }, stdio: 'ignore' });
  return new Promise((resolve) => child.once('close', resolve));
}

test('the health check of the image succeeds where the server is ready, and fails where there is none', async () => {
  const { url, close } = await openFake();
  const { port } = new URL(url);
  expect(await checkHealth(port)).toBe(0);
  await close();
  expect(await checkHealth(port)).toBe(1);
});

test('every grace period is longer than the server may take', () => {
  const [, example] = /## Behind Kubernetes\s+```yaml\n(.*?)```/s.exec(SERVING)!;
  const documented = parse(example!) as Pick<Container, 'lifecycle'> & {
    terminationGracePeriodSeconds: number;
  };
  const delay = documented.lifecycle.preStop.sleep.seconds;
  const grace = documented.terminationGracePeriodSeconds;
  const closing = HANDLER_DEFAULTS.timeout / 1e3 + CLOSING_SECONDS;
  expect(SERVING).toMatch(new RegExp(`\`timeout\` and\\s+${CLOSING_SECONDS} seconds together`));
  expect(grace).toBeGreaterThan(delay + closing);
  for (const [, { lifecycle }] of containers) expect(lifecycle.preStop.sleep.seconds).toBe(delay);
  for (const overlay of ['cpu', 'gpu'])
    expect(deploymentOf(overlay).spec.template.spec.terminationGracePeriodSeconds).toBe(grace);
  expect(inferenceService.spec.predictor.terminationGracePeriodSeconds).toBe(grace);
  for (const service of Object.values(compose.services))
    expect(Number.parseInt(service.stop_grace_period)).toBeGreaterThan(closing);
  expect(Number(unitSetting('TimeoutStopSec'))).toBeGreaterThan(closing);
});

test('containers, services and the image agree on the port', () => {
  const port = environment.PORT!;
  expect(argument('runtime', 'EXPOSE')).toBe(port);
  for (const { ports } of Object.values(compose.services)) expect(ports).toEqual([`8080:${port}`]);
  const service = kustomize('kubernetes/cpu').find(({ kind }) => kind === 'Service') as KubernetesObject & {
    spec: { ports: { targetPort: string }[] };
  };
  const [, cpu] = containers[0]!;
  expect(service.spec.ports.map(({ targetPort }) => targetPort)).toEqual(cpu.ports.map(({ name }) => name));
  expect(unitSetting('Environment').split(' ')).toContain(`PORT=${port}`);
});

test('the image and the unit start the command of the package', () => {
  const { bin } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
    bin: Record<string, string>;
  };
  const [, command] = JSON.parse(argument('runtime', 'ENTRYPOINT').replace('"--",', '')) as string[];
  expect(Object.keys(bin)).toContain(command);
  const [, cli] = /node_modules\/warpconv\/(\S+) serve /.exec(unitSetting('ExecStart'))!;
  expect(cli).toBe(bin.warpconv);
  const [, readme] = /node_modules\/warpconv\/(\S+)/.exec(text('warpconv.service'))!;
  expect(existsSync(path.join(ROOT, readme!))).toBe(true);
});

test('the image is built from all files that building reads', () => {
  const setup = readFileSync(path.join(ROOT, 'scripts/setup.mjs'), 'utf8');
  const read = [...setup.matchAll(/hashOf\(('.*?')\)/g)].flatMap(([, names]) =>
    names!.split(', ').map((name) => name.slice(1, -1)),
  );
  expect(read.length).toBeGreaterThan(0);
  const letThrough = text('Dockerfile.dockerignore').split('\n');
  for (const name of read) expect(letThrough).toContain(`!${name}`);
});
