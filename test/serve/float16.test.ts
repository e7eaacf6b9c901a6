/** The conversions of 16-bit floating-point numbers, over all of them. */
import { BFLOAT16, FLOAT16, fromBits, toBits, type SmallFloat } from '../../lib/tensor/small_floats';

/** The float32 of those bits. */
function float32(bits: number): number {
  return new Float32Array(Uint32Array.of(bits).buffer)[0]!;
}

/** Both formats by way of float32, which has more exponents and more fraction: scaling moves between them exactly. */
const REFERENCES: readonly [string, SmallFloat, (bits: number) => number, largest: number][] = [
  ['float16', FLOAT16, (bits) => float32((bits & 0x7fff) << 13) * 2 ** 112, 0x7bff],
  ['bfloat16', BFLOAT16, (bits) => float32((bits & 0x7fff) << 16), 0x7f7f],
];

describe.each(REFERENCES)('%s', (_, format, reference, largest) => {
  test('every finite number is read right, and written back as the same bits', () => {
    for (let bits = 0; bits <= largest; bits++) {
      for (const [signed, expected] of [
        [bits, reference(bits)],
        [bits | 0x8000, -reference(bits)],
      ] as const) {
        const number = fromBits(signed, format);
        if (!Object.is(number, expected) || toBits(number, format) !== signed) {
          throw new Error(`${signed}: ${number}, ${expected}, ${toBits(number, format)}`);
        }
      }
    }
  });

  test('a number between two goes to the nearer, and from the middle to the even one', () => {
    for (let bits = 0; bits < largest; bits++) {
      const [below, above] = [reference(bits), reference(bits + 1)];
      const middle = (below + above) / 2;
      const even = bits % 2 === 0 ? bits : bits + 1;
      const written = [middle * (1 - 2 ** -40), middle, middle * (1 + 2 ** -40)].map((x) =>
        toBits(x, format),
      );
      if (written.join() !== [bits, even, bits + 1].join()) throw new Error(`${bits}: ${written}`);
    }
  });

  test('infinities and NaN are read, and what rounds to infinity is not written', () => {
    const infinity = largest + 1;
    expect(fromBits(infinity, format)).toBe(Infinity);
    expect(fromBits(infinity | 0x8000, format)).toBe(-Infinity);
    expect(fromBits(infinity + 1, format)).toBeNaN();
    expect(fromBits(0xffff, format)).toBeNaN();
    const step = reference(largest) - reference(largest - 1);
    expect(toBits(reference(largest) + step * 0.499, format)).toBe(largest);
    expect(toBits(reference(largest) + step * 0.5, format)).toBeUndefined();
    expect(toBits(-Number.MAX_VALUE, format)).toBeUndefined();
  });
});
