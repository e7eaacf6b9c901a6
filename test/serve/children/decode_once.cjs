// Has another process decode an image, and ends by itself.
'use strict';
const { Cancellation } = require('../../../dist/serve/cancellation');
const { DecoderProcesses } = require('../../../dist/serve/decoders/processes');

const plan = { height: 1, width: 2, resize: 'fill', isGrey: false };

async function main() {
  const body = Buffer.from(process.argv[2], 'base64');
  const kept = setInterval(() => {}, 1000);
  const { data } = await new DecoderProcesses(1).decode(body, plan, new Cancellation());
  clearInterval(kept);
  process.stdout.write(`${[...data]}\n`);
}

void main();
