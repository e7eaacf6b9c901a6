/** Compiled networks on their way to native code. */
import { callNative } from '../errors';
import { addon } from '../load';
import type { NativeProgram, NativeProgramPart, NativeProgramSpec } from '../model/steps';
import { inSlices, type Sliced } from '../slices';

/** Steps, and constants, that native code is given at once: they take a tenth of a millisecond to one. */
const AT_ONCE = 8;

/** The program, which is still to be prepared. */
export function makeProgram(spec: NativeProgramSpec): Promise<NativeProgram> {
  return inSlices(handOver(spec));
}

function* handOver(spec: NativeProgramSpec): Sliced<NativeProgram> {
  const count = Math.max(spec.steps.length, spec.constants.length);
  const native = callNative(() => new (addon().Program)({ ...spec, ...partOf(spec, 0) }));
  for (let first = AT_ONCE; first < count; first += AT_ONCE) {
    yield;
    callNative(() => native.add(partOf(spec, first)));
  }
  return native;
}

function partOf({ steps, constants, sharedConstants }: NativeProgramSpec, first: number): NativeProgramPart {
  const end = first + AT_ONCE;
  return {
    steps: steps.slice(first, end),
    constants: constants.slice(first, end),
    sharedConstants: sharedConstants.slice(first, end),
  };
}
