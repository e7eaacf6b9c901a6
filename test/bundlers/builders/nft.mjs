// node nft.mjs OUT FILE ...: copies what the programs of this folder need
import { nodeFileTrace } from '@vercel/nft';
import { cpSync } from 'node:fs';
import path from 'node:path';

const [out, ...files] = process.argv.slice(2);
const { fileList } = await nodeFileTrace(files, { base: process.cwd() });
for (const file of fileList) cpSync(file, path.join(out, file), { verbatimSymlinks: true });
