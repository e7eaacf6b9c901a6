/** Tensors of halves: NHWC, on their own or as some channels of another. */
import type { TensorFormat } from '../../native_types';
import type { HalfType } from '../steps';
import type { Operand, Storage } from '../values';

/** Channels of which kernels read whole words of 16 bytes */
export const WORD = 8;

/**
 * Channels of a sector of a GPU's caches. A kernel that reads some channels of a tensor and writes others may leave what
 * lies between in a cache as it was before.
 */
export const SECTOR = 16;

const BYTES = 2;

interface Part {
  readonly of: HalfTensor;
  readonly pixel: number;
  readonly channel: number;
}

/**
 * Rows of features are images of one pixel, so that NHWC is their own order. Where a tensor lies is decided last: until
 * then it may become a part of what it is joined into.
 */
export class HalfTensor {
  #part: Part | undefined;
  #isPinned = false;
  #storage: Storage | undefined;

  private constructor(
    readonly n: number,
    readonly channels: number,
    readonly area: number,
    part: Part | undefined,
    /** Elements from one pixel to the next of a tensor on its own */
    private readonly ownPitch: number,
  ) {
    this.#part = part;
  }

  /** A new one, whose pixels begin at whole words. */
  static of(n: number, channels: number, area: number): HalfTensor {
    return new HalfTensor(n, channels, area, undefined, Math.ceil(channels / WORD) * WORD);
  }

  /** A new one of its dims, whose pixels begin at whole sectors: others may become some of its channels. */
  inSectors(): HalfTensor {
    return new HalfTensor(
      this.n,
      this.channels,
      this.area,
      undefined,
      Math.ceil(this.channels / SECTOR) * SECTOR,
    );
  }

  /** A new one without anything between its pixels, where it stays. */
  static packed(n: number, channels: number, area: number): HalfTensor {
    const tensor = new HalfTensor(n, channels, area, undefined, channels);
    tensor.#isPinned = true;
    return tensor;
  }

  /** Some of its pixels and channels, in the same memory. */
  part(pixel: number, channel: number, n: number, channels: number, area: number): HalfTensor {
    return new HalfTensor(n, channels, area, { of: this, pixel, channel }, this.ownPitch);
  }

  get pixels(): number {
    return this.n * this.area;
  }

  get size(): number {
    return this.pixels * this.channels;
  }

  is(n: number, channels: number, area: number): boolean {
    return this.n === n && this.channels === channels && this.area === area;
  }

  /** The tensor that it is a part of and that is none itself, and where it begins there. */
  get root(): Part {
    let [root, pixel, channel]: [HalfTensor, number, number] = [this, 0, 0];
    for (let part = root.#part; part !== undefined; part = root.#part) {
      pixel += part.pixel;
      channel += part.channel;
      root = part.of;
    }
    return { of: root, pixel, channel };
  }

  /** Whether its pixels begin at whole words. */
  get isAligned(): boolean {
    const { of, channel } = this.root;
    return channel % WORD === 0 && of.ownPitch % WORD === 0;
  }

  /** Keeps it where it is, if there is nothing between its pixels then. */
  pin(): boolean {
    const { of } = this.root;
    if (of.channels !== this.channels || of.ownPitch !== this.channels) return false;
    of.#isPinned = true;
    return true;
  }

  /** Whether it may still become a part of another tensor of as many pixels. */
  get isFree(): boolean {
    return this.#part === undefined && !this.#isPinned;
  }

  /** Makes it the channels of another tensor from one on. */
  join(of: HalfTensor, channel: number): void {
    this.#part = { of, pixel: 0, channel };
  }

  get pitch(): number {
    return this.root.of.ownPitch;
  }

  get operand(): Operand {
    const { of, pixel, channel } = this.root;
    of.#storage ??= { space: 'arena', bytes: of.pixels * of.ownPitch * BYTES };
    return { storage: of.#storage, offset: (pixel * of.ownPitch + channel) * BYTES };
  }

  /** As native code has it. */
  format(type: HalfType): TensorFormat {
    return { type, layout: 'nhwc', pitch: this.pitch === this.channels ? 0 : this.pitch };
  }
}
