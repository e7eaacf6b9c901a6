/** What the loader says where no binary loads: what it tried, and what helps. */
import { bundleFolders, isBundled, isExecutable } from './here';

/** A file, or a package, that did not load */
export interface Failure {
  readonly file: string;
  readonly message: string;
}

export interface Search {
  /** The directory of the package */
  readonly root: string;
  /** By `WARPCONV_PREBUILD` */
  readonly named: string | undefined;
  readonly failures: readonly Failure[];
  /** The packages that have binaries for this platform */
  readonly names: readonly string[];
  /** Those for other platforms that are installed */
  readonly others: readonly string[];
}

const PLATFORM = `${process.platform}-${process.arch}`;

const BUILD = 'build it: `npx warpconv build`, or with --cuda for GPUs (needs cmake and a C++20 compiler)';

/** What helps where the binary is of another version. */
const SAME_VERSION =
  'take the warpconv.node of the package that is installed: install warpconv again, beside a bundle copy the file again, ' +
  'and in a clone run `npm run build`';

/** What the loader says, and what helps. The first pattern that matches explains a failure. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/^it is of .* and this is warpconv /, SAME_VERSION],
  [
    /version [`'](GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found/,
    `the C or C++ library of this system is older than the binary's; use a newer distribution, or ${BUILD}`,
  ],
  [
    // glibc says of the file itself that it cannot be opened where it is for another processor.
    /wrong ELF class|invalid ELF header|not a valid Win32|incompatible architecture|mach-o|Exec format|^\S.*\.node: cannot open shared object file: No such file/i,
    `the file is not a binary for ${PLATFORM}: install the package on this machine rather than ` +
      `copying node_modules to it, or ${BUILD}`,
  ],
  [
    /musl|ld-linux|Error relocating|fcntl64/,
    `the binary is for the other C library (glibc or musl, as on Alpine): install the package on this system, set ` +
      `LIBC=glibc or LIBC=musl if it was misjudged, or ${BUILD}`,
  ],
  [/undefined symbol: (napi_|node_api_)/, 'the binary needs a newer Node.js: use 20.17 or later'],
  [
    /permission denied|failed to map segment/i,
    'the file may not be read, or lies where nothing may be executed (noexec): change that, or install the package elsewhere',
  ],
  [/cannot open shared object file/, 'install the library that the message names'],
  [
    /file too short|cannot read file data|self-register|Cannot find module/,
    `the package is damaged: install it again, or ${BUILD}`,
  ],
];

export function explain(search: Search): string {
  const { root, named, failures } = search;
  const places = named === undefined ? root : `${named}, which WARPCONV_PREBUILD names`;
  const target = `${PLATFORM}, Node.js ${process.version}`;
  if (failures.length === 0)
    return `there is no native binary of warpconv for ${target} in ${places}\nTo do: ${remedyForNone(search)}`;
  const tried = failures.map(({ file, message }) => `  ${file}\n    ${message}`);
  const remedies = [...new Set(failures.map(remedyFor))].map((remedy) => `To do: ${remedy}`);
  return [`the native binary of warpconv did not load on ${target}; tried:`, ...tried, ...remedies].join(
    '\n',
  );
}

function remedyFor({ message }: Failure): string {
  return REMEDIES.find(([pattern]) => pattern.test(message))?.[1] ?? BUILD;
}

/** What to do where no binary was found. */
function remedyForNone({ root, named, names, others }: Search): string {
  if (named !== undefined)
    return `name the folder of warpconv.node, or unset WARPCONV_PREBUILD; where the package has no binary, ${BUILD}`;
  if (isBundled(root)) return remedyForBundle(names);
  if (names.length === 0) return BUILD;
  const fitting = names.join(' or ');
  if (others.length > 0) {
    const copied = others.map((name) => name.replace('@warpconv/', '')).join(' and ');
    return (
      `node_modules was installed for ${copied}, and this is ${PLATFORM}: run npm ci here rather than copying ` +
      `node_modules, or install for both with --os=${process.platform} --cpu=${process.arch}, which bring ${fitting}`
    );
  }
  return (
    `npm installs ${fitting} beside warpconv, but not with --omit=optional, nor by a package-lock.json that was made on ` +
    `another platform: remove node_modules and package-lock.json and install again; or ${BUILD}`
  );
}

/** How a tool leaves the package out of a bundle. docs/bundlers.md explains each. */
const EXTERNAL = {
  esbuild: '--external:warpconv',
  webpack: "externals: { warpconv: 'node-commonjs warpconv' }",
  Rollup: "external: ['warpconv']",
  Vite: "ssr: { external: ['warpconv'] }",
  'Next.js': "serverExternalPackages: ['warpconv']",
  'bun build': '--external warpconv',
} as const;

/** Defined in what webpack and its relatives make. */
declare const __webpack_require__: unknown;

/** The tools that may have made this bundle. */
function tools(): (keyof typeof EXTERNAL)[] {
  if (process.env.NEXT_RUNTIME) return ['Next.js'];
  if (typeof __webpack_require__ === 'function') return ['webpack'];
  if (process.versions.bun) return ['bun build'];
  return ['esbuild', 'Rollup', 'Vite'];
}

function remedyForBundle(names: readonly string[]): string {
  const file = `node_modules/${names[0] ?? '@warpconv/<platform>'}/warpconv.node`;
  const lines = tools().map((tool) => `${tool}: ${EXTERNAL[tool]}`);
  return (
    `warpconv was bundled without its binary: copy ${file} into ${bundleFolders()[0]}` +
    (isExecutable()
      ? ''
      : `, or leave warpconv out of the bundle and install it where the bundle runs. ${lines.join('; ')}`)
  );
}
