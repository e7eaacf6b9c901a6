// node rollup.mjs OUT [EXTERNAL ...]: the program of this folder, as CommonJS and as an ES module
import commonjs from '@rollup/plugin-commonjs';
import json from '@rollup/plugin-json';
import { nodeResolve } from '@rollup/plugin-node-resolve';
import path from 'node:path';
import { rollup } from 'rollup';

const [out, ...external] = process.argv.slice(2);
const complaints = [];
const bundle = await rollup({
  input: 'app.mjs',
  external,
  plugins: [nodeResolve({ preferBuiltins: true }), commonjs(), json()],
  onLog: (level, { message }) => complaints.push(`${level}: ${message}`),
});
await bundle.write({ file: path.join(out, 'cjs/app.cjs'), format: 'cjs' });
await bundle.write({ file: path.join(out, 'esm/app.mjs'), format: 'es' });
if (complaints.length > 0) throw new Error(complaints.join('\n'));
