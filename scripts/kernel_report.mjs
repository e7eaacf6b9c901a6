/**
 * Writes what each kernel of build/Release/warpconv.node uses to bench/results/kernels-sm<N>.md, one file for each
 * architecture in it. Ends with code 1 where a kernel has a stack or local memory, and with 2 where nothing can be read.
 *
 *     node scripts/kernel_report.mjs [binary]
 */
import { writeFileSync } from 'node:fs';
import path from 'node:path';

import { codeSizes, complaints, cuobjdump, readKernels } from './kernels.mjs';
import { ROOT } from './root.mjs';

const RESULTS = path.join(ROOT, 'bench/results');

/** The values of a key in the order in which they come. */
const distinct = (kernels, key) => [...new Set(kernels.map((kernel) => kernel[key]))];

function range(numbers) {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  return least === most ? `${least}` : `${least} to ${most}`;
}

function table(headings, rows) {
  return [headings, headings.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}

function render(architecture, kernels, bytes) {
  const families = distinct(kernels, 'family').map((family) => ({
    family,
    members: kernels.filter((kernel) => kernel.family === family),
  }));
  const amounts = ['registers', 'shared', 'stack', 'local'];
  return [
    `# Kernels for ${architecture}`,
    '',
    'What the compiler gave each kernel, read from the built binary by `node scripts/kernel_report.mjs`: registers of a',
    'thread, bytes of static shared memory of a block (with the 1024 that the system takes from sm_80 on), and bytes of',
    'stack (spilled registers, arrays indexed by variables) and of local memory of a thread.',
    `${kernels.length} kernels, ${(bytes / 1e6).toFixed(1)} MB of code before compression.`,
    '',
    ...table(
      ['family', 'kernels', ...amounts],
      families.map(({ family, members }) => [
        family,
        members.length,
        ...amounts.map((amount) => range(members.map((kernel) => kernel[amount]))),
      ]),
    ),
    ...families.flatMap(({ family, members }) => [
      '',
      `## ${family}`,
      '',
      ...table(
        ['kernel', ...amounts],
        members.map((kernel) => [`\`${kernel.name}\``, ...amounts.map((amount) => kernel[amount])]),
      ),
    ]),
    '',
  ].join('\n');
}

function report(binary) {
  const tool = cuobjdump();
  if (tool === undefined) return fail(2, 'there is no cuobjdump: put that of the CUDA toolkit on the PATH');
  const kernels = readKernels(tool, binary);
  if (kernels.length === 0) return fail(2, `${binary} has no code for GPUs: build it with nvcc on the PATH`);
  const sizes = codeSizes(tool, binary);
  for (const architecture of distinct(kernels, 'architecture')) {
    const file = path.join(RESULTS, `kernels-${architecture.replace('_', '')}.md`);
    const members = kernels.filter((kernel) => kernel.architecture === architecture);
    writeFileSync(file, render(architecture, members, sizes[architecture]));
    console.log(path.relative(ROOT, file));
  }
  const wrong = complaints(kernels);
  if (wrong.length > 0) fail(1, wrong.join('\n'));
}

function fail(code, message) {
  console.error(message);
  process.exitCode = code;
}

report(process.argv[2] ?? path.join(ROOT, 'build/Release/warpconv.node'));
