// A small service with Express: pictures are classified, tensors go through the model as JSON.
//
//     node examples/express.mjs [model.onnx]
//     curl localhost:8080/classify -H 'Content-Type: image/jpeg' --data-binary @examples/digits/eight.jpg
//     curl localhost:8080/predict -H 'Content-Type: application/json' \
//       -d '{"dims": [1, 1, 8, 8], "data": ['"$(printf '0, %.0s' $(seq 63))"'0]}'
//
// PORT (8080) and HOST (127.0.0.1; 0.0.0.0 lets other machines in) say where. warpconv/serve has more: batches, metrics,
// binary tensors. Needs Express and sharp: npm install express sharp
import express from 'express';
import { Tensor } from 'warpconv';

import { openClassifier } from './shared/classifier.mjs';
import { refusal, statusOf, stop } from './shared/service.mjs';

/** Requests in work at once. Those beyond are told to come back, so that memory stays bounded. */
const MOST_AT_ONCE = 64;
/** From SIGTERM until nobody can connect: balancers look elsewhere, and clients hear that connections close. */
const LINGER_MS = 1000;

const classifier = await openClassifier(process.argv[2]).catch(stop);
const [input] = classifier.session.inputNames;
let isDraining = false;
const running = new Set();

const app = express();
app.use((request, response, next) => {
  if (isDraining) response.set('Connection', 'close');
  next();
});
app.get('/health', (request, response) => response.sendStatus(isDraining ? 503 : 200));
app.use((request, response, next) => {
  if (running.size >= MOST_AT_ONCE) throw refusal(503, 'busy: try again');
  running.add(response);
  // A client that goes away aborts its run.
  const controller = new AbortController();
  response.locals.signal = controller.signal;
  response.once('close', () => {
    running.delete(response);
    controller.abort();
  });
  next();
});

app.post('/classify', express.raw({ type: '*/*', limit: 2 ** 24 }), async ({ body }, response) => {
  response.json(await classifier.classify(body ?? Buffer.alloc(0), { signal: response.locals.signal }));
});

app.post('/predict', express.json({ limit: 2 ** 22 }), async ({ body: { dims, data } = {} }, response) => {
  if (!Array.isArray(data) || !data.every(Number.isFinite))
    throw refusal(400, 'data: a list of numbers is needed');
  const feeds = { [input]: new Tensor('float32', Float32Array.from(data), dims) };
  const outputs = await classifier.session.run(feeds, { signal: response.locals.signal });
  const lists = Object.entries(outputs).map(([name, { dims, data }]) => [name, { dims, data: [...data] }]);
  response.json(Object.fromEntries(lists));
});

// Express knows handlers of errors by their four parameters.
app.use((error, request, response, next) => {
  if (response.headersSent || response.destroyed) return next(error);
  const status = statusOf(error);
  if (status === 500) console.error(error);
  if (status === 503) response.set('Retry-After', '1');
  response.status(status).json({ error: status === 500 ? 'it failed: see the log' : error.message });
});

const { PORT = '8080', HOST = '127.0.0.1' } = process.env;
const server = app.listen(Number(PORT), HOST, (error) => {
  if (error) stop(error);
  console.log(`http://${HOST}:${server.address().port} serves ${classifier.name} on ${classifier.device}`);
});
// A body that does not come leaves its place to others.
server.requestTimeout = 30_000;

// Requests that were accepted are answered; then the process ends by itself.
function drain() {
  isDraining = true;
  for (const response of running) if (!response.headersSent) response.set('Connection', 'close');
  setTimeout(() => server.close(() => classifier.release()), LINGER_MS);
}
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, drain);
