/** Which of the two benches a command line means. */
import { parseArgs } from 'node:util';

export interface Choice {
  readonly bench: 'gpu' | 'cpu';
  /** What is left for it */
  readonly args: readonly string[];
}

/**
 * @param hasGpu - asked only where the arguments do not decide
 * @param read - reads the file of `--report`, which belongs to the bench that wrote it
 */
export function chooseBench(
  args: readonly string[],
  hasGpu: () => boolean,
  read: (file: string) => string,
): Choice {
  const { values, tokens } = parseArgs({
    args: [...args],
    options: { device: { type: 'string' }, report: { type: 'string' } },
    strict: false,
    tokens: true,
  });
  const { device, report } = values;
  if (typeof report === 'string') {
    const isGpu = 'gpu' in (JSON.parse(read(report)) as object);
    return { bench: isGpu ? 'gpu' : 'cpu', args };
  }
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
