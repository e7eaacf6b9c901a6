/** The memory of requests that readers share: no two pieces of it overlap, and all of it comes back. */
import { Slabs, type SlabMemory } from '../../lib/serve/threads/slabs';
import { Random } from '../support/random';

/** What is due after so many milliseconds, called by {@link pass}. */
let timers: { readonly due: number; readonly call: () => void }[] = [];
let now = 0;

jest.mock('../../lib/serve/timers', () => ({
  ...jest.requireActual<object>('../../lib/serve/timers'),
  setTimeout: (call: () => void, milliseconds: number) => {
    timers.push({ due: now + milliseconds, call });
    return { unref: () => {} };
  },
}));

function pass(milliseconds: number): void {
  now += milliseconds;
  const due = timers.filter((timer) => timer.due <= now);
  timers = timers.filter((timer) => timer.due > now);
  for (const { call } of due) call();
}

beforeEach(() => {
  timers = [];
  now = 0;
});

const MIB = 2 ** 20;
const SLAB = 8 * MIB;
const IDLE = 30_000;
const LINE = 64;

/** Slabs, and what was said of them. */
function watched() {
  const [added, retired] = [new Map<number, SharedArrayBuffer>(), [] as number[]];
  const slabs = new Slabs({
    added: (id, memory) => void added.set(id, memory),
    retired: (id) => retired.push(id),
  });
  return { slabs, added, retired };
}

type Piece = ReturnType<Slabs['take']>;

/** Where a piece lies, for comparisons. */
const placeOf = ({ slab: { id }, start, end }: Piece) => ({ id, start, end });

describe('pieces', () => {
  test('begin at lines of the caches, are as long as asked for at least, and come from the first gap', () => {
    const { slabs } = watched();
    const sizes = [1, 64, 65, 0, 1000];
    const pieces = sizes.map((bytes) => slabs.take(bytes));
    expect(pieces.map(placeOf)).toEqual([
      { id: 0, start: 0, end: 64 },
      { id: 0, start: 64, end: 128 },
      { id: 0, start: 128, end: 256 },
      { id: 0, start: 256, end: 320 },
      { id: 0, start: 320, end: 1344 },
    ]);
    slabs.giveBack(pieces[2]!);
    // 192 bytes do not fit in the gap of 128.
    expect(placeOf(slabs.take(129))).toMatchObject({ start: 1344 });
    expect(placeOf(slabs.take(128))).toMatchObject({ start: 128, end: 256 });
  });

  test.each([
    ['in order', [0, 1, 2, 3]],
    ['backwards', [3, 2, 1, 0]],
    ['every other first', [1, 3, 0, 2]],
    ['the ends first', [0, 3, 1, 2]],
    ['the ends last', [1, 2, 3, 0]],
  ])('that come back %s are one piece again', (_, order) => {
    const { slabs, added } = watched();
    const pieces = Array.from({ length: 4 }, () => slabs.take(SLAB / 4));
    expect(pieces.map(({ start }) => start)).toEqual([0, 1, 2, 3].map((part) => (part * SLAB) / 4));
    order.forEach((index) => slabs.giveBack(pieces[index]!));
    expect(placeOf(slabs.take(SLAB))).toEqual({ id: 0, start: 0, end: SLAB });
    expect(added.size).toBe(1);
  });

  test('of a slab that is full come from another one, and then from the first again', () => {
    const { slabs, added } = watched();
    const all = slabs.take(SLAB);
    const other = slabs.take(1);
    expect([all.slab.id, other.slab.id]).toEqual([0, 1]);
    slabs.giveBack(all);
    expect(slabs.take(1).slab.id).toBe(0);
    expect([...added.keys()]).toEqual([0, 1]);
  });

  test.each([
    [SLAB, SLAB],
    [SLAB + 1, 2 * SLAB],
    [2 * SLAB, 2 * SLAB],
    [20 * MIB, 24 * MIB],
  ])('of %i bytes have a slab of %i', (bytes, expected) => {
    const { slabs, added } = watched();
    const { start, end } = slabs.take(bytes);
    expect([start, end]).toEqual([0, Math.ceil(bytes / LINE) * LINE]);
    expect(added.get(0)!.byteLength).toBe(expected);
    // What is left of it is used.
    if (end < expected) expect(placeOf(slabs.take(LINE))).toEqual({ id: 0, start: end, end: end + LINE });
    else expect(slabs.take(LINE).slab.id).toBe(1);
  });

  test('are found where a plain model finds them, never overlap, and leave nothing behind', () => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    process.stdout.write(`seed ${seed}\n`);
    const random = new Random(seed);
    for (let round = 0; round < 20; round++) {
      const { slabs, added } = watched();
      // Of each slab, which lines are taken.
      const lines = new Map<number, Uint8Array>();
      const linesOf = ({ id, memory }: Piece['slab']) => {
        if (!lines.has(id)) lines.set(id, new Uint8Array(memory.byteLength / LINE));
        return lines.get(id)!;
      };
      /** The first gap of so many lines; `undefined` where there is none. */
      const findGap = (count: number) => {
        for (const [id, taken] of lines) {
          for (let start = 0, at = 0; at < taken.length; at++) {
            if (taken[at] === 1) start = at + 1;
            else if (at + 1 - start === count) return { id, start: LINE * start };
          }
        }
        return undefined;
      };
      const largest = random.pick([300, 70_000, 3 * MIB, 10 * MIB]);
      const held: Piece[] = [];
      for (let step = 0; step < 150; step++) {
        if (held.length > 0 && random.chance(step < 100 ? 0.4 : 0.6)) {
          const [piece] = held.splice(random.integer(0, held.length - 1), 1);
          linesOf(piece!.slab).fill(0, piece!.start / LINE, piece!.end / LINE);
          slabs.giveBack(piece!);
          continue;
        }
        const bytes = random.integer(0, largest);
        const count = Math.max(1, Math.ceil(bytes / LINE));
        const gap = findGap(count);
        const before = added.size;
        const piece = slabs.take(bytes);
        expect(placeOf(piece)).toEqual({
          ...(gap ?? { id: before, start: 0 }),
          end: piece.start + LINE * count,
        });
        expect(added.size).toBe(gap === undefined ? before + 1 : before);
        const taken = linesOf(piece.slab);
        expect(taken.subarray(piece.start / LINE, piece.end / LINE).includes(1)).toBe(false);
        taken.fill(1, piece.start / LINE, piece.end / LINE);
        held.push(piece);
      }
      held.forEach((piece) => slabs.giveBack(piece));
      // Whole slabs can be had again, and no new one is made for them.
      const whole = [...added.values()].map(({ byteLength }) => byteLength).sort((a, b) => b - a);
      const again = whole.map((bytes) => slabs.take(bytes));
      expect(new Set(again.map(({ slab }) => slab.id)).size).toBe(whole.length);
      expect(added.size).toBe(whole.length);
    }
  });
});

