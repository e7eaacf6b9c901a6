import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** An allocator whose allocations for warpconv.node can be made to fail: see failing_allocator.c. */
export interface FailingAllocator {
  readonly folder: string;
  /** Of a process that it is to serve */
  readonly env: NodeJS.ProcessEnv;
}

/** Builds it in a new folder, or says why this machine cannot. */
export function buildFailingAllocator(): FailingAllocator | string {
  const { glibcVersionRuntime } = (process.report.getReport() as { header: { glibcVersionRuntime?: string } })
    .header;
  if (glibcVersionRuntime === undefined) return 'needs glibc, whose malloc it stands in front of';
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-test-'));
  const library = path.join(folder, 'failing_allocator.node');
  const headers = path.join(path.dirname(require.resolve('node-api-headers/package.json')), 'include');
  const source = path.join(__dirname, 'failing_allocator.c');
  try {
    // Unoptimised calls keep their return addresses.
    execFileSync('cc', ['-O1', '-shared', '-fPIC', '-I', headers, '-o', library, source], { stdio: 'pipe' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'needs a C compiler';
    throw error;
  }
  return { folder, env: { LD_PRELOAD: library, FAILING_ALLOCATOR: library } };
}
