/** Where the outputs of a session's runs are made. */
import { checkOneOf, invalid, isObject, readEntries } from '../check';
import type { Place } from '../placement';

export type OutputLocation = 'cpu' | 'gpu-buffer';

/** `preferredOutputLocation`: one for all outputs, or one for each name. Outputs without one are in CPU memory. */
export type OutputLocations = OutputLocation | ReadonlyMap<string, OutputLocation>;

const OPTION = 'options.preferredOutputLocation';

export function readOutputLocations(name: string, value: unknown): OutputLocations {
  if (!isObject(value)) return readLocation(name, value);
  const entries = readEntries(name, value, 'a location, or an object of locations by output');
  return new Map(entries.map(([output, location]) => [output, readLocation(name, location)]));
}

/** Pages are not locked for outputs, which would take longer than they save: what prefers that gets ordinary memory. */
function readLocation(name: string, value: unknown): OutputLocation {
  const location = checkOneOf(name, value, ['cpu', 'cpu-pinned', 'gpu-buffer'] as const);
  return location === 'gpu-buffer' ? location : 'cpu';
}

/** The outputs that are made in the memory of the session's GPU. */
export function residentOutputs(
  locations: OutputLocations,
  outputNames: readonly string[],
  place: Place,
): ReadonlySet<string> {
  const byName =
    typeof locations === 'string' ? outputNames.map((name) => [name, locations]) : [...locations];
  byName.forEach(([name]) => checkOneOf(`an output of ${OPTION}`, name, outputNames));
  const names = byName.filter(([, location]) => location === 'gpu-buffer').map(([name]) => name!);
  if (place === 'cpu' && names.length > 0)
    throw invalid(
      `${OPTION} asks for '${names[0]}' as 'gpu-buffer', and the session is on the CPU; ` +
        `pass device: 'cuda' where there is a GPU, or prefer 'cpu'`,
    );
  return new Set(names);
}
