// Has images decoded where no process can be started, by what its argument does before.
'use strict';
const { openSync } = require('node:fs');
const { Cancellation } = require('../../../dist/serve/cancellation');
const { DecoderProcesses } = require('../../../dist/serve/decoders/processes');
const { loadSharp } = require('../../../dist/serve/decoders/sharp');

const plan = { height: 1, width: 2, resize: 'fill', isGrey: false };

async function main() {
  await loadSharp();
  new Function('openSync', process.argv[2])(openSync);
  const decoder = new DecoderProcesses(2);
  for (let image = 0; image < 3; image++) {
    const { status, message } = await decoder
      .decode(Buffer.alloc(8), plan, new Cancellation())
      .catch((error) => error);
    process.stdout.write(`${status} ${message}\n`);
  }
}

void main();
