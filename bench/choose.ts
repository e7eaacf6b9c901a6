/** Which of the two benches a command line means. */
import { parseArgs } from 'node:util';

export const USAGE = `npm run bench -- [options]

Measures the GPU where there is one and the CPU otherwise, checks every result first, and writes
bench/results/<device>-<date>.json with a report beside it.

  --device cpu|cuda|cuda:N   what to measure
  --quick                    fewer turns, and on the CPU fewer layers, for a first look; stored as <device>-<date>-quick
  --out FOLDER               instead of bench/results
  --report FILE              write the report of bench/results/NAME.json anew, and measure nothing
  --pictures FILE            draw what is in it, into bench/pictures
  --help

On a GPU, where --group, --layer and --batch may be given again for more:
  --group NAME    mec12, resnet, depthwise, pointwise or image, by which kernels were made; wide or networks, by which not
  --layer NAME    such as conv1 or res_56
  --batch N       images; unless given 1 and 128, of wide 1 and 8, of networks 4 and 16
  --precision P   tf32, fp16 or bf16 instead of fp32, for rivals, too; stored as <device>-<date>-<precision>
  --layout L      nchw or nhwc, of our tensors; unless given nhwc for fp16 and bf16, and nchw for fp32 and tf32
  --json          print the result instead of the report

The exit code is 1 where a layer fails, or regresses: against its newest thorough measurement in bench/results on the same
GPU its median is more than 10 % higher, and its lower quartile is above the upper quartile there. A layer that regressed is
held to the same again the next time, unless the file that is named is removed. Nothing is held to quick files.

On the CPU, where both may be given again for more; with either, the result is stored only where --out says so:
  --group NAME    sconv-393 or mobile
  --threads N     at most the processors that there are; 1 and 2 unless given
`;

export interface Choice {
  readonly bench: 'gpu' | 'cpu' | 'help';
  /** What is left for it */
  readonly args: readonly string[];
}

/**
 * @param hasGpu - asked only where the arguments do not decide
 * @param read - reads the file of `--report` or `--pictures`, which belongs to the bench that wrote it
 */
export function chooseBench(
  args: readonly string[],
  hasGpu: () => boolean,
  read: (file: string) => string,
): Choice {
  const { values, tokens } = parseArgs({
    args: [...args],
    options: {
      device: { type: 'string' },
      report: { type: 'string' },
      pictures: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
    strict: false,
    tokens: true,
  });
  const { device, report, pictures, help } = values;
  if (help !== undefined) return { bench: 'help', args };
  if (typeof report === 'string') return { bench: benchOf('report', report, read), args };
  if (typeof pictures === 'string') return { bench: benchOf('pictures', pictures, read), args };
  if (device === undefined) return { bench: hasGpu() ? 'gpu' : 'cpu', args };
  if (typeof device !== 'string' || !/^(cpu|cuda(:\d+)?)$/.test(device)) {
    throw new Error(`--device takes cpu, cuda or cuda:N, not '${device}'`);
  }
  if (device !== 'cpu') return { bench: 'gpu', args };
  const own = tokens.filter((token) => token.kind === 'option' && token.name === 'device');
  const taken = own.flatMap(({ index, ...token }) =>
    'inlineValue' in token && token.inlineValue ? [index] : [index, index + 1],
  );
  return { bench: 'cpu', args: args.filter((_, index) => !taken.includes(index)) };
}

/** What only one of the two takes. */
const OWN_OPTIONS = { gpu: ['layer', 'batch', 'precision', 'layout', 'json'], cpu: ['threads'] };
const FOUND = {
  gpu: 'as there is a GPU',
  cpu: 'as there is no usable GPU (npx warpconv doctor says why)',
};

/** @throws Error for an option that only the bench takes that was not chosen */
export function requireOwnOptions(bench: 'gpu' | 'cpu', args: readonly string[]): void {
  const { tokens } = parseArgs({ args: [...args], strict: false, tokens: true });
  const names = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []));
  const other = bench === 'cpu' ? 'gpu' : 'cpu';
  const foreign = names.find((name) => OWN_OPTIONS[other].includes(name));
  if (foreign === undefined) return;
  const decisive = ['report', 'pictures', 'device'].find((name) => names.includes(name));
  const why = decisive === undefined ? FOUND[bench] : `as --${decisive} says`;
  throw new Error(
    `--${foreign} is for the bench of the ${other.toUpperCase()}, but that of the ${bench.toUpperCase()} is meant, ` +
      `${why}; see npm run bench -- --help`,
  );
}

function benchOf(option: string, file: string, read: (file: string) => string): 'gpu' | 'cpu' {
  let stored: unknown;
  try {
    stored = JSON.parse(read(file));
  } catch (error) {
    throw new Error(
      `--${option} takes the JSON that a bench has stored: ${file}: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
  const kind = (['gpu', 'cpu'] as const).find((one) => Object.keys(stored ?? {}).includes(one));
  if (kind !== undefined) return kind;
  throw new Error(`--${option} takes the JSON that a bench has stored; ${file} has neither a gpu nor a cpu`);
}
