/** Which pages of other origins may ask. */
import { createHandler, type HandlerOptions } from '../../lib/serve';
import { json, postJson, request, type Received, type Sent } from './support/client';
import { doublingRequest, doublingSession } from './support/fake_session';
import { closeAll, open, openThreaded } from './support/serving';

afterEach(closeAll);

const PAGE = 'https://app.example';
const INFER = '/v2/models/double/infer';
const models = { double: doublingSession() };

function ask(url: string, sent: Partial<Sent>, origin?: string): Promise<Received> {
  return request(url, {
    path: '/v2',
    ...sent,
    headers: { ...(origin && { Origin: origin }), ...sent.headers },
  });
}

function preflight(url: string, path: string, origin: string): Promise<Received> {
  const headers = {
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': 'content-type',
  };
  return ask(url, { method: 'OPTIONS', path, headers }, origin);
}

/** What a browser reads, the rest is not for it. */
function corsOf({ headers }: Received): Record<string, unknown> {
  const found = Object.entries(headers).filter(([name]) => /^access-control-|^vary$/.test(name));
  return Object.fromEntries(found);
}

const words = (header: unknown) => String(header).split(', ');

test('by default none', async () => {
  const { url } = await open({ models });
  expect(corsOf(await ask(url, {}, PAGE))).toEqual({});
  const asked = await preflight(url, INFER, PAGE);
  expect([asked.status, corsOf(asked)]).toEqual([200, {}]);
});

describe.each([
  ['one thread', open],
  ['threads', openThreaded],
])('%s', (_, start) => {
  test('all origins, without credentials', async () => {
    const { url } = await start({ models, cors: '*' });
    const allowed = {
      'access-control-allow-origin': '*',
      'access-control-expose-headers': expect.any(String),
    };
    const answers = [
      await ask(url, {}, PAGE),
      await ask(url, { path: '/nothing' }, PAGE),
      await ask(url, { path: INFER, body: '{' }, PAGE),
      await ask(url, { path: INFER, method: 'DELETE' }, PAGE),
      await ask(url, {}),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 400, 405, 200]);
    for (const received of answers) expect(corsOf(received)).toEqual(allowed);
    expect(words(answers[0]!.headers['access-control-expose-headers'])).toEqual(
      expect.arrayContaining(['Server-Timing', 'Inference-Header-Content-Length', 'Retry-After']),
    );
  });

  test('listed origins, with credentials; others are told nothing', async () => {
    const { url } = await start({ models, cors: ['http://localhost:3000', PAGE] });
    for (const path of ['/v2', '/nothing']) {
      expect(corsOf(await ask(url, { path }, PAGE))).toEqual({
        'access-control-allow-origin': PAGE,
        'access-control-allow-credentials': 'true',
        'access-control-expose-headers': expect.any(String),
        vary: 'Origin',
      });
      for (const origin of ['https://app.example.evil', 'http://app.example', 'null', `${PAGE}/`, undefined])
        expect(corsOf(await ask(url, { path }, origin))).toEqual({ vary: 'Origin' });
    }
  });

  test.each(['*', [PAGE]] as const)('a preflight, where %j may ask', async (cors) => {
    const { url } = await start({ models, cors });
    // What is wrong with a path is for the request that follows, whose answer the page can read.
    for (const path of [INFER, '/v2', '/nothing']) {
      const asked = await preflight(url, path, PAGE);
      expect([asked.status, asked.body.length]).toEqual([204, 0]);
      expect(asked.headers).not.toHaveProperty('content-length');
      const { headers } = asked;
      expect(headers['access-control-allow-origin']).toBe(cors === '*' ? '*' : PAGE);
      expect(headers['access-control-allow-credentials']).toBe(cors === '*' ? undefined : 'true');
      expect(words(headers['access-control-allow-methods'])).toContain('POST');
      expect(words(headers['access-control-allow-headers'])).toEqual(
        expect.arrayContaining([
          ...['Content-Type', 'Content-Encoding', 'Inference-Header-Content-Length'],
          ...['Request-Timeout-Ms', 'Priority', 'traceparent'],
        ]),
      );
      expect(Number(headers['access-control-max-age'])).toBeGreaterThan(0);
    }
    const stranger = await preflight(url, INFER, 'https://else.example');
    expect(stranger.status).toBe(204);
    if (cors !== '*') expect(corsOf(stranger)).toEqual({ vary: 'Origin' });
  });
});

test('OPTIONS that is no preflight tells the methods', async () => {
  const { url } = await open({ models, cors: [PAGE] });
  const asked = await ask(url, { method: 'OPTIONS', path: INFER }, PAGE);
  expect([asked.status, asked.headers.allow]).toEqual([200, 'POST, OPTIONS']);
  expect(asked.headers['access-control-allow-origin']).toBe(PAGE);
});

test('answers to inferences have them too, and their own headers', async () => {
  const { url } = await open({ models, cors: '*' });
  const received = await postJson(url, INFER, doublingRequest([[1, 2]]));
  expect(received.headers).toMatchObject({
    'access-control-allow-origin': '*',
    'server-timing': expect.stringMatching(/^queue;dur=/),
  });
  expect(json(received)).toMatchObject({ model_name: 'double' });
});

test.each<[unknown, string]>([
  ['https://app.example', `options.cors must be '*' or a list of origins, got 'https://app.example'`],
  [true, `options.cors must be '*' or a list of origins, got true`],
  [['*'], `options.cors[0] must be an origin as browsers send it, such as 'https://example.com', got '*'`],
  [[PAGE, `${PAGE}/`], 'options.cors[1] must be an origin'],
  [['https://App.example'], 'options.cors[0] must be an origin'],
  [['https://app.example:443'], 'options.cors[0] must be an origin'],
  [['http://app.example:80'], 'options.cors[0] must be an origin'],
  [['app.example'], 'options.cors[0] must be an origin'],
  [['null'], 'options.cors[0] must be an origin'],
  [[`${PAGE}\r\nX-Evil: 1`], 'options.cors[0] must be an origin'],
  [[7], 'options.cors[0] must be an origin'],
])('cors: %j is refused', (cors, message) => {
  expect(() => createHandler({ models, cors } as HandlerOptions)).toThrow(
    expect.objectContaining({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    }),
  );
});