describe('the memory of a request', () => {
  test.each(Array.from({ length: 17 }, (_, alignedAt) => alignedAt))(
    'has byte %i at a multiple of eight',
    (alignedAt) => {
      const { slabs, added } = watched();
      const memory = slabs.forRequest();
      for (const length of [1, 57, 64, 1000, 100_000]) {
        const body = memory.allocate(length, alignedAt);
        expect([body.length, (body.byteOffset + alignedAt) % 8]).toEqual([length, 0]);
        expect(body.buffer).toBe(added.get(0));
        body.fill(0xff);
      }
    },
  );

  test('keeps what is written into it, whatever is allocated beside it', () => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    process.stdout.write(`seed ${seed}\n`);
    const random = new Random(seed);
    const { slabs } = watched();
    const requests: { memory: SlabMemory; bodies: Buffer[]; mark: number }[] = [];
    for (let step = 0; step < 500; step++) {
      if (requests.length > 8) {
        const [{ memory, bodies, mark }] = requests.splice(random.integer(0, 8), 1) as [(typeof requests)[0]];
        for (const body of bodies) expect(body.every((byte) => byte === mark)).toBe(true);
        memory.letGo();
      }
      const [memory, mark] = [slabs.forRequest(), random.integer(1, 255)];
      const bodies = Array.from({ length: random.integer(1, 3) }, () =>
        memory.allocate(random.integer(0, 5000), random.integer(0, 400)).fill(mark),
      );
      requests.push({ memory, bodies, mark });
    }
  });

  test('shares what lies in a slab without a copy, and copies what does not', () => {
    const { slabs, added } = watched();
    const memory = slabs.forRequest();
    const body = memory.allocate(100, 4);
    const inside = new Float32Array(body.buffer, body.byteOffset + 4, 8);
    expect(memory.share(inside)).toEqual({ slab: 0, offset: inside.byteOffset, length: 8 });
    const outside = Float64Array.of(1, 2, 3).subarray(1);
    const { slab, offset, length } = memory.share(outside);
    expect([slab, offset % 8, length]).toEqual([0, 0, 2]);
    expect(new Float64Array(added.get(slab)!, offset, length)).toEqual(Float64Array.of(2, 3));
    // It is a piece of its own.
    expect(offset).toBeGreaterThanOrEqual(body.byteOffset + body.length);
    for (const elements of [new Uint8Array(0), BigInt64Array.of(-5n), Uint16Array.of(1, 2, 65_535)]) {
      const place = memory.share(elements);
      const Elements = elements.constructor as new (...args: unknown[]) => typeof elements;
      expect(new Elements(added.get(place.slab)!, place.offset, place.length)).toEqual(elements);
    }
  });

  test('shares what lies in a slab of another request', () => {
    const { slabs } = watched();
    const [one, other] = [slabs.forRequest(), slabs.forRequest()];
    const body = one.allocate(64, 0);
    expect(other.share(new Uint8Array(body.buffer, body.byteOffset, 64))).toMatchObject({
      slab: 0,
      offset: body.byteOffset,
    });
  });

  test('is given back when the last of its holders has let go, and not before', () => {
    const { slabs, added } = watched();
    const memory = slabs.forRequest();
    memory.allocate(SLAB / 2, 0);
    memory.share(new Uint8Array(SLAB / 2));
    memory.hold();
    memory.hold();
    for (let holders = 3; holders > 0; holders--) {
      // The slab is full as long as somebody holds it.
      const piece = slabs.take(SLAB);
      expect(piece.slab.id).toBe(1);
      slabs.giveBack(piece);
      memory.letGo();
    }
    expect(placeOf(slabs.take(SLAB))).toEqual({ id: 0, start: 0, end: SLAB });
    expect(added.size).toBe(2);
  });

  test('may be empty', () => {
    const { slabs, added } = watched();
    slabs.forRequest().letGo();
    expect(added.size).toBe(0);
    const body = slabs.forRequest().allocate(0, 0);
    expect([body.length, added.size]).toEqual([0, 1]);
  });
});

