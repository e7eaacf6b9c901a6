/** Answers to requests, apart from how they are sent. */
import type { Refusal } from './refusal';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The parts of the body, one after the other. */
  readonly body: readonly Uint8Array[];
}

export function answer(
  status: number,
  body: readonly Uint8Array[],
  headers: Readonly<Record<string, string>>,
): Answer {
  const length = body.reduce((sum, part) => sum + part.byteLength, 0);
  return { status, body, headers: { 'Content-Length': String(length), ...headers } };
}

export function jsonAnswer(
  status: number,
  value: object,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const text = Buffer.from(JSON.stringify(value));
  return answer(status, [text], { 'Content-Type': 'application/json', ...headers });
}

export function refuse({ status, message, headers }: Refusal): Answer {
  return jsonAnswer(status, { error: message }, headers);
}
