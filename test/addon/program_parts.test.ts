/** Programs that native code is given in parts, and what it finds when it prepares them. */
import { InferenceSession, memory, Tensor } from '../../lib';
import type { Done, NativeFailure } from '../../lib/addon';
import { addon } from '../../lib/load';
import type { NativeBuffer, NativeProgram, NativeProgramPart } from '../../lib/model/steps';
import { makeProgram } from '../../lib/session/native_program';
import { withoutGarbage } from '../support/garbage';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';

const at = (space: NativeBuffer['space'], index = 0, offset = 0): NativeBuffer => ({ space, index, offset });
const NOTHING: NativeProgramPart = { steps: [], constants: [], sharedConstants: [] };

/** Adds a constant of one float to each of two floats. */
function adds(input: NativeBuffer, constant: NativeBuffer, output: NativeBuffer) {
  return {
    kind: 'elementwise',
    extents: [2],
    operands: [input, constant],
    strides: [[1], [0]],
    code: [{ operation: 'add', a: 0, b: 1, p: 0, q: 0 }],
    output,
  } as const;
}

const store = () => new (addon().Store)(-1);
const SIZES = { arenaBytes: 8, inputBytes: [8], outputBytes: [8] };

function settled(start: (done: Done) => void): Promise<NativeFailure | undefined> {
  return new Promise((resolve) => start(resolve));
}

function run(program: NativeProgram, input: Float32Array): number[] {
  const output = new Float32Array(2);
  program.runSync([input], [output]);
  return [...output];
}

test('has the steps and constants of all its parts, in their order', async () => {
  const program = new (addon().Program)({ ...NOTHING, ...SIZES, store: store() });
  const [first, last] = [
    adds(at('input'), at('constant', 1), at('arena')),
    adds(at('arena'), at('constant', 2), at('output')),
  ];
  program.add({ ...NOTHING, steps: [first] });
  program.add({ steps: [last], constants: [Float32Array.of(1)], sharedConstants: [true] });
  const rest = [Float32Array.of(20), Float32Array.of(300)];
  program.add({ steps: [], constants: rest, sharedConstants: [false, true] });
  expect(await settled((done) => program.prepare(done))).toBeUndefined();
  expect(run(program, Float32Array.of(1, 2))).toEqual([321, 322]);
  program.dispose();
});

test('is made of many steps and constants', async () => {
  const count = 500;
  const place = (i: number) => (i === 0 ? at('input') : i === count ? at('output') : at('arena'));
  const steps = Array.from({ length: count }, (_, i) => adds(place(i), at('constant', i), place(i + 1)));
  const constants = Array.from({ length: count }, (_, i) => Float32Array.of(i));
  const sharedConstants = constants.map(() => false);
  const program = await makeProgram({ ...SIZES, store: store(), steps, constants, sharedConstants });
  expect(await settled((done) => program.prepare(done))).toBeUndefined();
  const sum = (count * (count - 1)) / 2;
  expect(run(program, Float32Array.of(0, 1))).toEqual([sum, sum + 1]);
  program.dispose();
});

test.each([
  ['reads beyond a constant', adds(at('input'), at('constant', 0, 4), at('output')), 'reaches outside'],
  ['reads a constant that is not there', adds(at('input'), at('constant', 1), at('output')), 'not there'],
  ['writes to an input', adds(at('input'), at('constant'), at('input')), 'only may be read'],
])('is not prepared where a step %s', async (_, step, message) => {
  const program = new (addon().Program)({ ...NOTHING, ...SIZES, store: store() });
  program.add({ ...NOTHING, constants: [Float32Array.of(1)] });
  program.add({ ...NOTHING, steps: [adds(at('input'), at('constant'), at('output')), step] });
  expect(await settled((done) => program.prepare(done))).toMatchObject({
    code: 'INTERNAL',
    message: expect.stringMatching(`step 1 of the program .elementwise. .*${message}`) as string,
  });
  expect(() => run(program, new Float32Array(2))).toThrow(expect.objectContaining({ code: 'DISPOSED' }));
});

test('takes no more once it is prepared', async () => {
  const program = new (addon().Program)({ ...NOTHING, ...SIZES, store: store() });
  const prepared = settled((done) => program.prepare(done));
  const internal = expect.objectContaining({ code: 'INTERNAL' }) as Error;
  expect(() => program.add(NOTHING)).toThrow(internal);
  expect(() => program.prepare(() => {})).toThrow(internal);
  expect(await prepared).toBeUndefined();
  expect(() => program.add(NOTHING)).toThrow(internal);
});

test('of many steps gives its memory back, if not at once', async () => {
  const before = (await withoutGarbage(memory)).cpu;
  const count = 1200;
  const model = onnxModel({
    inputs: [value('x', [1, 2, 1, 1])],
    initializers: [tensor('w', [2, 2, 1, 1], [0, 1, 1, 0])],
    nodes: Array.from({ length: count }, (_, i) =>
      node('Conv', [i === 0 ? 'x' : `c${i}`, 'w'], [`c${i + 1}`]),
    ),
    outputs: [value(`c${count}`)],
  });
  const session = await InferenceSession.create(model, { device: 'cpu' });
  const x = new Tensor('float32', [1, 2], [1, 2, 1, 1]);
  const outputs = await session.run({ x });
  expect([...(outputs[`c${count}`]!.data as Float32Array)]).toEqual([1, 2]);
  expect(memory().cpu).toBeGreaterThan(before);
  await session.release();
  // Until then, or the test's time is up. What tests before have left may be collected meanwhile.
  while (memory().cpu > before) await new Promise((resolve) => setTimeout(resolve, 1));
});
