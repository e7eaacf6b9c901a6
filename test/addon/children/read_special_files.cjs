// Reads the tuning cache and models where pipes and devices are in the place of files, and says what became of it. The
// process would not end if one of them held it up.
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const { InferenceSession } = require('../../../dist/index.js');
const { readFilePart } = require('../../../dist/model/onnx/files.js');
const { TuningCache } = require('../../../dist/conv2d/tuning_cache.js');

const folder = process.argv[2];
process.env.WARPCONV_CACHE_DIR = folder;
process.on('warning', () => {});

const makers = {
  pipe: (file) => execFileSync('mkfifo', [file]),
  device: (file) => fs.symlinkSync('/dev/zero', file),
  directory: (file) => fs.mkdirSync(file),
};

function recall(make) {
  const key = JSON.stringify({ number: 1 });
  const record = { measuredAt: '', measurements: [{ algorithm: 'direct', variant: '', milliseconds: 1 }] };
  new TuningCache().remember(key, record);
  const [file] = fs
    .readdirSync(path.join(folder, 'tuning-1'))
    .map((name) => path.join(folder, 'tuning-1', name));
  fs.rmSync(file, { recursive: true });
  make(file);
  const found = new TuningCache().recall(key);
  new TuningCache().remember(key, record);
  return `${found} ${fs.statSync(file).isFile()}`;
}

async function main() {
  for (const [kind, make] of Object.entries(makers)) {
    console.log(kind, 'in the cache:', recall(make));
    fs.rmSync(path.join(folder, 'tuning-1'), { recursive: true });
    const model = path.join(folder, `${kind}.onnx`);
    make(model);
    const load = InferenceSession.create(model, { device: 'cpu' });
    console.log(kind, 'as a model:', await load.catch(({ code }) => code));
    // Whatever was there when somebody looked.
    console.log(kind, 'instead of a file:', await readFilePart(model, 0, 1).catch(({ message }) => message));
  }
}

void main();