describe('a slab of which nothing is used', () => {
  test('is let go of after a while, and its memory is no slab any more', () => {
    const { slabs, added, retired } = watched();
    const memory = slabs.forRequest();
    const body = memory.allocate(100, 0);
    pass(10 * IDLE);
    expect(retired).toEqual([]);
    memory.letGo();
    pass(IDLE - 1);
    expect(retired).toEqual([]);
    expect(slabs.idOf(body.buffer)).toBe(0);
    pass(1);
    expect(retired).toEqual([0]);
    expect(slabs.idOf(body.buffer)).toBeUndefined();
    // Its number is not given again.
    expect(slabs.take(1).slab.id).toBe(1);
    expect([...added.keys()]).toEqual([0, 1]);
  });

  test('stays where it was used meanwhile, for as long again', () => {
    const { slabs, retired } = watched();
    const use = () => slabs.giveBack(slabs.take(1));
    use();
    for (let round = 0; round < 5; round++) {
      pass(IDLE - 1);
      use();
    }
    pass(IDLE - 1);
    expect(retired).toEqual([]);
    pass(1);
    expect(retired).toEqual([0]);
    pass(10 * IDLE);
    expect(retired).toEqual([0]);
  });

  test('stays where it is used when its time is up', () => {
    const { slabs, retired } = watched();
    slabs.giveBack(slabs.take(1));
    const piece = slabs.take(1);
    pass(2 * IDLE);
    expect(retired).toEqual([]);
    expect(slabs.take(1).slab.id).toBe(0);
    slabs.giveBack(piece);
    pass(2 * IDLE);
    // The other piece is still there.
    expect(retired).toEqual([]);
  });

  test('goes beside others that are used', () => {
    const { slabs, retired } = watched();
    const [full, second, third] = [slabs.take(SLAB), slabs.take(SLAB), slabs.take(SLAB)];
    slabs.giveBack(second);
    pass(IDLE);
    expect(retired).toEqual([1]);
    slabs.giveBack(full);
    slabs.giveBack(third);
    pass(IDLE);
    expect(retired.sort()).toEqual([0, 1, 2]);
  });
});
