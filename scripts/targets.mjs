/** The platforms that a package with a binary is published for. lib/load.ts has their names, too. */

/**
 * @typedef {object} Target
 * @property {string} os - as npm calls it
 * @property {string} cpu - as npm calls it
 * @property {string} [libc] - as npm calls it, where there are several
 * @property {boolean} hasCuda - whether the binary has code for GPUs
 * @property {number} megabytes - that the package has at most, unpacked
 */

/** @type {Readonly<Record<string, Target>>} */
export const TARGETS = {
  'darwin-arm64': { os: 'darwin', cpu: 'arm64', hasCuda: false, megabytes: 8 },
  'darwin-x64': { os: 'darwin', cpu: 'x64', hasCuda: false, megabytes: 8 },
  'linux-arm64-gnu': { os: 'linux', cpu: 'arm64', libc: 'glibc', hasCuda: true, megabytes: 60 },
  'linux-arm64-musl': { os: 'linux', cpu: 'arm64', libc: 'musl', hasCuda: false, megabytes: 8 },
  'linux-x64-gnu': { os: 'linux', cpu: 'x64', libc: 'glibc', hasCuda: true, megabytes: 60 },
  'linux-x64-musl': { os: 'linux', cpu: 'x64', libc: 'musl', hasCuda: false, megabytes: 8 },
  'win32-x64': { os: 'win32', cpu: 'x64', hasCuda: false, megabytes: 8 },
};

/** That of the oldest systems that Node.js runs on; cmake/glibc_floor.cmake keeps binaries to it. */
export const OLDEST_GLIBC = '2.28';

/** The package of a target. */
export const packageName = (target) => `@warpconv/${target}`;
