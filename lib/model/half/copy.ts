/** Copies: transposes, slices, joined tensors. */
import type { CopyStep, FillStep } from '../steps';
import { sizeOf, type Operand, type Storage } from '../values';
import { areSameWays, waysThrough, type Region, type Ways } from './axes';
import { outputArea } from './convolution';
import { elementsOf, firstOf, type Halving } from './halving';
import { HalfTensor } from './tensor';

type Copy = CopyStep<Operand>;

/** How a copy is made in halves: from those that its input is, or by rounding that. */
interface Plan {
  readonly from: HalfTensor | undefined;
  /** What it writes, where those are channels of each pixel in their order */
  readonly part: HalfTensor | undefined;
  readonly ways: Ways;
}

/** A storage that several copies write, as halves. */
interface Joined {
  readonly tensor: HalfTensor;
  /** Whether nothing but the copies writes it, each channels of its own */
  readonly isOpen: boolean;
}

export class Copies {
  readonly #x: Halving;
  readonly #joined = new Map<Storage, Joined | undefined>();

  constructor(x: Halving) {
    this.#x = x;
  }

  copy(step: Copy): boolean {
    const { input, output } = step;
    if (step.bytes === 4 && this.#x.isWhole(output, sizeOf(step.extents))) return halveWhole(this.#x, step);
    const joined = this.#joinedOf(output.storage);
    if (joined === undefined) return false;
    const x = this.#x;
    const { from, part, ways } = planInto(x, step, joined.tensor) ?? planAfter(x, step, joined.tensor);
    if (from !== undefined) {
      const join = joined.isOpen && part ? { from: sourceOf(from, ways, part), into: part } : undefined;
      x.copy(ways, join);
    } else {
      const { n, channels, area } = part!;
      const rounded = HalfTensor.of(n, channels, area);
      x.requireFloats(input.storage);
      x.toHalves(input, rounded);
      x.copied(rounded, part!, joined.isOpen ? { from: rounded, into: part! } : undefined);
    }
    return true;
  }

  fill(step: FillStep<Operand>): boolean {
    const tensor = this.#joinedOf(step.output.storage)?.tensor;
    if (tensor === undefined) return false;
    this.#x.emit(() => ({ ...step, count: tensor.operand.storage.bytes / 4, output: tensor.operand }));
    return true;
  }

  /** Decided at the first of its writers. */
  #joinedOf(storage: Storage): Joined | undefined {
    if (!this.#joined.has(storage)) {
      const joined = join(this.#x, storage);
      this.#joined.set(storage, joined);
      if (joined !== undefined) this.#x.made(storage, joined.tensor);
    }
    return this.#joined.get(storage);
  }
}

/** A copy that is all that ever writes its storage. Where the elements stay in their order, it is the halves that are there. */
function halveWhole(x: Halving, step: Copy): boolean {
  const total = sizeOf(step.extents);
  let best: (Plan & { to: HalfTensor }) | undefined;
  for (const from of x.halvesOf(step.input.storage)) {
    for (const to of tensorsLike(from, total, step)) {
      const plan = planOf(step, from, to);
      if (plan === undefined) continue;
      if (plan.part !== undefined) {
        x.made(step.output.storage, sourceOf(from, plan.ways, to));
        const product = from.size === to.size ? x.products.get(step.input.storage) : undefined;
        if (product !== undefined) x.noteProduct(step.output.storage, product);
        return true;
      }
      if (best === undefined || (isAlongChannels(plan.ways) && !isAlongChannels(best.ways))) {
        best = { ...plan, to };
      }
    }
  }
  if (best === undefined) return false;
  x.copy(best.ways);
  x.made(step.output.storage, best.to);
  return true;
}

/** What the output of a copy may be: with the same pixels, with its axes turned, with other pixels or images. */
function* tensorsLike({ n, channels, area }: HalfTensor, total: number, step: Copy): Generator<HalfTensor> {
  const dims = [
    [n, total / (n * area), area],
    [n * area, total / (n * area), 1],
    [n, channels, total / (n * channels)],
    [total / (channels * area), channels, area],
  ];
  const along = step.inputStrides.indexOf(1);
  if (area === 1 && along >= 0) {
    const pixels = step.outputStrides[along]!;
    dims.push([total / (channels * pixels), channels, pixels]);
  }
  for (const extents of dims) {
    const [images, features, pixels] = extents as [number, number, number];
    if (extents.every((extent) => Number.isInteger(extent) && extent > 0)) {
      yield HalfTensor.of(images, features, pixels);
    }
  }
}

function planOf(step: Copy, from: HalfTensor, to: HalfTensor): Plan | undefined {
  const output: Region = { tensor: to, first: firstOf(step.output), strides: step.outputStrides };
  const input: Region = { tensor: from, first: firstOf(step.input), strides: step.inputStrides };
  const ways = waysThrough(step.extents, [output, input]);
  return ways && { from, part: partOf(ways), ways };
}

/** What ways that are the same in both tensors write: channels from one on, of all pixels. */
function partOf({ extents, ways }: Ways): HalfTensor | undefined {
  const [to, from] = ways as [Ways['ways'][number], Ways['ways'][number]];
  const { tensor } = to;
  const count = sizeOf(extents) / tensor!.pixels;
  if (!areSameWays(to, from) || to.pixel !== 0 || !Number.isInteger(count)) return undefined;
  const last = extents.reduce((sum, extent, axis) => sum + (extent - 1) * to.channels[axis]!, 0);
  const lastPixel = extents.reduce((sum, extent, axis) => sum + (extent - 1) * to.pixels[axis]!, 0);
  if (last !== count - 1 || lastPixel !== tensor!.pixels - 1) return undefined;
  return tensor!.part(0, to.channel, tensor!.n, count, tensor!.area);
}

/** Where the elements of a part are read. */
function sourceOf(from: HalfTensor, { ways }: Ways, { n, channels, area }: HalfTensor): HalfTensor {
  const { pixel, channel } = ways[1]!;
  return from.part(pixel, channel, n, channels, area);
}

/** Whether neighbours in the output are neighbours in the input. */
function isAlongChannels({ ways }: Ways): boolean {
  return ways.every(({ pixels, channels }) => channels.at(-1) === 1 && pixels.at(-1) === 0);
}

function join(x: Halving, storage: Storage): Joined | undefined {
  const copies: Copy[] = [];
  let isOpen = true;
  for (const index of x.writersOf(storage)) {
    const { step } = x.steps[index]!;
    if (step.kind === 'copy' && step.bytes === 4) copies.push(step);
    // Zeros are the same in halves.
    else if (step.kind === 'fill' && step.value === 0 && step.count === elementsOf(storage)) isOpen = false;
    else return undefined;
  }
  for (const step of copies) {
    for (const from of x.halvesOf(step.input.storage)) {
      for (const tensor of tensorsLike(from, elementsOf(storage), step)) {
        const plans = copies.map((copy) => planInto(x, copy, tensor) ?? planLater(x, copy, tensor));
        if (!plans.every((plan) => plan !== undefined)) continue;
        const isJoined = isOpen && areApart(plans, tensor);
        return { tensor: isJoined ? tensor.inSectors() : tensor, isOpen: isJoined };
      }
    }
  }
  return undefined;
}

/** That of a copy from what a convolution is still to make: halves of these dims, or float32 that is brought there. */
function planLater(x: Halving, step: Copy, tensor: HalfTensor): Plan | undefined {
  const dims = dimsOfConvolution(x, step);
  return dims && planOf(step, HalfTensor.of(...dims), tensor);
}

/** {@link planLater}, once it is made. */
function planAfter(x: Halving, step: Copy, tensor: HalfTensor): Plan {
  const { storage } = step.input;
  return planOf(step, x.bring({ storage, offset: 0 }, ...dimsOfConvolution(x, step)!), tensor)!;
}

function dimsOfConvolution(x: Halving, { input }: Copy): [number, number, number] | undefined {
  const [writer, ...others] = x.writersOf(input.storage);
  const step = writer === undefined ? undefined : x.steps[writer]!.step;
  if (step?.kind !== 'convolution' || others.length > 0) return undefined;
  const { convolution } = step;
  return [convolution.inputDims[0]!, convolution.weightDims[0]!, outputArea(convolution)];
}

function planInto(x: Halving, step: Copy, tensor: HalfTensor): Plan | undefined {
  let found: Plan | undefined;
  for (const from of x.halvesOf(step.input.storage)) {
    const plan = planOf(step, from, tensor);
    if (plan?.part !== undefined) return plan;
    found ??= plan;
  }
  if (found !== undefined || isLater(x, step)) return found;
  // Whole maps of float32, as they follow each other, may be rounded into the channels where they go.
  const channels = sizeOf(step.extents) / tensor.pixels;
  if (!Number.isInteger(channels)) return undefined;
  const like = HalfTensor.of(tensor.n, channels, tensor.area);
  const input: Copy = { ...step, input: { ...step.input, offset: 0 } };
  const plan = planOf(input, like, tensor);
  return plan?.part === undefined ? undefined : { ...plan, from: undefined };
}

/** Whether what a copy reads is still to be made. */
function isLater(x: Halving, { input, output }: Copy): boolean {
  const [first] = x.writersOf(output.storage);
  return (
    x.writersOf(input.storage).some((index) => index >= first!) && x.halvesOf(input.storage).length === 0
  );
}

/** Whether each is all pixels of some channels, and these follow each other. */
function areApart(plans: readonly Plan[], { channels }: HalfTensor): boolean {
  const parts = plans.map(({ part }) => part);
  if (!parts.every((part) => part !== undefined)) return false;
  let end = 0;
  for (const part of parts.sort((a, b) => a.root.channel - b.root.channel)) {
    if (part.root.channel !== end) return false;
    end += part.channels;
  }
  return end === channels;
}
