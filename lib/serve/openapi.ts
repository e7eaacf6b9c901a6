/** What the server answers to, as an OpenAPI document. */
import type { IncomingMessage } from 'node:http';

import { packageVersion } from '../load';
import { DATATYPE_NAMES } from './datatypes';
import { ENCODINGS } from './encodings';
import type { ModelDescription } from './model';
import { pathsOf, ROUTES, urlOf, type Action } from './routes';

type Json = Readonly<Record<string, unknown>>;

/** What there is to say of a route. Errors that any request may get are added to it. */
interface Operation {
  readonly summary: string;
  /** By status */
  readonly responses: Readonly<Record<number, Json>>;
  readonly parameters?: readonly Json[];
  readonly requestBody?: Json;
}

type Models = ReadonlyMap<string, ModelDescription>;

/**
 * The document of a server.
 *
 * @param base - what is in front of all paths, without a slash at its end
 */
export function openApiDocument(models: Models, base: string): Json {
  const operations = operationsOf(models);
  const actions = Object.keys(ROUTES) as Action[];
  const paths = actions.flatMap((action) =>
    pathsOf(action).map((path, index) => {
      const id = index === 0 ? action : `${action}OfVersion`;
      return [path, pathItem(path, ROUTES[action].method, id, operations[action], models)] as const;
    }),
  );
  return {
    openapi: '3.1.0',
    info: {
      title: 'warpconv',
      version: packageVersion(),
      description:
        'Models by the Open Inference Protocol, the second version of KServe, with binary tensors. Paths that take GET also take HEAD.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    // A server at the root needs no saying.
    ...(base !== '' && { servers: [{ url: base }] }),
    paths: Object.fromEntries(paths),
    components: { schemas: SCHEMAS },
  };
}

/** What is in front of the target in what a client asked for. */
export function baseOf(request: IncomingMessage, target: string): string {
  const url = urlOf(request);
  return url.endsWith(target) ? url.slice(0, url.length - target.length) : '';
}

function pathItem(
  path: string,
  method: string,
  operationId: string,
  operation: Operation,
  models: Models,
): Json {
  const { responses, ...rest } = operation;
  const parameters = [...pathParameters(path, models), ...(operation.parameters ?? [])];
  const described = {
    operationId,
    ...rest,
    ...(parameters.length > 0 && { parameters }),
    responses: { ...responses, default: errorAnswer('An error that any request may get.') },
  };
  return { [method.toLowerCase()]: described };
}

function pathParameters(path: string, models: Models): Json[] {
  const described = [...models.values()];
  const values: Readonly<Record<string, readonly string[]>> = {
    model: described.map(({ name }) => name),
    version: [...new Set(described.map(({ version }) => version))],
  };
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    ...{ name, in: 'path', required: true },
    schema: { type: 'string', enum: values[name!] },
  }));
}

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });

function jsonAnswer(description: string, schema: string): Json {
  return { description, content: { 'application/json': { schema: ref(schema) } } };
}

function errorAnswer(description: string, headers?: Json): Json {
  return { ...jsonAnswer(description, 'Error'), ...(headers !== undefined && { headers }) };
}

const INTEGER = { type: 'integer', minimum: 0 };
const RETRY_AFTER = { 'Retry-After': { schema: INTEGER, description: 'Seconds' } };
const ACCEPT_ENCODING = { 'Accept-Encoding': { schema: { type: 'string' } } };

const NO_MODEL = errorAnswer('There is no such model, or it has no such version.');
const BAD_PATH = errorAnswer('The path is not valid.');

