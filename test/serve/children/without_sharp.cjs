// Serves a network that takes images, on as many threads as an argument says, where sharp is not installed: to be started
// with without_sharp.mjs imported, which hides it. Prints the answer to a PNG file and to bytes.
'use strict';
const { serve } = require('../../../dist/serve');

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==',
  'base64',
);

const logger = { error: ({ err }) => console.error(err) };

async function main() {
  const [threads, file] = process.argv.slice(2);
  const models = { m: { file, sessionOptions: { device: 'cpu' }, image: { scale: 1 } } };
  const { url, close } = await serve({ port: 0, threads: Number(threads), models, logger });
  const ask = async (type, body) => {
    const answer = await fetch(`${url}/v2/models/m/infer`, {
      ...{ method: 'POST', headers: { 'Content-Type': type }, body },
    });
    process.stdout.write(`${answer.status} ${await answer.text()}\n`);
  };
  const inputs = [{ name: 'x', datatype: 'UINT8', shape: [1, 1, 1, 1], data: [7] }];
  await ask('image/png', png);
  await ask('image/png', png);
  await ask('application/json', JSON.stringify({ inputs }));
  await close();
}

void main();
