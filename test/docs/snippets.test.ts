/**
 * What the pages tell people to type. Blocks of JavaScript are run, each in a process of its own, beside a network that is
 * called resnet50.onnx. An HTML comment before a block has the code that the page leaves out:
 *
 *     <!-- snippet
 *     const weight = new Tensor('float32', new Float32Array(9), [1, 1, 3, 3]);
 *     -->
 *
 * `<!-- snippet, only types: REASON` has the block's types checked instead. Commands of shell blocks, and those within
 * sentences, have to exist with their files and options.
 */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';

import { blocksOf, PAGES, ROOT, textOf, type Block } from './markdown';
import { node, onnxModel, value } from '../support/onnx_builder';

const blocks = PAGES.flatMap(blocksOf);
const inLanguages = (...languages: string[]) => blocks.filter(({ language }) => languages.includes(language));
const named = (some: readonly Block[]) =>
  some.map((block) => [`${block.page}:${block.line}`, block] as const);

const scratch = mkdtempSync(path.join(os.tmpdir(), 'warpconv-snippets-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe('JavaScript', () => {
  const onlyTypes = /^ snippet, only types: \S/;
  const scripts = inLanguages('js', 'ts', 'mjs');
  const checked = scripts.filter(({ comment }) => onlyTypes.test(comment));
  const run = scripts.filter(({ comment }) => !onlyTypes.test(comment));
  const results = new Map<Block, Promise<unknown>>();

  /** The block after the code that its page leaves out. Imports are moved up by JavaScript itself. */
  const sourceOf = ({ comment, code }: Block) => `${comment.split('\n').slice(1).join('\n')}\n${code}`;

  beforeAll(() => {
    const modules = path.join(scratch, 'node_modules');
    mkdirSync(path.join(modules, 'onnxruntime-node'), { recursive: true });
    symlinkSync(ROOT, path.join(modules, 'warpconv'), 'dir');
    for (const name of ['@types', 'fastify', 'onnxruntime-common'])
      symlinkSync(path.join(ROOT, 'node_modules', name), path.join(modules, name), 'dir');
    writeFileSync(
      path.join(modules, 'onnxruntime-node/index.js'),
      "module.exports = require('onnxruntime-common');",
    );
    const nodes = [node('GlobalAveragePool', ['input'], ['output'])];
    const network = { inputs: [value('input', [1, 3, 224, 224])], outputs: [value('output')], nodes };
    writeFileSync(path.join(scratch, 'resnet50.onnx'), onnxModel(network));
    // All at once: most of their time is that of starting Node.js.
    for (const [index, block] of run.entries()) {
      const file = path.join(scratch, `${index}.mjs`);
      writeFileSync(file, sourceOf(block));
      const options = { cwd: scratch, env: { ...process.env, WARPCONV_NO_CPU_WARNING: '1' } };
      const result = promisify(execFile)(process.execPath, [file], options);
      result.catch(() => {});
      results.set(block, result);
    }
  });

  test.each(named(run))('%s runs', async (_, block) => {
    await results.get(block);
  });

  test('that is not run has right types', () => {
    const files = checked.map((block, index) => {
      const name = `types${index}.mts`;
      writeFileSync(path.join(scratch, name), `${sourceOf(block)}\nexport {};\n`);
      return name;
    });
    const compilerOptions = {
      ...{ module: 'nodenext', target: 'es2022', lib: ['es2023', 'esnext.disposable'], types: ['node'] },
      ...{ strict: true, noEmit: true, skipLibCheck: true },
    };
    writeFileSync(path.join(scratch, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    const { stdout } = spawnSync(process.execPath, [path.join(ROOT, 'node_modules/typescript/bin/tsc')], {
      cwd: scratch,
      encoding: 'utf8',
    });
    const places = checked.map(({ page, line }, index) => [`types${index}.mts`, `${page}:${line}`] as const);
    expect(places.reduce((text, [file, place]) => text.replaceAll(file, place), stdout)).toBe('');
  });
});

const data = inLanguages('json', 'yaml');
test.each(named(data))('%s can be read', (_, { language, code }) => {
  expect(typeof (language === 'json' ? JSON.parse(code) : parse(code))).toBe('object');
});

describe('commands', () => {
  const manifest = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
  const ofCli = commandsOfCli();
  const shell = inLanguages('sh').flatMap(({ page, line, code }) =>
    commandsIn(code).map((command) => [`${page}:${line}`, command] as const),
  );
  const inSentences = PAGES.flatMap((page) =>
    [...textOf(page).matchAll(/`((?:npx|npm|node) [^`\n]+)`/g)].map(([, text]) => [page, text!] as const),
  );

  test.each([...shell, ...inSentences])('%s: %s', (_, command) => {
    expect(complaintOf(command)).toBeUndefined();
  });

  test('are all found', () => {
    expect(complaintOf('npm run biuld')).toMatch(/no script/);
    expect(complaintOf('npx warpconv sreve')).toMatch(/no command/);
    expect(complaintOf('npx warpconv doctor --jsno')).toMatch(/no option/);
    expect(complaintOf('node examples/none.mjs')).toMatch(/no file/);
  });

  /** Lines without comments, with what a backslash continues, in the parts that && divides. */
  function commandsIn(code: string): string[] {
    const lines = code
      .replaceAll(/\\\n/g, ' ')
      .replaceAll(/(^|\s)#.*$/gm, '$1')
      .split('\n');
    return lines
      .flatMap((line) => line.split('&&'))
      .map((line) => line.trim())
      .filter(Boolean);
  }

  /** What is wrong with a command, if it is of a program of which that is known. */
  function complaintOf(command: string): string | undefined {
    const words = command.split(/\s+/).filter((word) => !/^[A-Z_]+=/.test(word));
    const [program, ...rest] = words;
    const args = rest.filter((word) => !/^--(yes|no-install|offline)$/.test(word));
    if (program === 'npm') return args[0] === 'run' ? complaintOfScript(args[1]!) : undefined;
    if (program === 'npx' && args[0] === 'warpconv') return complaintOfCli(args.slice(1));
    const isRunner =
      ['node', 'python3'].includes(program!) || (program === 'npx' && /^(ts-node|jest)$/.test(args[0]!));
    const file = isRunner ? args.find((word) => /^[\w./-]+\.(m?[jt]s|cjs|py)$/.test(word)) : undefined;
    return file === undefined || existsSync(path.join(ROOT, file)) ? undefined : `there is no file ${file}`;
  }

  function complaintOfScript(name: string): string | undefined {
    return Object.hasOwn(manifest.scripts, name) ? undefined : `there is no script ${name}`;
  }

  function complaintOfCli([name, ...args]: string[]): string | undefined {
    if (name === undefined || /^(-|help$|[A-Z…])/.test(name)) return undefined;
    const options = ofCli.get(name);
    if (options === undefined) return `there is no command ${name}`;
    const given = args.flatMap((arg) => /^\[?--([\w-]+)/.exec(arg)?.[1] ?? []);
    const wrong = given.find((option) => !options.includes(option) && option !== 'help');
    return wrong === undefined ? undefined : `${name} has no option --${wrong}`;
  }

  /** The options of each command, by its name. */
  function commandsOfCli(): Map<string, readonly string[]> {
    const folder = path.join(ROOT, 'dist/commands');
    const files = readdirSync(folder).filter((file) => file.endsWith('_command.js'));
    const print = `
      const exported = ${JSON.stringify(files)}.flatMap((file) => Object.values(require('./' + file)));
      const commands = exported.filter((it) => it?.name && it.options);
      console.log(JSON.stringify(commands.map(({ name, options }) => [name, Object.keys(options)])));`;
    const { stdout } = spawnSync(process.execPath, ['-e', print], { cwd: folder, encoding: 'utf8' });
    return new Map(JSON.parse(stdout) as [string, string[]][]);
  }
});
