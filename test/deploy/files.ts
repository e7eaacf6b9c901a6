/** The files of deploy/, read. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { DockerfileParser, type Instruction } from 'dockerfile-ast';
import { parse } from 'yaml';

export const DEPLOY = path.join(__dirname, '../../deploy');

export const text = (file: string) => readFileSync(path.join(DEPLOY, file), 'utf8');
export const yaml = <T>(file: string) => parse(text(file), { merge: true }) as T;

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number | string };
}

export interface Container {
  name: string;
  image: string;
  readonly args: readonly string[];
  readonly ports: readonly { readonly name?: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly lifecycle: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly resources: Readonly<Record<'limits' | 'requests', Readonly<Record<string, string | number>>>>;
}

export interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

export interface Deployment extends KubernetesObject {
  readonly spec: {
    readonly template: {
      readonly spec: { readonly terminationGracePeriodSeconds: number; readonly containers: Container[] };
    };
  };
}

interface Kustomization {
  readonly resources?: readonly string[];
  readonly images?: readonly { readonly name: string; readonly newName: string; readonly newTag: string }[];
  readonly patches?: readonly { readonly target: { kind: string; name: string }; readonly patch: string }[];
}

interface Operation {
  readonly op: 'add' | 'remove' | 'replace';
  readonly path: string;
  readonly value?: unknown;
}

/** What `kubectl apply -k` makes of a folder of deploy/kubernetes, for the little of Kustomize that the files use. */
export function kustomize(
  folder: string,
  below: readonly KubernetesObject[] = [],
): readonly KubernetesObject[] {
  const { resources = [], images = [], patches = [] } = yaml<Kustomization>(`${folder}/kustomization.yaml`);
  const objects = [...structuredClone(below), ...resources.flatMap((resource) => load(folder, resource))];
  for (const { target, patch } of patches) {
    const matching = objects.filter(
      ({ kind, metadata }) => kind === target.kind && metadata.name === target.name,
    );
    if (matching.length === 0) throw new Error(`${folder}: a patch is for no object`);
    for (const object of matching)
      for (const operation of parse(patch) as Operation[]) apply(object, operation);
  }
  for (const container of objects.flatMap(containersOf)) {
    const image = images.find(({ name }) => name === container.image);
    if (image !== undefined) container.image = `${image.newName}:${image.newTag}`;
  }
  return objects;
}

function load(folder: string, resource: string): readonly KubernetesObject[] {
  const file = path.posix.join(folder, resource);
  return file.endsWith('.yaml') ? [yaml<KubernetesObject>(file)] : kustomize(file);
}

function containersOf(object: KubernetesObject): Container[] {
  return object.kind === 'Deployment' ? (object as Deployment).spec.template.spec.containers : [];
}

/** An operation of a JSON patch (RFC 6902). */
function apply(object: unknown, { op, path: pointer, value }: Operation): void {
  const keys = pointer.split('/').slice(1);
  const last = keys.pop()!;
  const parent = keys.reduce((inner, key) => (inner as Record<string, unknown>)[key], object);
  if (typeof parent !== 'object' || parent === null || (op !== 'add' && !(last in parent)))
    throw new Error(`there is no ${pointer} to ${op}`);
  if (op === 'remove') delete (parent as Record<string, unknown>)[last];
  else (parent as Record<string, unknown>)[last] = value;
}

/** The instructions of one stage of the Dockerfile. */
export function stage(name: string): readonly Instruction[] {
  const stages: Instruction[][] = [];
  for (const instruction of DockerfileParser.parse(text('Dockerfile')).getInstructions()) {
    if (instruction.getKeyword() === 'FROM') stages.push([]);
    stages.at(-1)?.push(instruction);
  }
  return stages.find(([from]) => from!.getArgumentsContent()!.endsWith(` AS ${name}`))!;
}

/** The argument of an instruction that a stage has once. */
export function argument(stageName: string, keyword: string): string {
  const found = stage(stageName).filter((instruction) => instruction.getKeyword() === keyword);
  if (found.length !== 1) throw new Error(`${stageName} has ${found.length} times ${keyword}`);
  return found[0]!.getArgumentsContent()!;
}

/** A setting of a unit of systemd; of one that is given several times, the last. */
export function unitSetting(name: string): string {
  const lines = text('warpconv.service').split('\n');
  const line = lines.findLast((one) => one.startsWith(`${name}=`));
  if (line === undefined) throw new Error(`the unit has no ${name}`);
  return line.slice(name.length + 1);
}
