/** Random networks that split, join and shuffle channels, of integers that halves have: any order of sums is exact. */
import { NetworkWriter } from './half_networks';
import type { Random } from './random';

/** No sum leaves the integers below 2^11: each activation ends at this. */
const MOST = 40;

export interface ShuffledNetwork {
  readonly model: Uint8Array;
  readonly dims: readonly number[];
}

export function shuffledNetwork(random: Random): ShuffledNetwork {
  return new ShuffledNetworkWriter(random).write();
}

interface Maps {
  readonly name: string;
  readonly channels: number;
}

class ShuffledNetworkWriter {
  readonly #x = new NetworkWriter();
  readonly #outputs: string[] = [];
  /** Nothing in it is in the way of doing without copies, but for unlucky numbers of channels */
  readonly #isPlain: boolean;
  readonly #n: number;
  #h: number;
  #w: number;

  constructor(private readonly random: Random) {
    this.#isPlain = random.chance(0.5);
    this.#n = random.integer(1, 3);
    [this.#h, this.#w] = [random.integer(1, 6), random.integer(2, 6)];
  }

  write(): ShuffledNetwork {
    const { random } = this;
    const dims = [this.#n, 3, this.#h, this.#w];
    let last = this.#unit({ name: 'x', channels: 3 }, random.integer(2, 40), random.pick([1, 3]));
    for (let stage = random.integer(1, 2); stage > 0; stage--) {
      for (let unit = random.integer(1, 4); unit > 0; unit--) last = this.#shuffled(last);
      if (random.chance(0.5)) last = this.#deep(last, random.integer(1, 2));
      if (random.chance(0.5)) last = this.#unit(last, random.integer(2, 40), random.pick([1, 1, 3]));
    }
    this.#outputs.push(last.name);
    return { dims, model: this.#x.model(dims, [...new Set(this.#outputs)]) };
  }

  /** Two parts of its channels, one of them through convolutions, joined and mostly shuffled. */
  #shuffled(input: Maps): Maps {
    const { random } = this;
    const [left, right] = random.chance(0.85)
      ? this.#split(input)
      : [this.#unit(input, input.channels, 1), input];
    let branch = right;
    if (random.chance(0.8)) branch = this.#unit(branch, random.integer(1, 32), random.pick([1, 1, 1, 3]));
    if (random.chance(0.7)) branch = this.#deep(branch, 1);
    const filters = random.chance(0.7) ? right.channels : random.integer(1, 32);
    branch = this.#unit(branch, filters, this.#isOdd(0.1) ? 3 : 1);
    const parts = random.chance(0.7) ? [left, branch] : [branch, left];
    if (this.#isOdd(0.1)) parts.push(random.pick([right, branch]));
    const joined = this.#x.concat(...parts.map(({ name }) => name));
    const channels = parts.reduce((sum, part) => sum + part.channels, 0);
    if (this.#isOdd(0.1)) this.#outputs.push(random.pick([joined, branch.name, right.name]));
    const groups = random.pick([2, 2, 2, 3, 4]);
    if (channels % groups !== 0 || random.chance(0.1)) return { name: joined, channels };
    const extents = this.#x.integers(this.#n, groups, channels / groups, this.#h, this.#w);
    const turned = this.#x.transpose(this.#x.add('Reshape', [joined, extents]), 0, 2, 1, 3, 4);
    const name = this.#x.add('Reshape', [turned, this.#x.integers(this.#n, channels, this.#h, this.#w)]);
    return { name, channels };
  }

  #isOdd(probability: number): boolean {
    return !this.#isPlain && this.random.chance(probability);
  }

  #split({ name, channels }: Maps): [Maps, Maps] {
    const first = this.random.chance(0.7) ? channels >> 1 : this.random.integer(1, channels - 1);
    const parts = this.#x.integers(first, channels - first);
    const left = this.#x.add('Split', [name, parts], { axis: 1 }, 2);
    return [
      { name: left, channels: first },
      { name: `${left}_1`, channels: channels - first },
    ];
  }

  #unit({ name, channels }: Maps, filters: number, window: number): Maps {
    const weight = this.#x.constant(
      [filters, channels, window, window],
      this.#sparse(filters, channels * window * window),
    );
    const made = this.#x.add('Conv', [name, weight, this.#biases(filters)], {
      pads: Array(4).fill(window >> 1),
    });
    return { name: this.#activated(made), channels: filters };
  }

  #deep({ name, channels }: Maps, stride: number): Maps {
    const weight = this.#x.constant([channels, 1, 3, 3], this.#sparse(channels, 9));
    const attributes = { pads: [1, 1, 1, 1], strides: [stride, stride], group: channels };
    const made = this.#x.add('Conv', [name, weight, this.#biases(channels)], attributes);
    [this.#h, this.#w] = [Math.ceil(this.#h / stride), Math.ceil(this.#w / stride)];
    return { name: this.random.chance(0.5) ? made : this.#activated(made), channels };
  }

  #activated(name: string): string {
    const bounds = [this.#isOdd(0.05) ? -MOST : 0, MOST];
    return this.#x.add('Clip', [name, ...bounds.map((bound) => this.#x.constant([], [bound]))]);
  }

  /** Up to three ones or minus ones a filter. */
  #sparse(filters: number, size: number): Float32Array {
    const weights = new Float32Array(filters * size);
    for (let k = 0; k < filters; k++) {
      for (let i = 0; i < 3; i++)
        weights[k * size + this.random.integer(0, size - 1)] = this.random.pick([1, 1, -1]);
    }
    return weights;
  }

  #biases(count: number): string {
    return this.#x.constant(
      [count],
      Array.from({ length: count }, () => this.random.integer(-2, 3)),
    );
  }
}
