/**
 * What a session pays for input dims that it sees for the first time: ResNet-50 with one to twelve images. For each number
 * of images the first run from end to end, the runs after it, how long the event loop was kept waiting, and the memory of the
 * device after it; and what the session holds at last over what a session of the largest number alone holds.
 *
 *     npm run build && npx ts-node bench/networks/new_shapes.ts [--device cuda] [--batch 1,2,3,4,5,6,7,8,9,10,11,12]
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';

import { describeMachine } from '../machine';
import { readBatch } from '../options';
import { resNet50 } from './resnet50';

/** Of one number of images; milliseconds and megabytes. */
interface ShapeFigures {
  readonly images: number;
  readonly first: number;
  readonly second: number;
  readonly later: number;
  /** The longest that the event loop waited during the first run */
  readonly gap: number;
  readonly megabytes: number;
}

interface Figures {
  readonly shapes: readonly ShapeFigures[];
  /** Megabytes of a session of the largest number of images alone, after as many runs */
  readonly alone: number;
}

const HEADINGS = ['images', 'first run ms', 'second', 'later', 'event loop ms', 'memory MB'];

function render({ shapes, alone }: Figures): string {
  const rows = shapes.map(({ images, first, second, later, gap, megabytes }) => [
    String(images),
    ...[first, second, later, gap].map((milliseconds) => milliseconds.toFixed(2)),
    megabytes.toFixed(1),
  ]);
  const lines = [HEADINGS, HEADINGS.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  const held = shapes.at(-1)!.megabytes;
  const most = Math.max(...shapes.map(({ images }) => images));
  lines.push(
    '',
    `${held.toFixed(1)} MB at last, ${most} images alone ${alone.toFixed(1)} MB: ${(held / alone).toFixed(2)} times`,
  );
  return lines.join('\n');
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      device: { type: 'string', default: 'cpu' },
      batch: { type: 'string', default: '1,2,3,4,5,6,7,8,9,10,11,12' },
    },
  });
  const images = values.batch.split(',').map(readBatch);
  console.log(describeMachine());
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-new-shapes-'));
  try {
    const file = path.join(folder, 'resnet50.onnx');
    writeFileSync(file, resNet50());
    const program = path.join(__dirname, 'new_shapes_run.mjs');
    const request = JSON.stringify({ file, device: values.device, images });
    const { stdout } = await promisify(execFile)(process.execPath, [program, request]);
    console.log(render(JSON.parse(stdout) as Figures));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

void main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
