/** Legal models of one node, at random. */
import { foldedNames } from '../../../lib/model/fold';
import { hostedNames } from '../../../lib/model/hosted';
import { operatorNames } from '../../../lib/model/operators';
import type { Attribute } from '../onnx_reference/node';
import { schemaIn, schemasOf } from '../onnx_reference/schemas';
import type { RefTensor } from '../onnx_reference/tensor';
import { Random } from '../random';
import { anyShape, type Case, type CaseInput } from './case';
import { Draw, type Attributes } from './draw';
import { RECIPES } from './recipes';

export const NEWEST_OPSET = 28;

/** Operators that no recipe draws. One that is neither here nor drawn fails a test. */
export const NOT_DRAWN: readonly string[] = [
  // These have graphs of their own: a model of one is more than a node and its tensors. Other tests have such models.
  ...['If', 'Loop', 'Scan'],
];

const FOLDED = new Set(foldedNames());
const COMPUTED_IN_RUNS = new Set([...operatorNames(), ...hostedNames()]);

/** ONNX's own operators and Microsoft's. */
export const OPERATORS: readonly string[] = [
  ...new Set([...COMPUTED_IN_RUNS, ...FOLDED]),
  ...operatorNames('com.microsoft').map((name) => `com.microsoft.${name}`),
]
  .filter((name) => !NOT_DRAWN.includes(name))
  .sort();

/** The operators that are neither drawn nor known not to be, of which there should be none. */
export function undrawn(): string[] {
  return OPERATORS.filter((name) => !RECIPES.has(name));
}

/** The operators one after the other, so that any stretch of numbers has all of them. */
export function legalCase(seed: number, index: number): Case {
  const random = randomOf(seed, index);
  const name = OPERATORS[index % OPERATORS.length]!;
  const recipe = RECIPES.get(name);
  if (recipe === undefined) throw new Error(`nothing draws models of ${name}`);
  const isForeign = name.startsWith('com.microsoft.');
  const schemas = schemasOf(name);
  const oldest = Math.max(7, schemas[0]!.since);
  const newest = Math.min(NEWEST_OPSET, (schemas.at(-1)!.until ?? Infinity) - 1);
  const opset = isForeign ? 1 : random.integer(oldest, newest);
  const schema = schemaIn(name, opset)!;
  const drawn = recipe(new Draw(random, name, opset, schema));
  return {
    domain: isForeign ? 'com.microsoft' : '',
    operator: name.replace('com.microsoft.', ''),
    opset,
    attributes: given(drawn.attributes ?? {}),
    inputs: withoutTrailing(placed(drawn.inputs, name, random), random),
    outputs: drawn.outputs ?? 1,
    unnamed: drawn.unnamed ?? [],
    isRaw: random.chance(0.5),
  };
}

function given(attributes: Attributes): Record<string, Attribute> {
  const entries = Object.entries(attributes).filter(
    (entry): entry is [string, Attribute] => entry[1] !== undefined,
  );
  return Object.fromEntries(entries);
}

export function randomOf(seed: number, index: number): Random {
  return new Random((Math.imul(seed, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)) >>> 0);
}

/** Which inputs the run brings. What is computed only ahead of a run, or there too, more often finds them in the file. */
function placed(
  inputs: readonly (RefTensor | undefined)[],
  name: string,
  random: Random,
): (CaseInput | undefined)[] {
  const isAhead = !COMPUTED_IN_RUNS.has(name) && !name.startsWith('com.');
  const isFolded = FOLDED.has(name) && inputs[0]?.type !== 'float32';
  const how = random.uniform();
  const share = isAhead ? 0.7 : isFolded ? 0.4 : 0.2;
  const isFeed = (i: number) => {
    if (how < share) return false;
    if (how < share + (1 - share) * 0.5) return i === 0;
    return how < share + (1 - share) * 0.75 || random.chance(0.5);
  };
  return inputs.map((tensor, i) => {
    if (tensor === undefined) return undefined;
    return { tensor, isFeed: isFeed(i), shape: anyShape(tensor.dims, random, i) };
  });
}

/** Inputs left out at the end have an empty name, or none. */
function withoutTrailing<T>(inputs: readonly (T | undefined)[], random: Random): (T | undefined)[] {
  const result = [...inputs];
  if (random.chance(0.2)) return result;
  while (result.length > 0 && result.at(-1) === undefined) result.pop();
  return result;
}
