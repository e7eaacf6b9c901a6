/** Which path means what. */
import type { IncomingMessage } from 'node:http';

import { alternatives, describe, invalid } from '../check';
import type { ModelDescription } from './model';
import { Refusal } from './refusal';

/** Every route: its path, as OpenAPI writes it, and its method. `openapi.ts` describes each. */
export const ROUTES = {
  server: { path: '/v2', method: 'GET' },
  live: { path: '/v2/health/live', method: 'GET' },
  ready: { path: '/v2/health/ready', method: 'GET' },
  openApi: { path: '/v2/openapi.json', method: 'GET' },
  metrics: { path: '/metrics', method: 'GET' },
  model: { path: '/v2/models/{model}', method: 'GET' },
  modelReady: { path: '/v2/models/{model}/ready', method: 'GET' },
  infer: { path: '/v2/models/{model}/infer', method: 'POST' },
  stats: { path: '/v2/models/{model}/stats', method: 'GET' },
  allStats: { path: '/v2/models/stats', method: 'GET' },
  index: { path: '/v2/repository/index', method: 'POST' },
  load: { path: '/v2/repository/models/{name}/load', method: 'POST' },
  unload: { path: '/v2/repository/models/{name}/unload', method: 'POST' },
} as const;

export type Action = keyof typeof ROUTES;
type ModelAction = 'model' | 'modelReady' | 'infer' | 'stats';
type FolderAction = 'load' | 'unload';
type ServerAction = Exclude<Action, ModelAction | FolderAction>;

export type Route =
  | { readonly action: ServerAction }
  | { readonly action: Exclude<ModelAction, 'infer'>; readonly model: ModelDescription }
  | { readonly action: 'infer'; readonly model: ModelDescription }
  /** Whether the folder of models has one of the name is not known yet */
  | { readonly action: FolderAction; readonly name: string };

/** Of the path of a model, which every route of a model also takes with a version. */
const MODEL = '/v2/models/{model}';
const VERSION = '/versions/{version}';

/** The paths of a route: that of the table, and the one with a version. */
export function pathsOf(action: Action): readonly string[] {
  const { path } = ROUTES[action];
  return path.startsWith(MODEL) ? [path, path.replace(MODEL, MODEL + VERSION)] : [path];
}

const ACTIONS = Object.keys(ROUTES) as Action[];
const isOfModel = (action: Action): action is ModelAction => ROUTES[action].path.startsWith(MODEL);
const isOfServer = (action: Action): action is ServerAction => !ROUTES[action].path.includes('{');

const SERVER_ACTIONS: ReadonlyMap<string, ServerAction> = new Map(
  ACTIONS.filter(isOfServer).map((action) => [ROUTES[action].path, action]),
);

/** By what follows the name of the model and the version. */
const MODEL_ACTIONS: ReadonlyMap<string, ModelAction> = new Map(
  ACTIONS.filter(isOfModel).map((action) => [ROUTES[action].path.slice(MODEL.length), action]),
);

/** /v2/models/NAME[/versions/VERSION][/ACTION] */
const MODEL_PATH = /^\/v2\/models\/([^/]+)(?:\/versions\/([^/]+))?(\/[^/]+)?$/;

/** /v2/repository/models/NAME/ACTION */
const FOLDER_PATH = /^\/v2\/repository\/models\/([^/]+)\/(load|unload)$/;

/** What a request asks for, be the handler mounted below a prefix or not: Express and Connect leave it here. */
export function urlOf(request: IncomingMessage): string {
  return (request as { readonly originalUrl?: string }).originalUrl ?? request.url ?? '';
}

/** Of a target, without a query. */
export function pathOf(target: string): string {
  return target.replace(/[?#].*$/s, '');
}

/** @param target - of the request, as it stands in its first line: a path with or without a query */
export function findRoute(target: string, models: ReadonlyMap<string, ModelDescription>): Route {
  const path = pathOf(target);
  const action = SERVER_ACTIONS.get(path);
  // `/v2/models/stats` is among these: the description of a model that has this name is at its version.
  if (action !== undefined) return { action };
  const [, name, control] = FOLDER_PATH.exec(path) ?? [];
  if (name !== undefined) return { action: control as FolderAction, name: decode(name) };
  const match = MODEL_PATH.exec(path);
  const modelAction = MODEL_ACTIONS.get(match?.[3] ?? '');
  if (match === null || modelAction === undefined)
    throw new Refusal(404, `there is nothing at ${describe(path)}`);
  return { action: modelAction, model: findModel(models, decode(match[1]!), match[2] && decode(match[2])) };
}

/** Whether a request only asks how the server is, as load balancers and Prometheus do again and again. */
export function isProbe(target: string): boolean {
  const path = pathOf(target);
  const action = SERVER_ACTIONS.get(path) ?? MODEL_ACTIONS.get(MODEL_PATH.exec(path)?.[3] ?? '');
  return action === 'live' || action === 'ready' || action === 'modelReady' || action === 'metrics';
}
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw invalid(`the path has ${describe(segment)} in it, which is not a valid percent-encoding`);
  }
}

function findModel(
  models: ReadonlyMap<string, ModelDescription>,
  name: string,
  version: string | undefined,
): ModelDescription {
  const model = models.get(name);
  if (model === undefined) {
    const there = models.size === 0 ? 'no model' : alternatives([...models.keys()]);
    throw new Refusal(404, `model ${describe(name)} is not served; there is ${there}`);
  }
  if (version === undefined || version === model.version) return model;
  throw new Refusal(404, `model '${name}' has no version ${describe(version)}; there is '${model.version}'`);
}

/** The methods that a route takes. */
export function allowedMethods({ action }: Route): readonly string[] {
  const { method } = ROUTES[action];
  return method === 'GET' ? ['GET', 'HEAD', 'OPTIONS'] : [method, 'OPTIONS'];
}
