/** Tensors that are joined are written where they are joined. */
import { isDue, type Sliced } from '../slices';
import type { PlannedStep } from './builder';
import { isInPlace, mapBuffers, type CopyStep, type Step } from './steps';
import type { Operand, Storage } from './values';

/**
 * The steps without copies of whole tensors into larger ones: what would be copied is written there in the first place.
 * A tensor that is itself joined may be copied part by part. In DenseNet each joined tensor begins with the one before.
 *
 * @param outputs - read by the caller: they stay where they are
 */
export function* joinInPlace(
  planned: readonly PlannedStep[],
  outputs: ReadonlySet<Storage>,
): Sliced<readonly PlannedStep[]> {
  const filled = new Set<Storage>();
  for (const { step } of planned)
    if (step.kind === 'fill' || isInPlace(step) || isRepeat(step)) filled.add(step.output.storage);
  const places = new Map<Storage, Operand>();
  const rejoined = new Map<Storage, Rejoined>();
  const gone = new Set<number>();
  for (const [index, { step }] of planned.entries()) {
    if (isDue(index)) yield;
    if (step.kind !== 'copy' || !isWholeRun(step)) continue;
    const [part, whole] = [placeIn(places, step.input), placeIn(places, step.output)];
    const isFree = part.storage.space === 'arena' && !outputs.has(part.storage);
    // What is written all over the whole would come too late for a part that is written early; and a part that others
    // read must not be changed.
    if (!isFree || part.storage === whole.storage || filled.has(step.output.storage)) continue;
    if (!places.has(step.input.storage)) {
      places.set(step.input.storage, step.output);
      gone.add(index);
      continue;
    }
    const copies = addPart(rejoined, part, whole, { index, bytes: step.input.storage.bytes });
    if (copies.bytes < part.storage.bytes) continue;
    places.set(part.storage, copies.place);
    for (const copy of copies.indices) gone.add(copy);
  }
  return places.size === 0 ? planned : yield* placedIn(places, planned, gone);
}

/** The steps but those that are gone, where every tensor now is. */
function* placedIn(
  places: Map<Storage, Operand>,
  planned: readonly PlannedStep[],
  gone: ReadonlySet<number>,
): Sliced<PlannedStep[]> {
  const placed: PlannedStep[] = [];
  for (const [index, { step, nodes }] of planned.entries()) {
    if (isDue(index)) yield;
    if (gone.has(index)) continue;
    placed.push({ nodes, step: mapBuffers(step, (operand) => placeIn(places, operand)) });
  }
  return placed;
}

/**
 * Where an operand is, after its storage may have become part of another, and that of a third. Each on the way is then
 * known to be part of the last: the way may be as long as the network, and is gone again and again.
 */
function placeIn(places: Map<Storage, Operand>, operand: Operand): Operand {
  const way: Storage[] = [];
  let { storage } = operand;
  for (let next = places.get(storage); next !== undefined; next = places.get(storage)) {
    way.push(storage);
    ({ storage } = next);
  }
  if (way.length === 0) return operand;
  let offset = 0;
  for (const passed of way.reverse()) {
    offset += places.get(passed)!.offset;
    places.set(passed, { storage, offset });
  }
  return { storage, offset: operand.offset + offset };
}

/** The copies that, so far, bring parts of one storage to the same distance in another. */
interface Rejoined {
  /** Where the storage begins in the other */
  readonly place: Operand;
  readonly indices: number[];
  bytes: number;
}

/** Copies that go elsewhere than those before them begin anew: no two of a storage's parts overlap, or all is lost. */
function addPart(
  rejoined: Map<Storage, Rejoined>,
  part: Operand,
  whole: Operand,
  copy: { readonly index: number; readonly bytes: number },
): Rejoined {
  const place = { storage: whole.storage, offset: whole.offset - part.offset };
  const before = rejoined.get(part.storage);
  const goesOn = before?.place.storage === place.storage && before.place.offset === place.offset;
  const copies = goesOn ? before : { place, indices: [], bytes: 0 };
  copies.indices.push(copy.index);
  copies.bytes += copy.bytes;
  rejoined.set(part.storage, copies);
  return copies;
}

/** Whether every element of the copy's source goes, in its order, into one run of the target. */
function isWholeRun({ extents, inputStrides, outputStrides, bytes, input }: CopyStep<Operand>): boolean {
  const isRun = extents.length === 1 && inputStrides[0] === 1 && outputStrides[0] === 1;
  return isRun && input.offset === 0 && extents[0]! * bytes === input.storage.bytes;
}

/** A copy that writes what it reads again and again, as a fill does. */
function isRepeat(step: Step<Operand>): boolean {
  return (
    step.kind === 'copy' && step.inputStrides.some((stride, axis) => stride === 0 && step.extents[axis]! > 1)
  );
}
