// node webpack.mjs webpack|rspack OUT [EXTERNALS]: the program of this folder, as CommonJS and as an ES module
import path from 'node:path';

const [name, out, externals = '{}'] = process.argv.slice(2);
const pack = name === 'rspack' ? (await import('@rspack/core')).rspack : (await import('webpack')).default;
const common = {
  mode: 'production',
  target: 'node',
  context: process.cwd(),
  externals: JSON.parse(externals),
};
const configurations = [
  { ...common, entry: './app.cjs', output: { path: path.join(out, 'cjs'), filename: 'app.cjs' } },
  {
    ...common,
    entry: './app.mjs',
    experiments: { outputModule: true },
    output: { path: path.join(out, 'esm'), filename: 'app.mjs', module: true, chunkFormat: 'module' },
  },
];
pack(configurations, (error, stats) => {
  if (error) throw error;
  const complaints = stats.stats.flatMap(({ compilation: { errors, warnings } }) => [...errors, ...warnings]);
  // It is an optional dependency of debug, which every program with debug is warned about.
  const own = complaints
    .map(({ message }) => message)
    .filter((message) => !message.includes("'supports-color'"));
  if (own.length > 0) throw new Error(own.join('\n'));
});
