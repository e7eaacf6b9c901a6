// node pkg.mjs OUT: the program that package.json names, with this Node.js, where pkg would download one
import pkg from '@yao-pkg/pkg';
import { createRequire } from 'node:module';

const sea = createRequire(import.meta.url)('@yao-pkg/pkg/lib-es5/sea.js');
const { seaEnhanced } = sea;
sea.seaEnhanced = (entry, options) => seaEnhanced(entry, { ...options, useLocalNode: true });

await pkg.exec([
  '--sea',
  '--targets',
  `node${process.versions.node.split('.')[0]}`,
  '--output',
  process.argv[2],
  '.',
]);
