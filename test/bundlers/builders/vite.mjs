// node vite.mjs OUT SSR-OPTIONS: the program of this folder, for a server
import { build } from 'vite';

const [out, ssr] = process.argv.slice(2);
await build({
  root: process.cwd(),
  logLevel: 'warn',
  ssr: JSON.parse(ssr),
  build: { ssr: 'app.mjs', outDir: out, emptyOutDir: true },
});
