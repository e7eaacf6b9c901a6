// A small service with Fastify: pictures are classified, tensors go through the model as JSON.
//
//     node examples/fastify.mjs [model.onnx]
//     curl localhost:8080/classify -H 'Content-Type: image/jpeg' --data-binary @examples/digits/eight.jpg
//     curl localhost:8080/predict -H 'Content-Type: application/json' \
//       -d '{"dims": [1, 1, 8, 8], "data": ['"$(printf '0, %.0s' $(seq 63))"'0]}'
//
// PORT (8080) and HOST (127.0.0.1; 0.0.0.0 lets other machines in) say where. warpconv/serve/fastify has more: batches,
// metrics, binary tensors. Needs Fastify and sharp: npm install fastify sharp
import Fastify from 'fastify';
import { Tensor } from 'warpconv';

import { openClassifier } from './shared/classifier.mjs';
import { refusal, statusOf, stop } from './shared/service.mjs';

/** Requests in work at once. Those beyond are told to come back, so that memory stays bounded. */
const MOST_AT_ONCE = 64;
/** From SIGTERM until nobody can connect: balancers look elsewhere, and clients hear that connections close. */
const LINGER_MS = 1000;

const TENSOR = {
  type: 'object',
  required: ['dims', 'data'],
  properties: {
    dims: { type: 'array', items: { type: 'integer' } },
    data: { type: 'array', items: { type: 'number' } },
  },
};

const classifier = await openClassifier(process.argv[2]).catch(stop);
const [input] = classifier.session.inputNames;
let isDraining = false;
let running = 0;

// While it closes, what was accepted is answered. A body that does not come leaves its place to others.
const app = Fastify({ return503OnClosing: false, bodyLimit: 2 ** 22, requestTimeout: 30_000 });
app.addContentTypeParser(/^image\//, { parseAs: 'buffer', bodyLimit: 2 ** 24 }, async (_, body) => body);
app.addHook('onSend', async (_, reply) => void (isDraining && reply.header('Connection', 'close')));
app.get('/health', (_, reply) => reply.code(isDraining ? 503 : 200).send());

app.register(async (models) => {
  // Fastify's own request.signal is aborted as soon as the body has been read.
  models.decorateRequest('leaving', null);
  models.addHook('onRequest', async (request, reply) => {
    if (running >= MOST_AT_ONCE) throw refusal(503, 'busy: try again');
    running += 1;
    // A client that goes away aborts its run.
    const controller = new AbortController();
    request.leaving = controller.signal;
    reply.raw.once('close', () => {
      running -= 1;
      controller.abort();
    });
  });

  models.post('/classify', ({ body, leaving: signal }) =>
    classifier.classify(body ?? Buffer.alloc(0), { signal }),
  );

  models.post('/predict', { schema: { body: TENSOR } }, async ({ body: { dims, data }, leaving: signal }) => {
    const feeds = { [input]: new Tensor('float32', Float32Array.from(data), dims) };
    const outputs = await classifier.session.run(feeds, { signal });
    const lists = Object.entries(outputs).map(([name, { dims, data }]) => [name, { dims, data: [...data] }]);
    return Object.fromEntries(lists);
  });
});

app.setErrorHandler((error, _, reply) => {
  const status = statusOf(error);
  if (status === 500) console.error(error);
  if (status === 503) reply.header('Retry-After', '1');
  return reply.code(status).send({ error: status === 500 ? 'it failed: see the log' : error.message });
});

const { PORT = '8080', HOST: host = '127.0.0.1' } = process.env;
await app.listen({ port: Number(PORT), host }).catch(stop);
const [{ port }] = app.addresses();
console.log(`http://${host}:${port} serves ${classifier.name} on ${classifier.device}`);

// Requests that were accepted are answered; then the process ends by itself.
function drain() {
  isDraining = true;
  setTimeout(() => app.close().then(() => classifier.release()), LINGER_MS);
}
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, drain);
