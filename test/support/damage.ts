/** Damaged ONNX files, as disks, networks and wrong programs make them. */
import { fromBinary, toBinary } from '@bufbuild/protobuf';

import { ModelProtoSchema, type ModelProto } from '../../lib/model/onnx/onnx_pb';
import type { Random } from './random';

/** Values that break assumptions about lengths, counts and signs. */
const NASTY = [0, 1, 0x7f, 0x80, 0xff];

/** A damaged copy of a file; `donors` give pieces to it. */
export function damage(original: Uint8Array, random: Random, donors: readonly Uint8Array[]): Uint8Array {
  return random.chance(0.5) ? damageBytes(original, random, donors) : damageMessage(original, random, donors);
}

function repeatedly(random: Random, step: () => void): void {
  for (let round = random.integer(1, random.chance(0.5) ? 1 : 6); round > 0; round--) step();
}

/** The damage of disks and networks, which seldom leaves a message. */
function damageBytes(original: Uint8Array, random: Random, donors: readonly Uint8Array[]): Uint8Array {
  let bytes = Buffer.from(original);
  repeatedly(random, () => (bytes = damageOnce(bytes, random, donors)));
  return bytes;
}

function damageOnce(
  bytes: Buffer<ArrayBuffer>,
  random: Random,
  donors: readonly Uint8Array[],
): Buffer<ArrayBuffer> {
  const at = random.integer(0, Math.max(bytes.length - 1, 0));
  const length = random.integer(1, 16);
  const [before, part, after] = [
    bytes.subarray(0, at),
    bytes.subarray(at, at + length),
    bytes.subarray(at + length),
  ];
  switch (random.integer(0, 7)) {
    case 0:
      bytes[at]! ^= 1 << random.integer(0, 7);
      return bytes;
    case 1:
    case 2:
      bytes[at] = random.chance(0.5) ? random.pick(NASTY) : random.integer(0, 255);
      return bytes;
    case 3:
      return bytes.subarray(0, at);
    case 4:
      return Buffer.concat([before, after]);
    case 5:
      return Buffer.concat([before, part, part, after]);
    case 6: {
      const other = random.pick(donors);
      const from = random.integer(0, other.length - 1);
      return Buffer.concat([before, other.subarray(from, from + 4 * length), after]);
    }
    default:
      return Buffer.concat([before, Buffer.alloc(random.integer(1, 9), 0xff), Buffer.of(0x7f), part, after]);
  }
}

/** The damage of a program that writes models wrongly: a message like any other. */
function damageMessage(original: Uint8Array, random: Random, donors: readonly Uint8Array[]): Uint8Array {
  const model = fromBinary(ModelProtoSchema, original);
  repeatedly(random, () => {
    const [holder, key] = random.pick(slotsOf(model));
    holder[key] = damagedValue(holder[key], random, model, donors);
  });
  return toBinary(ModelProtoSchema, model);
}

type Slot = readonly [holder: Record<string, unknown>, key: string];

/** Every place in a message that holds a value. */
function slotsOf(message: unknown): Slot[] {
  if (typeof message !== 'object' || message === null || ArrayBuffer.isView(message)) return [];
  const holder = message as Record<string, unknown>;
  const keys = Object.keys(holder).filter((key) => key !== '$typeName' && key !== 'case');
  return keys.flatMap((key) => [[holder, key] as const, ...slotsOf(holder[key])]);
}

function damagedValue(
  before: unknown,
  random: Random,
  model: ModelProto,
  donors: readonly Uint8Array[],
): unknown {
  if (typeof before === 'string') return random.chance(0.7) ? anyString(random, model) : '';
  if (typeof before === 'bigint') {
    const small = BigInt(random.integer(-3, 9));
    return random.chance(0.5) ? small : BigInt.asIntN(64, (1n << BigInt(random.integer(1, 64))) - small);
  }
  if (typeof before === 'number') return random.integer(-1, 30);
  if (ArrayBuffer.isView(before)) return damageBytes(before as Uint8Array, random, donors);
  if (!Array.isArray(before) || before.length === 0) return before;
  const list = [...(before as unknown[])];
  const at = random.integer(0, list.length - 1);
  if (random.chance(0.4)) return list.toSpliced(at, 1);
  if (random.chance(0.6)) return [...list, list[at]];
  return list.reverse();
}

function anyString(random: Random, model: ModelProto): string {
  const strings = slotsOf(model).flatMap(([holder, key]) => {
    const content = holder[key];
    return typeof content === 'string' ? [content] : [];
  });
  return random.pick(strings);
}
