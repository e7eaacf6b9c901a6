/**
 * Makes test/fixtures/deploy_schemas.json of the official schemas of what deploy/ has: those parts of them that are needed,
 * without descriptions, and strict: a property that no schema knows is refused.
 *
 *     node scripts/make_deploy_schemas.mjs FOLDER
 *
 * FOLDER has the files that SOURCES names; each is at https://raw.githubusercontent.com/SOURCE.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { parse } from 'yaml';

import { ROOT } from './root.mjs';

const KSERVE = 'kserve/kserve/aaac4e294dae2c7b1aa1886447793f3aa1c30912/config/crd/full';
/** All under the Apache License 2.0 */
const SOURCES = {
  kubernetes:
    'kubernetes-client/python/024658493d124f046fc0a9827a2a3165cf2aee28/kubernetes/swagger.json.unprocessed',
  keda: 'kedacore/keda/8b4f083ca8c8c2baf8477e322bd4d16ac4dfa09a/config/crd/bases/keda.sh_scaledobjects.yaml',
  prometheus:
    'prometheus-operator/prometheus-operator/6adcebc5076c34f4f55f8f5f7b1e528929373ac7/' +
    'example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml',
  inferenceService: `${KSERVE}/serving.kserve.io_inferenceservices.yaml`,
  servingRuntime: `${KSERVE}/serving.kserve.io_servingruntimes.yaml`,
  compose: 'compose-spec/compose-spec/170098ba07d9f53c383a41bfd4c5166b0a4529a6/schema/compose-spec.json',
};

const KINDS = [
  'io.k8s.api.apps.v1.Deployment',
  'io.k8s.api.core.v1.Service',
  'io.k8s.api.policy.v1.PodDisruptionBudget',
];
const META = 'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta';
/** They are strings in the description of the interface, and may be numbers in files. */
const STRING_OR_NUMBER = [
  'io.k8s.apimachinery.pkg.util.intstr.IntOrString',
  'io.k8s.apimachinery.pkg.api.resource.Quantity',
];

const CONTAINER = 'io.k8s.api.core.v1.Container';
/** What is kept of a ServingRuntime. */
const RUNTIME = ['annotations', 'containers', 'protocolVersions', 'supportedModelFormats'];
/** The schema of a predictor repeats that of pods a dozen times: all that is kept of it. */
const PREDICTOR = ['model', 'minReplicas', 'maxReplicas', 'terminationGracePeriodSeconds'];

const folder = process.argv[2];
const read = (source) => readFileSync(path.join(folder, path.basename(SOURCES[source])), 'utf8');
const swagger = JSON.parse(read('kubernetes')).definitions;
const needed = new Set();

/** A schema without descriptions and extensions, which refuses properties that it does not know. */
function strict(schema) {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== 'object' || schema === null) return schema;
  if (schema.$ref !== undefined) return refer(schema.$ref.replace('#/definitions/', ''));
  if (schema['x-kubernetes-int-or-string']) return { type: ['string', 'number'] };
  const kept = Object.entries(schema).filter(
    ([key]) => !key.startsWith('x-') && !['description', 'format', 'default', 'properties'].includes(key),
  );
  const made = Object.fromEntries(kept.map(([key, value]) => [key, strict(value)]));
  const { properties } = schema;
  if (properties === undefined) return made;
  made.properties = Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, strict(one)]));
  if (!schema['x-kubernetes-preserve-unknown-fields']) made.additionalProperties ??= false;
  return made;
}

function refer(name) {
  needed.add(name);
  return { $ref: `#/definitions/${name}` };
}

/** The schema of a custom resource. */
function resource(source, prune = () => {}) {
  const { spec } = parse(read(source));
  const { name, schema } = spec.versions.find(({ storage }) => storage);
  const { properties } = schema.openAPIV3Schema;
  prune(properties.spec);
  const made = strict({ ...schema.openAPIV3Schema, properties: { ...properties, status: {} } });
  made.properties.apiVersion = { const: `${spec.group}/${name}` };
  made.properties.kind = { const: spec.names.kind };
  made.properties.metadata = refer(META);
  return [spec.names.kind, made];
}

function pick(properties, names) {
  return Object.fromEntries(names.map((name) => [name, properties[name]]));
}

function prunePredictor(spec) {
  spec.properties = pick(spec.properties, ['predictor']);
  const { predictor } = spec.properties;
  predictor.properties = pick(predictor.properties, PREDICTOR);
}

function pruneRuntime(spec) {
  spec.properties = pick(spec.properties, RUNTIME);
  spec.properties.containers.items = { $ref: `#/definitions/${CONTAINER}` };
}

function builtIn(name) {
  const { group, version, kind } = swagger[name]['x-kubernetes-group-version-kind'][0];
  refer(name);
  const apiVersion = group === '' ? version : `${group}/${version}`;
  return [
    kind,
    {
      $ref: `#/definitions/${name}`,
      properties: { apiVersion: { const: apiVersion }, kind: { const: kind } },
    },
  ];
}

function definitions() {
  const made = {};
  // A set may grow while it is gone through.
  for (const name of needed)
    made[name] = STRING_OR_NUMBER.includes(name) ? { type: ['string', 'number'] } : strict(swagger[name]);
  return made;
}

const kinds = Object.fromEntries([
  ...KINDS.map(builtIn),
  resource('keda'),
  resource('prometheus'),
  resource('inferenceService', prunePredictor),
  resource('servingRuntime', pruneRuntime),
]);
const compose = strictCompose(JSON.parse(read('compose')));

/** That of compose files is strict as it is. */
function strictCompose(schema) {
  if (Array.isArray(schema)) return schema.map(strictCompose);
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept = Object.entries(schema).filter(
    ([key, value]) => !(['$schema', '$id', 'description'].includes(key) && typeof value === 'string'),
  );
  return Object.fromEntries(kept.map(([key, value]) => [key, strictCompose(value)]));
}

writeFileSync(
  path.join(ROOT, 'test/fixtures/deploy_schemas.json'),
  `${JSON.stringify({ sources: SOURCES, kubernetes: { definitions: definitions(), kinds }, compose })}\n`,
);
