/**
 * The operator fuzzes by themselves, for hunting: in processes of their own, so that one that crashes or hangs is named
 * and the next case follows.
 *
 *     npx ts-node test/support/operator_fuzz/main.ts legal|changed SEED FIRST COUNT
 *
 * Under the address sanitizer, with an addon that is built for it (`cmake -S . -B build-tests/asan-addon/cmake
 * -DWARPCONV_SANITIZE=address -DCMAKE_JS_INC=… -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=…/build-tests/asan-addon/build/Release`):
 *
 *     WARPCONV_PREBUILD=build-tests/asan-addon LD_PRELOAD=$(gcc -print-file-name=libasan.so) \
 *       ASAN_OPTIONS=detect_leaks=0 npx ts-node test/support/operator_fuzz/main.ts changed 1 0 5000
 */
import { spawn } from 'node:child_process';
import { writeSync } from 'node:fs';

import { runDamaged, runLegal, Tally } from './fuzz';

const RUNS = { legal: runLegal, changed: runDamaged };
const PER_PROCESS = 1000;
/** How long a case may be silent: a process that hangs in native code cannot say so itself. */
const MOST_SECONDS = 60;

const STDERR = 2;

/** Runs cases one after the other; every line says what is about to run, or what was wrong with it. */
async function runHere(mode: keyof typeof RUNS, seed: number, first: number, end: number): Promise<void> {
  const tally = new Tally();
  for (let index = first; index < end; index++) {
    const { faults } = tally;
    const before = faults.length;
    tally.add(await RUNS[mode](seed, index, (text) => writeSync(STDERR, `@${text}\n`)));
    if (faults.length > before)
      console.log(`${faults.at(-1)!.id} ${faults.at(-1)!.reason}\n    ${faults.at(-1)!.text}`);
  }
  const kinds = ['computed', 'refused', 'skipped', 'fault'] as const;
  console.log(
    `${mode} ${seed}:${first}..${end - 1}: ${kinds.map((kind) => `${tally.total(kind)} ${kind}`).join(', ')}`,
  );
}

/** Runs cases in a process of their own. @returns where to go on */
async function runThere(mode: string, seed: number, first: number, end: number): Promise<number> {
  const args = [...process.execArgv, __filename, mode, ...[seed, first, end].map(String), 'here'];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'pipe'] });
  let [current, errors] = ['', ''];
  // Armed by the first case: loading is no part of it.
  let watch: NodeJS.Timeout | undefined;
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    clearTimeout(watch);
    watch = setTimeout(() => child.kill('SIGKILL'), MOST_SECONDS * 1000);
    for (const line of text.split('\n')) {
      if (line.startsWith('@')) [current, errors] = [line.slice(1), ''];
      else if (line !== '') errors += `${line}\n`;
    }
  });
  const [status, signal] = await new Promise<[number | null, string | null]>((resolve) =>
    child.on('close', (code, by) => resolve([code, by])),
  );
  clearTimeout(watch);
  if (status === 0) return end;
  console.log(`${current} ended the process (${signal ?? `status ${status}`})\n${errors}`);
  const index = Number(/^\d+:(\d+)/.exec(current)?.[1] ?? first);
  return index + 1;
}

async function main(): Promise<void> {
  const [mode, ...rest] = process.argv.slice(2) as [keyof typeof RUNS, ...string[]];
  const [seed, first, count] = rest.map(Number) as [number, number, number];
  if (rest[3] === 'here') return runHere(mode, seed, first, count);
  for (let index = first; index < first + count;) {
    index = await runThere(mode, seed, index, Math.min(index + PER_PROCESS, first + count));
  }
}

void main();
