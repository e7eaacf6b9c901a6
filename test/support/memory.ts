/** Machines with other memory than this one. */
import fs from 'node:fs';
import os from 'node:os';

interface Machine {
  readonly total: number;
  readonly free: number;
  /** The most for the process's control group; default none */
  readonly limit?: number;
  /** What is left of the limit, the kernel's copies of files counted as used */
  readonly left?: number;
  /** The group's statistics, by their file */
  readonly files?: Readonly<Record<string, string>>;
  /** Default Linux */
  readonly platform?: NodeJS.Platform;
}

const platform = Object.getOwnPropertyDescriptor(process, 'platform')!;

/** Lets the package see that machine, until {@link restoreMachine}. */
export function pretendMachine(machine: Machine): void {
  const { total, free, limit = 2 ** 64, left = free, files = {} } = machine;
  Object.defineProperty(process, 'platform', { ...platform, value: machine.platform ?? 'linux' });
  jest.spyOn(os, 'totalmem').mockReturnValue(total);
  jest.spyOn(os, 'freemem').mockReturnValue(free);
  jest.spyOn(process, 'constrainedMemory').mockReturnValue(limit);
  jest.spyOn(process, 'availableMemory').mockReturnValue(left);
  const { readFileSync } = fs;
  jest.spyOn(fs, 'readFileSync').mockImplementation(((file: string, ...rest: []) => {
    if (!/^\/(proc|sys)\//.test(file)) return readFileSync(file, ...rest);
    if (file in files) return files[file];
    throw Object.assign(new Error(`no such file: ${file}`), { code: 'ENOENT' });
  }) as never);
}

/** The machine that the tests run on. Other mocks are undone, too. */
export function restoreMachine(): void {
  jest.restoreAllMocks();
  Object.defineProperty(process, 'platform', platform);
}
