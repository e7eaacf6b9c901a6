/**
 * Generates lib/model/onnx/onnx_pb.ts from onnx.proto, by protoc-gen-es of the same version as the runtime. Its result is
 * checked in, and the generators are fetched by npx when they are needed, because they take more room than all that
 * warpconv is developed with. They need Node.js 22.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { ROOT } from './root.mjs';
import { run } from './run.mjs';

const BUF = '1.75.0';
const FOLDER = 'lib/model/onnx';

const lock = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8'));
const { version } = lock.packages['node_modules/@bufbuild/protobuf'];
const template = {
  version: 'v2',
  plugins: [{ local: 'protoc-gen-es', out: FOLDER, opt: ['target=ts', 'import_extension=none'] }],
};

const { ok } = await run(
  'npx',
  [
    ...['--yes', '--package', `@bufbuild/buf@${BUF}`, '--package', `@bufbuild/protoc-gen-es@${version}`],
    ...['--', 'buf', 'generate', FOLDER, '--template', JSON.stringify(template)],
  ],
  { cwd: ROOT, echo: true },
);
process.exitCode = ok ? 0 : 1;
