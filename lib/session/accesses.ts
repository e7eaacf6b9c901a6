/**
 * What the runs under way read and write, those of all sessions of this thread. None may write into memory that another one
 * uses: which of the two came last would be chance.
 */
import type { NativeGpuBuffer } from '../addon';
import { invalid } from '../check';
import { requireApart, sharedMemory, type NamedElements } from '../tensor/tensor_like';
import type { TypedArray } from '../tensor/typed_array';
import type { Feed } from './feeds';

/** What one run uses. */
export interface Access {
  readonly reads: readonly Feed[];
  /** The tensors that its caller brought for outputs: new ones lie apart from everything */
  readonly writes: readonly NamedElements[];
}

const underWay = new Set<Access>();
/** How many of them write */
let writers = 0;

/**
 * Notes what a run uses, until {@link endAccess}.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT` where that is in use, or where it overlaps with itself
 */
export function beginAccess(access: Access): void {
  const { writes } = access;
  if (writes.length > 0) requireOwnMemory(access);
  if (writes.length > 0 || writers > 0) underWay.forEach((other) => requireApartFrom(other, access));
  underWay.add(access);
  if (writes.length > 0) writers++;
}

export function endAccess(access: Access): void {
  if (underWay.delete(access) && access.writes.length > 0) writers--;
}

function requireOwnMemory({ reads, writes }: Access): void {
  const others = elementsRead(reads);
  for (const output of writes) {
    requireApart(output, others);
    others.push(output);
  }
}

function requireApartFrom(other: Access, { reads, writes }: Access): void {
  if (writes.length > 0) requireUnused(writes, elementsRead(other.reads), 'reads');
  if (other.writes.length === 0) return;
  requireUnused([...elementsRead(reads), ...writes], other.writes, 'writes');
}

function requireUnused(
  ours: readonly NamedElements[],
  theirs: readonly NamedElements[],
  use: 'reads' | 'writes',
): void {
  for (const one of ours) {
    const shared = sharedMemory(one, theirs);
    if (shared === undefined) continue;
    throw invalid(
      `${one.name} shares memory with ${shared.name} of a run that has not ended, which ${use} it; ` +
        'await that run first, or give each run tensors of its own',
    );
  }
}

function elementsRead(feeds: readonly Feed[]): NamedElements[] {
  return feeds.flatMap(({ name, elements }) =>
    [elements]
      .flat()
      .map((one) => ({ name: `feeds.${name}`, elements: one as TypedArray | NativeGpuBuffer })),
  );
}