function operationsOf(models: Models): Readonly<Record<Action, Operation>> {
  return {
    server: {
      summary: 'Name, version and extensions of the server',
      responses: { 200: jsonAnswer('The server', 'Server') },
    },
    live: {
      summary: 'Whether the server runs',
      responses: { 200: jsonAnswer('It does.', 'Live') },
    },
    ready: {
      summary: 'Whether the server takes requests',
      responses: {
        200: jsonAnswer('It does.', 'Ready'),
        503: jsonAnswer('It is shutting down, or a model is not served that should be.', 'Ready'),
      },
    },
    openApi: {
      summary: 'This document',
      responses: { 200: { description: 'OpenAPI 3.1', content: { 'application/json': { schema: OBJECT } } } },
    },
    metrics: {
      summary: 'Metrics for Prometheus',
      responses: { 200: { description: 'Its text format', content: { 'text/plain': { schema: TEXT } } } },
    },
    model: {
      summary: 'Inputs and outputs of a model',
      responses: { 200: jsonAnswer('The model', 'Model'), 400: BAD_PATH, 404: NO_MODEL },
    },
    modelReady: {
      summary: 'Whether a model takes requests',
      responses: {
        200: jsonAnswer('It does.', 'ModelReady'),
        400: BAD_PATH,
        404: NO_MODEL,
        503: jsonAnswer('The server is shutting down.', 'ModelReady'),
      },
    },
    stats: {
      summary: 'What the runs of a model came to',
      responses: { 200: jsonAnswer('Its statistics', 'Statistics'), 400: BAD_PATH, 404: NO_MODEL },
    },
    allStats: {
      summary: 'What the runs of all models came to',
      responses: { 200: jsonAnswer('Their statistics', 'Statistics') },
    },
    index: {
      summary: 'Models of the folder, and those that are always served',
      requestBody: optionalBody(object({}, { ready: orNull(BOOLEAN) })),
      responses: { 200: jsonAnswer('The models', 'Index'), ...BODY_ERRORS },
    },
    load: controlOperation('Loads a model of the folder, or its newest version'),
    unload: controlOperation('Serves a model of the folder no longer'),
    infer: inferOperation([...models.values()].some(({ image }) => image !== undefined)),
  };
}

const TEXT = { type: 'string' };
const OBJECT = { type: 'object' };
const BYTES = {};

function optionalBody(schema: Json): Json {
  return { required: false, content: { 'application/json': { schema } } };
}

/** Of requests about models, which have a body of JSON. */
const BODY_ERRORS = {
  400: errorAnswer('The request is wrong, or the model cannot be loaded; the message says why.'),
  408: errorAnswer('The body came too slowly.'),
  413: errorAnswer('The body is too long.'),
  415: errorAnswer('The body is of another encoding than those that are taken.', ACCEPT_ENCODING),
  503: errorAnswer('The server has no room now, or is shutting down; try again.', RETRY_AFTER),
};

function controlOperation(summary: string): Operation {
  const known = { unload_dependents: orNull(BOOLEAN) };
  return {
    summary,
    requestBody: optionalBody(object({}, { parameters: parameters(known) })),
    responses: {
      200: jsonAnswer('That is done.', 'Done'),
      403: errorAnswer('A page of another site asks, or the server does not let clients load and unload.'),
      ...BODY_ERRORS,
    },
  };
}

const HEADER_LENGTH = 'Inference-Header-Content-Length';

function header(name: string, schema: Json, description: string): Json {
  return { name, in: 'header', schema, description };
}

function inferOperation(takesImages: boolean): Operation {
  const images = ['image/jpeg', 'image/png', 'image/webp'].map((type) => [type, { schema: BYTES }] as const);
  return {
    summary: 'Runs a model',
    parameters: [
      header(HEADER_LENGTH, INTEGER, 'Bytes of JSON in front of binary tensors'),
      header('Content-Encoding', { enum: ENCODINGS }, 'Compression of the body'),
      header(
        'Request-Timeout-Ms',
        { type: 'integer', minimum: 1 },
        'Milliseconds for which an answer is of use',
      ),
      header('Priority', TEXT, 'RFC 9218: u=0 goes first, u=7 last'),
    ],
    requestBody: {
      required: true,
      content: {
        'application/json': { schema: ref('InferRequest') },
        'application/octet-stream': { schema: BYTES },
        ...(takesImages && Object.fromEntries(images)),
      },
    },
    responses: {
      200: {
        description: 'Outputs. Binary tensors follow the JSON, which has as many bytes as the header says.',
        headers: {
          'Server-Timing': { schema: TEXT, description: 'Milliseconds in the queue and of the run' },
          [HEADER_LENGTH]: { schema: INTEGER },
        },
        content: {
          'application/json': { schema: ref('InferResponse') },
          'application/octet-stream': { schema: BYTES },
        },
      },
      400: errorAnswer('The request is wrong; the message says how.'),
      404: NO_MODEL,
      406: errorAnswer('An output does not fit JSON; ask for binary data.'),
      408: errorAnswer('The body came too slowly.'),
      413: errorAnswer('The body, or the JSON in it, is too long.'),
      415: errorAnswer('The body is of another type or encoding than those that are taken.', ACCEPT_ENCODING),
      500: errorAnswer('The model failed; the log of the server says why.'),
      503: errorAnswer('The server has no room now, or is shutting down; try again.', RETRY_AFTER),
      504: errorAnswer('The model did not answer in time.'),
    },
  };
}

