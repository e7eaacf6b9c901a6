/** The files of deploy/ by the official schemas; scripts/make_deploy_schemas.mjs says where they are from. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import Ajv, { type AnySchemaObject, type ValidateFunction } from 'ajv';
import { validate as lint } from 'dockerfile-utils';

import { DEPLOY, kustomize, text, yaml, type KubernetesObject } from './files';

interface Schemas {
  readonly kubernetes: AnySchemaObject;
  readonly compose: AnySchemaObject;
}

const SCHEMAS = JSON.parse(
  readFileSync(path.join(__dirname, '../fixtures/deploy_schemas.json'), 'utf8'),
) as Schemas;

// The schemas use keywords and formats of their own.
const ajv = new Ajv({ strict: false, validateFormats: false, validateSchema: false, inlineRefs: false });
ajv.addSchema(SCHEMAS.kubernetes, 'kubernetes');
const checkCompose = ajv.compile(SCHEMAS.compose);

/** What is first wrong with a value. */
function complaint(check: ValidateFunction, value: unknown): string | undefined {
  if (check(value)) return undefined;
  const { instancePath, message } = check.errors!.at(-1)!;
  return `${instancePath}: ${message}`;
}

function objectComplaint(object: KubernetesObject): string | undefined {
  const check = ajv.getSchema(`kubernetes#/kinds/${object.kind}`);
  return check === undefined ? `there is no schema for ${object.kind}` : complaint(check, object);
}

const cpu = kustomize('kubernetes/cpu');
const kserve = readdirSync(path.join(DEPLOY, 'kubernetes/kserve')).map((file) =>
  yaml<KubernetesObject>(`kubernetes/kserve/${file}`),
);

test.each([
  ['cpu', cpu, ['Deployment', 'Service', 'PodDisruptionBudget']],
  ['gpu', kustomize('kubernetes/gpu'), ['Deployment', 'Service', 'PodDisruptionBudget']],
  [
    'cpu, scaled',
    kustomize('kubernetes/autoscaling', cpu),
    ['Deployment', 'Service', 'PodDisruptionBudget', 'PodMonitor', 'ScaledObject'],
  ],
  ['kserve', kserve, ['InferenceService', 'ServingRuntime']],
])('the objects of %s are valid', (_name, objects, kinds) => {
  expect(objects.map(({ kind }) => kind)).toEqual(kinds);
  for (const object of objects) expect(objectComplaint(object)).toBeUndefined();
});

test.each([...kustomize('kubernetes/autoscaling', cpu), ...kserve])(
  'a misspelt property of a $kind is found',
  (object) => {
    const { spec } = structuredClone(object) as unknown as { spec: Record<string, unknown> };
    const misspelt = { ...object, spec: { ...spec, replica: 1 } } as KubernetesObject;
    expect(objectComplaint(misspelt)).toBe('/spec: must NOT have additional properties');
  },
);

test('the compose file is valid, and a misspelt property is found', () => {
  const compose = yaml<{ services: Record<string, object> }>('compose.yaml');
  expect(complaint(checkCompose, compose)).toBeUndefined();
  const misspelt = { ...compose, services: { cpu: { ...compose.services.cpu, imag: 'warpconv' } } };
  expect(complaint(checkCompose, misspelt)).toBe('/services/cpu: must NOT have additional properties');
});

test('a linter finds nothing in the Dockerfile, and something in a wrong one', () => {
  expect(lint(text('Dockerfile'), {})).toEqual([]);
  expect(lint('FROM node\nRAN true\n', {})).not.toEqual([]);
});
