/**
 * Measures every contender on every layer of the groups it is given, with one number of threads, and sends a message per
 * layer to the process that started it (bench/cpu/bench.ts), which has set the rivals' environment.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { Conv2d, setThreads, Tensor } from 'warpconv';

import { random, timeInTurns, verify, type Contender } from './contenders';
import { layersOf, planOptions, shapesOf, type Layer } from '../layers';
import { RIVALS } from '../rivals';
import { convModel } from '../rivals/onnx_model';

export interface MeasureRequest {
  readonly groups: readonly string[];
  readonly threads: number;
  readonly quick: boolean;
  /** Contenders to time, by the beginning of their names: all at once, interleaved */
  readonly contenders: readonly string[];
}

export interface MeasureBegin {
  readonly kind: 'begin';
  readonly peak: number | null;
  /** By library */
  readonly versions: Readonly<Record<string, string>>;
  readonly missing: string[];
}

export type MeasureMessage =
  MeasureBegin | { readonly kind: 'layer'; readonly layer: Layer; readonly ms: Record<string, number> };

interface NativeRivals {
  readonly Prepared: new (
    name: string,
    row: readonly number[],
    weight: Float32Array,
    threads: number,
  ) => {
    run(input: Float32Array, output: Float32Array): void;
  };
  fmaPeak(): number;
  versions(): Record<string, string>;
}

interface OrtTensor {
  readonly data: unknown;
}

/** What is used of onnxruntime-node, which is not among this package's dependencies. */
interface OnnxRuntime {
  readonly Tensor: new (type: string, data: Float32Array, dims: number[]) => OrtTensor;
  readonly InferenceSession: {
    create(
      model: Uint8Array,
      options: object,
    ): Promise<{
      run(
        feeds: Record<string, OrtTensor>,
        fetches?: Record<string, OrtTensor>,
      ): Promise<Record<string, OrtTensor>>;
      release(): Promise<void>;
    }>;
  };
}

const NATIVE_RIVALS = ['im2col+OpenBLAS', 'oneDNN'];

function loadOptional<T>(what: string, missing: string[]): T | undefined {
  try {
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- found at run time or not at all
    return require(path.join(RIVALS, what)) as T;
  } catch (error) {
    missing.push(`${what}: ${(error as Error).message.split('\n')[0]}`);
    return undefined;
  }
}

function versionOfPackage(name: string): string {
  const manifest = path.join(RIVALS, 'node_modules', name, 'package.json');
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
}

class Arena {
  readonly missing: string[] = [];
  readonly native = loadOptional<NativeRivals>('build/Release/rivals.node', this.missing);
  readonly ort = loadOptional<OnnxRuntime>('node_modules/onnxruntime-node', this.missing);

  constructor(
    private readonly threads: number,
    private readonly wanted: readonly string[],
  ) {}

  versions(): Record<string, string> {
    const versions = this.native?.versions() ?? {};
    if (this.ort === undefined) return versions;
    return { ...versions, 'onnxruntime-node': versionOfPackage('onnxruntime-node') };
  }

  private wants(name: string): boolean {
    return this.wanted.some((beginning) => name.startsWith(beginning));
  }

  async contenders({ row }: Layer): Promise<Contender[]> {
    const { inputDims, weightDims } = shapesOf(row);
    const [input, weight] = [random(inputDims), random(weightDims)];
    return [
      ...(await this.ours(row, input, weight)),
      ...NATIVE_RIVALS.flatMap((name) => this.nativeRival(name, row, input, weight)),
      ...(await this.onnxRuntime(row, input, weight)),
    ];
  }

  private async ours(
    row: readonly number[],
    input: Float32Array,
    weight: Float32Array,
  ): Promise<Contender[]> {
    const { inputDims, weightDims } = shapesOf(row);
    const plan = await Conv2d.create(new Tensor('float32', weight, weightDims), {
      ...planOptions(row),
      device: 'cpu',
    });
    const image = new Tensor('float32', input, inputDims);
    const into = plan.runSync(image);
    let last = into;
    return [
      {
        name: 'warpconv',
        run: () => plan.runSync(image, { output: into }),
        output: () => into.data,
        release: () => undefined,
      },
      {
        name: 'warpconv run()',
        run: async () => (last = await plan.run(image)),
        output: () => last.data,
        release: () => undefined,
      },
      {
        name: 'warpconv run(), own output',
        run: () => plan.run(image, { output: into }),
        output: () => into.data,
        release: () => plan.dispose(),
      },
    ];
  }

  private nativeRival(
    name: string,
    row: readonly number[],
    input: Float32Array,
    weight: Float32Array,
  ): Contender[] {
    if (this.native === undefined || !this.wants(name)) return [];
    try {
      const rival = new this.native.Prepared(name, row, weight, this.threads);
      const output = random(shapesOf(row).outputDims);
      return [{ name, run: () => rival.run(input, output), output: () => output, release: () => undefined }];
    } catch (error) {
      const complaint = (error as Error).message;
      if (!this.missing.includes(complaint)) this.missing.push(complaint);
      return [];
    }
  }

  private async onnxRuntime(
    row: readonly number[],
    input: Float32Array,
    weight: Float32Array,
  ): Promise<Contender[]> {
    if (this.ort === undefined || !this.wants('onnxruntime-node')) return [];
    const shapes = shapesOf(row);
    const [, , , , , , sh, sw, ph, pw, dh, dw, groups] = row;
    const pads = [ph!, pw!, ph!, pw!];
    const node = { ...shapes, strides: [sh!, sw!], pads, dilations: [dh!, dw!], group: groups! };
    const session = await this.ort.InferenceSession.create(convModel(node, weight), {
      intraOpNumThreads: this.threads,
      interOpNumThreads: 1,
      graphOptimizationLevel: 'all',
    });
    const feeds = { x: new this.ort.Tensor('float32', input, [...shapes.inputDims]) };
    let last: OrtTensor | undefined;
    const into = new this.ort.Tensor('float32', random(shapes.outputDims), [...shapes.outputDims]);
    return [
      {
        name: 'onnxruntime-node',
        run: async () => (last = (await session.run(feeds)).y),
        output: () => last!.data as Float32Array,
        release: () => undefined,
      },
      {
        name: 'onnxruntime-node, own output',
        run: () => session.run(feeds, { y: into }),
        output: () => into.data as Float32Array,
        release: () => session.release(),
      },
    ];
  }
}

async function main(request: MeasureRequest): Promise<void> {
  const { groups, threads, quick } = request;
  const send = (message: MeasureMessage) => process.send!(message);
  setThreads(threads);
  const arena = new Arena(threads, request.contenders);
  const timed = ({ name }: Contender) => request.contenders.some((beginning) => name.startsWith(beginning));
  const layers = layersOf(groups, quick);
  (await arena.contenders(layers[0]!)).forEach(({ release }) => release());
  send({
    kind: 'begin',
    peak: arena.native?.fmaPeak() ?? null,
    versions: arena.versions(),
    missing: arena.missing,
  });
  const pace = quick ? { rounds: 3, turn: 1 } : { rounds: 9, turn: 3 };
  for (const layer of layers) {
    const contenders = await arena.contenders(layer);
    await verify(contenders, layer);
    send({ kind: 'layer', layer, ms: await timeInTurns(contenders.filter(timed), pace) });
    contenders.forEach(({ release }) => release());
  }
  process.disconnect();
}

// It ends with the bench, however that ends.
process.once('disconnect', () => process.exit());
process.once('message', (request: MeasureRequest) => {
  void main(request);
});
