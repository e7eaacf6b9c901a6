// Serves an ONNX file over HTTP, on all GPUs or else the CPU, until Ctrl+C or SIGTERM; docs/serving.md has the protocol.
// Run it with: node examples/serve.mjs model.onnx
import path from 'node:path';

import { serve } from 'warpconv/serve';

import { stop } from './shared/service.mjs';

const [file] = process.argv.slice(2);
if (file === undefined) stop(new Error('name an ONNX file: node examples/serve.mjs model.onnx'));
const { name } = path.parse(file);
const { url } = await serve({
  models: { [name]: file },
  port: Number(process.env.PORT ?? 8080),
  closeOn: ['SIGINT', 'SIGTERM'],
}).catch(stop);
console.log(`${url}/v2/models/${name}`);
