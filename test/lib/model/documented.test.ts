/** docs/networks.md lists the operators that there are. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { foldedNames } from '../../../lib/model/fold';
import { hostedNames } from '../../../lib/model/hosted';
import { operatorNames } from '../../../lib/model/operators';

const text = readFileSync(path.join(__dirname, '../../../docs/networks.md'), 'utf8');

/** The names in code marks between `<!-- section -->` and `<!-- /section -->`. */
function listed(section: string): string[] {
  const [, rest = ''] = text.split(`<!-- ${section} -->`);
  const [part = ''] = rest.split(`<!-- /${section} -->`);
  return [...part.matchAll(/`(\w+)`/g)].map(([, name]) => name!);
}

test('those of a run', () => {
  expect(listed('operators')).toEqual(operatorNames());
});

test('those of onnxruntime', () => {
  expect(listed('microsoft')).toEqual(operatorNames('com.microsoft'));
});

test('those between programs', () => {
  expect(listed('hosted')).toEqual(hostedNames());
});

test('and those that are computed ahead', () => {
  const run = new Set([...operatorNames(), ...hostedNames()]);
  expect(listed('folded')).toEqual(foldedNames().filter((name) => !run.has(name)));
});