type Properties = Readonly<Record<string, Json>>;

function object(required: Properties, optional: Properties = {}): Json {
  return { type: 'object', required: Object.keys(required), properties: { ...required, ...optional } };
}

const list = (items: Json): Json => ({ type: 'array', items });
const orNull = (schema: Json): Json => ({ anyOf: [schema, { type: 'null' }] });

const BOOLEAN = { type: 'boolean' };
const DATATYPE = { enum: DATATYPE_NAMES };
const SHAPE = list(INTEGER);

/** Unknown ones are ignored. */
const parameters = (known: Properties): Json => orNull({ ...OBJECT, properties: known });

const STAGES = {
  ...{ compute_input: ref('Duration'), compute_infer: ref('Duration'), compute_output: ref('Duration') },
};

const SCHEMAS: Properties = {
  Error: object({ error: TEXT }),
  Server: object({ name: TEXT, version: TEXT, extensions: list(TEXT) }),
  Live: object({ live: BOOLEAN }),
  Ready: object({ ready: BOOLEAN }),
  Model: object({
    name: TEXT,
    versions: list(TEXT),
    platform: TEXT,
    inputs: list(ref('Value')),
    outputs: list(ref('Value')),
  }),
  Value: object({
    name: TEXT,
    datatype: DATATYPE,
    shape: { ...list({ type: 'integer', minimum: -1 }), description: '-1 for an extent that varies' },
  }),
  Statistics: object({ model_stats: list(ref('ModelStatistics')) }),
  ModelStatistics: object({
    name: TEXT,
    version: TEXT,
    last_inference: { ...INTEGER, description: 'Milliseconds since 1970; 0 for never' },
    inference_count: INTEGER,
    execution_count: INTEGER,
    inference_stats: object({
      ...{ success: ref('Duration'), fail: ref('Duration'), queue: ref('Duration') },
      ...STAGES,
    }),
    batch_stats: list(object({ batch_size: INTEGER, ...STAGES })),
  }),
  Duration: object({ count: INTEGER, ns: { ...INTEGER, description: 'Nanoseconds in all' } }),
  Index: list(object({ name: TEXT }, { version: TEXT, state: TEXT, reason: TEXT })),
  Done: OBJECT,
  ModelReady: object({ name: TEXT, ready: BOOLEAN }),
  InferRequest: object(
    { inputs: list(ref('Input')) },
    {
      id: orNull(TEXT),
      parameters: parameters({
        binary_data_output: orNull(BOOLEAN),
        timeout: orNull({ ...INTEGER, description: 'Microseconds for which an answer is of use; 0 for any' }),
      }),
      outputs: orNull(list(ref('RequestedOutput'))),
    },
  ),
  Input: object(
    { name: TEXT, datatype: DATATYPE, shape: SHAPE },
    {
      parameters: parameters({ binary_data_size: orNull(INTEGER) }),
      data: orNull(ref('Data')),
    },
  ),
  RequestedOutput: object({ name: TEXT }, { parameters: parameters({ binary_data: orNull(BOOLEAN) }) }),
  InferResponse: object(
    { model_name: TEXT, model_version: TEXT, outputs: list(ref('Output')) },
    { id: TEXT },
  ),
  Output: object(
    { name: TEXT, datatype: DATATYPE, shape: SHAPE },
    { parameters: object({ binary_data_size: INTEGER }), data: ref('Data') },
  ),
  Data: {
    ...list({ anyOf: [{ type: 'number' }, BOOLEAN, ref('Data')] }),
    description: 'Elements in row-major order, flat or nested as the shape is. Answers have them flat.',
  },
};
