/**
 * Requests that are about models, and not for one: their readiness, statistics and life. The thread of the models answers
 * them, whichever thread reads them.
 */
import type { IncomingMessage } from 'node:http';

import { describe, invalid, isObject } from '../check';
import { jsonAnswer, type Answer } from './answer';
import { readBody } from './body';
import { Cancellation } from './cancellation';
import { Deadline } from './deadline';
import { readEncoding } from './encodings';
import { HEAP, Holding, type MemoryBudget } from './memory';
import type { Queues } from './queues';
import { Refusal, refusalFor, reportIfOurs } from './refusal';
import type { BodyLimits } from './request';

/** Plain data, which can go to another thread. */
export type Question =
  | { readonly about: 'ready' }
  | { readonly about: 'index'; readonly onlyReady: boolean }
  /** Of one model, or of all */
  | { readonly about: 'statistics'; readonly name: string | undefined }
  | { readonly about: 'load' | 'unload'; readonly name: string };

/** An answer, as plain data. */
export interface Told {
  readonly status: number;
  /** What becomes its JSON */
  readonly value: object;
}

export type Ask = (question: Question) => Promise<Told>;

/** Answers questions in the thread of the models. Never rejects. */
export function administrationOf(queues: Queues): Ask {
  return async (question) => {
    try {
      return await tell(queues, question);
    } catch (error) {
      const refusal = refusalFor(error);
      reportIfOurs(queues.settings.logger, refusal, error);
      return { status: refusal.status, value: { error: refusal.message } };
    }
  };
}

async function tell(queues: Queues, question: Question): Promise<Told> {
  const { folder, models } = queues;
  switch (question.about) {
    case 'ready': {
      const ready = folder?.isReady ?? true;
      return { status: ready ? 200 : 503, value: { ready } };
    }
    case 'statistics': {
      const asked = [...models.values()].filter(({ name }) => (question.name ?? name) === name);
      return { status: 200, value: { model_stats: asked.map((one) => one.queue.statistics.describe(one)) } };
    }
    case 'index': {
      const fixed = [...queues.settings.models.values()].map(({ name, version }) => ({
        ...{ name, version, state: 'READY' },
      }));
      const index = [...fixed, ...((await folder?.index()) ?? [])];
      return { status: 200, value: index.filter(({ state }) => !question.onlyReady || state === 'READY') };
    }
    default:
      return { status: 200, value: await control(queues, question.about, question.name) };
  }
}

async function control({ folder }: Queues, action: 'load' | 'unload', name: string): Promise<object> {
  if (folder?.control !== 'explicit')
    throw new Refusal(403, `explicit model load / unload is not allowed; it needs control: 'explicit'`);
  try {
    await folder[action](name);
    return {};
  } catch (error) {
    // The log has it, where it is of interest there.
    throw new Refusal(400, (error as Error).message);
  }
}

/** What reading such a request takes */
interface Parts extends BodyLimits {
  readonly budget: MemoryBudget;
  readonly timeout: number;
}

/** Reads the body of a request that has something to say to the folder of models, which is optional. */
export async function readQuestion(
  action: 'index' | 'load' | 'unload',
  name: string,
  request: IncomingMessage,
  parts: Parts,
): Promise<Question> {
  if (action !== 'index') refuseForeignPages(request);
  const { ready, parameters } = await readObject(request, parts);
  if (action === 'index') return { about: 'index', onlyReady: readReady(ready) };
  refuseOverrides(parameters);
  return { about: action, name };
}

/** A page of another site can have a browser send such requests without asking, but not without saying so. */
function refuseForeignPages({ headers: { origin, host } }: IncomingMessage): void {
  if (origin === undefined || origin.replace(/^https?:\/\//, '') === host) return;
  throw new Refusal(403, `pages of ${describe(origin)} may not control models`);
}

function readReady(ready: unknown): boolean {
  if (ready === undefined || ready === null) return false;
  if (typeof ready === 'boolean') return ready;
  throw invalid(`'ready' must be true or false, got ${describe(ready)}`);
}

/** Those of Triton that change nothing here */
const IGNORED = ['unload_dependents'];

function refuseOverrides(parameters: unknown): void {
  if (parameters === undefined || parameters === null) return;
  if (!isObject(parameters) || Array.isArray(parameters))
    throw invalid(`'parameters' must be an object, got ${describe(parameters)}`);
  const refused = Object.keys(parameters).find((key) => !IGNORED.includes(key));
  if (refused === undefined) return;
  throw invalid(
    `the parameter ${describe(refused)} is not supported: models and their config.json come from the folder`,
  );
}

async function readObject(
  request: IncomingMessage,
  { maxBodyBytes, maxJsonBytes, budget, timeout }: Parts,
): Promise<Readonly<Record<string, unknown>>> {
  const cancellation = new Cancellation();
  const deadline = new Deadline(timeout, () => {
    cancellation.request(new Refusal(408, `the body of the request was not there after ${timeout} ms`));
  });
  const maxBytes = Math.min(maxBodyBytes, maxJsonBytes);
  const framing = {
    isImage: false,
    encoding: readEncoding(request.headers),
    headerLength: undefined,
    maxBytes,
  };
  const holding = new Holding(budget);
  try {
    const body = await readBody(request, framing, holding, HEAP, cancellation);
    return parseObject(body.toString());
  } finally {
    deadline.clear();
    holding.release();
  }
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  if (text.trim() === '') return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(`the body is not JSON: ${(error as Error).message}`);
  }
  if (isObject(value) && !Array.isArray(value)) return value as Readonly<Record<string, unknown>>;
  throw invalid(`the body must be a JSON object, got ${describe(value)}`);
}

/** @throws Refusal for an answer that is one */
export function toAnswer({ status, value }: Told): Answer {
  if ('error' in value) throw Object.assign(new Refusal(status, String(value.error)), { isReported: true });
  return jsonAnswer(status, value);
}
