/** How the binary is linked and compiled: what makes a fault of memory hard to exploit, and where it loads. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';

/** The glibc of the oldest systems that Node.js runs on: RHEL 8, Debian 10 */
const OLDEST_GLIBC = '2.28';
const BINARY = path.join(__dirname, '../../build/Release/warpconv.node');

/** What binutils say of the binary, or why they say nothing. */
function readelf(): { text: string } | { reason: string } {
  if (process.platform !== 'linux') return { reason: `${process.platform} has binaries of another format` };
  const { status, error, stdout, stderr } = spawnSync('readelf', ['-dlW', '--dyn-syms', BINARY], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  if (error) return { reason: 'there is no readelf: install binutils' };
  if (status !== 0) throw new Error(`readelf: ${stderr}`);
  return { text: stdout };
}

const said = readelf();

if ('reason' in said) {
  test.skip(`the binary is hardened (skipped: ${said.reason})`, () => undefined);
} else {
  const lines = said.text.split('\n');
  /** Functions of shared libraries that it calls, without their versions */
  const imports = lines.flatMap((line) => /\bUND (\w+)/.exec(line)?.[1] ?? []);

  test('its tables of addresses are read-only once it is loaded', () => {
    expect(said.text).toMatch(/\bBIND_NOW\b/);
    expect(said.text).toMatch(/\bGNU_RELRO\b/);
    expect(said.text).not.toMatch(/\bTEXTREL\b/);
  });

  test('its stack holds no code', () => {
    const stack = lines.filter((line) => line.includes('GNU_STACK'));
    expect(stack).toHaveLength(1);
    expect(stack[0]).toMatch(/ RW +0x/);
  });

  test('it looks for libraries in no folder of its own', () => {
    expect(said.text).not.toMatch(/\((RPATH|RUNPATH)\)/);
  });

  test(`it loads with glibc ${OLDEST_GLIBC}`, () => {
    const isNewer = (version: string) => version.localeCompare(OLDEST_GLIBC, 'en', { numeric: true }) > 0;
    const versions = [...said.text.matchAll(/\bUND (\S+@GLIBC_(\S+))/g)];
    expect(versions).not.toEqual([]);
    // Names that cmake/glibc_floor.cmake has to have, or native/portability/glibc_floor.cpp.
    expect(versions.filter(([, , version]) => isNewer(version!)).map(([, name]) => name)).toEqual([]);
  });

  test('it is compiled with stack protection and checked copies', () => {
    expect(imports).toContain('__stack_chk_fail');
    expect(imports.filter((name) => /^__\w+_chk$/.test(name))).not.toEqual([]);
  });
}
