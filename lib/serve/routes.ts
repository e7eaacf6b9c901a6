/** Which path means what. */
import { alternatives, describe, invalid } from '../check';
import type { ModelDescription } from './model';
import { Refusal } from './refusal';

export type Route =
  | { readonly action: 'server' | 'live' | 'ready' | 'metrics' }
  | { readonly action: 'model' | 'modelReady'; readonly model: ModelDescription }
  | { readonly action: 'infer'; readonly model: ModelDescription }
  /** Of one model, or of all */
  | { readonly action: 'stats'; readonly model: ModelDescription | undefined }
  /** Of the folder of models; whether it has one of the name is not known yet */
  | { readonly action: 'index' | 'load' | 'unload'; readonly name: string };

const SERVER_ACTIONS: ReadonlyMap<string, 'server' | 'live' | 'ready' | 'metrics'> = new Map([
  ['/v2', 'server'],
  ['/v2/health/live', 'live'],
  ['/v2/health/ready', 'ready'],
  ['/metrics', 'metrics'],
] as const);

const MODEL_ACTIONS: ReadonlyMap<string | undefined, 'model' | 'modelReady' | 'infer' | 'stats'> = new Map([
  [undefined, 'model'],
  ['ready', 'modelReady'],
  ['infer', 'infer'],
  ['stats', 'stats'],
] as const);

/** /v2/models/NAME[/versions/VERSION][/ACTION] */
const MODEL_PATH = /^\/v2\/models\/([^/]+)(?:\/versions\/([^/]+))?(?:\/([^/]+))?$/;

/** Actions on the folder of models */
const REPOSITORY_PATH = /^\/v2\/repository\/(?:(index)|models\/([^/]+)\/(load|unload))$/;

/** @param target - of the request, as it stands in its first line: a path with or without a query */
export function findRoute(target: string, models: ReadonlyMap<string, ModelDescription>): Route {
  const path = target.replace(/[?#].*$/s, '');
  const action = SERVER_ACTIONS.get(path);
  if (action !== undefined) return { action };
  // Before models: the description of one that has this name is at its version.
  if (path === '/v2/models/stats') return { action: 'stats', model: undefined };
  const [, index, name, control] = REPOSITORY_PATH.exec(path) ?? [];
  if (index !== undefined) return { action: 'index', name: '' };
  if (name !== undefined) return { action: control as 'load' | 'unload', name: decode(name) };
  const match = MODEL_PATH.exec(path);
  const modelAction = MODEL_ACTIONS.get(match?.[3]);
  if (match === null || modelAction === undefined)
    throw new Refusal(404, `there is nothing at ${describe(path)}`);
  return { action: modelAction, model: findModel(models, decode(match[1]!), match[2] && decode(match[2])) };
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

const POSTED: ReadonlySet<Route['action']> = new Set(['infer', 'index', 'load', 'unload'] as const);

/** The methods that a route takes. */
export function allowedMethods({ action }: Route): readonly string[] {
  return POSTED.has(action) ? ['POST', 'OPTIONS'] : ['GET', 'HEAD', 'OPTIONS'];
}
