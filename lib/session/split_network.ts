/**
 * Networks that run as several programs, one after the other: where a value that an earlier one computes decides what the
 * next one is compiled to, or where something between them is computed by JavaScript.
 */
import type { Body, ConstantTensor, Graph, GraphNode, ValueInfo } from '../model/graph';
import { readsOf } from '../model/graph';
import { hostedOf, type BodyRun } from '../model/hosted';
import type { Precision } from '../conv2d/names';
import { hostedSteps, undecidedSteps, type SessionExplanation } from '../model/explain';
import type { Bindings } from '../model/compile';
import { HostNeeded, type ValueNeeded } from '../model/lowering';
import { invalidNode } from '../model/refusals';
import { split, type Split } from '../model/split';
import type { Tensor } from '../tensor/tensor';
import { arrayOf, type Feed } from './feeds';
import { ALL_OUTPUTS, type RunArguments } from './session_options';

export type Outputs = Record<string, Tensor>;

/** A graph that runs by itself. */
export interface Part {
  run(inputs: readonly Feed[], request: RunArguments): Promise<Outputs>;
  runSync(inputs: readonly Feed[], request: RunArguments): Outputs;
  /** What is compiled for inputs of these dims. */
  explain(dims: Bindings['dims']): Promise<SessionExplanation>;
  /** What was compiled for these inputs, and what its steps took. */
  profile(inputs: readonly Feed[], runs: number): Promise<SessionExplanation>;
}

/** @param name - tells it from other parts of the network */
export type PartMaker = (graph: Graph, name: string) => Part;

/** A part to be run, and with what. */
interface Call {
  readonly part: Part;
  readonly inputs: readonly Feed[];
  readonly request: RunArguments;
}

/** What a run does, part after part; it is given what each made. */
type Course = Generator<Call, Outputs, Outputs>;

export class SplitNetwork {
  readonly #graph: Graph;
  readonly #split: Split;
  readonly #make: PartMaker;
  readonly #first: Part | undefined;
  /** Once it is known of which types the values are that it reads */
  #rest: { readonly part: Part; readonly inputs: readonly ValueInfo[] } | undefined;
  readonly #bodies = new Map<Body, { readonly part: Part; readonly inputs: readonly ValueInfo[] }>();

  private constructor(graph: Graph, parts: Split, make: PartMaker) {
    this.#graph = graph;
    this.#split = parts;
    this.#make = make;
    this.#first = parts.first && make(parts.first, 'before');
  }

  /** Parts between which is known what compiling needed; `undefined` where there is nothing before. */
  static at(graph: Graph, error: ValueNeeded, make: PartMaker): SplitNetwork | undefined {
    const node = error instanceof HostNeeded ? error.node : holderOf(graph, error.value);
    const parts = split(graph, node === undefined ? [error.value] : readsOf(node), node);
    return parts && new SplitNetwork(graph, parts, make);
  }

  run(inputs: readonly Feed[], request: RunArguments): Promise<Outputs> {
    return this.#follow(inputs, request, ({ part, inputs: own, request: asked }) => part.run(own, asked));
  }

  async #follow(
    inputs: readonly Feed[],
    request: RunArguments,
    run: (call: Call) => Promise<Outputs>,
  ): Promise<Outputs> {
    const course = this.#course(inputs, request);
    for (let next = course.next(); ;) {
      if (next.done) return next.value;
      next = course.next(await run(next.value));
    }
  }

  /** The parts as far as dims decide them. What comes after is told node by node. */
  async explain(device: string, precision: Precision, dims: Bindings['dims']): Promise<SessionExplanation> {
    const { node, after } = this.#split;
    const first = await this.#first?.explain(dims);
    const names = new Set(this.#graph.outputs.map(({ name }) => name));
    return {
      device,
      precision,
      inputs: this.#graph.inputs.map(({ name, type }) => ({ name, type, dims: dims.get(name)! })),
      outputs: first?.outputs.filter(({ name }) => names.has(name)) ?? [],
      steps: [
        ...(first?.steps ?? []),
        ...(node === undefined ? [] : hostedSteps(node)),
        ...undecidedSteps(after),
      ],
      arenaBytes: first?.arenaBytes ?? 0,
    };
  }

  /** A run in which each part is measured where it comes first. */
  async profile(inputs: readonly Feed[], runs: number): Promise<SessionExplanation> {
    const measured = new Map<Part, SessionExplanation>();
    await this.#follow(inputs, ALL_OUTPUTS, async ({ part, inputs: own, request }) => {
      if (!measured.has(part)) measured.set(part, await part.profile(own, runs));
      return part.run(own, request);
    });
    const parts = [...measured.values()];
    const steps = parts.map((part) => part.steps);
    const { node } = this.#split;
    // What it runs itself was measured.
    if (node !== undefined) steps.splice(this.#first === undefined ? 0 : 1, 0, hostedSteps(node).slice(0, 1));
    return {
      // Of the rest, which comes last
      ...parts.at(-1)!,
      inputs: inputs.map(({ name, type, dims }) => ({ name, type, dims })),
      steps: steps.flat(),
      arenaBytes: Math.max(...parts.map(({ arenaBytes }) => arenaBytes)),
    };
  }

  runSync(inputs: readonly Feed[], request: RunArguments): Outputs {
    const course = this.#course(inputs, request);
    for (let next = course.next(); ;) {
      if (next.done) return next.value;
      const { part, inputs: own, request: asked } = next.value;
      next = course.next(part.runSync(own, asked));
    }
  }

  *#course(inputs: readonly Feed[], request: RunArguments): Course {
    const values = new Map(inputs.map((feed) => [feed.name, feed]));
    // What lies between two parts is read here.
    const all: RunArguments = { ...ALL_OUTPUTS, signal: request.signal };
    if (this.#first !== undefined) {
      const own = this.#split.first!.inputs.map(({ name }) => values.get(name)!);
      note(values, yield { part: this.#first, inputs: own, request: all });
    }
    const { node } = this.#split;
    if (node !== undefined) yield* this.#compute(node, values, all);
    if (this.#rest === undefined) {
      const graph = this.#split.rest((name) => infoOf(values.get(name)!));
      this.#rest = { part: this.#make(graph, 'after'), inputs: graph.inputs };
    }
    const own = this.#rest.inputs.map(({ name }) => values.get(name)!);
    return yield { part: this.#rest.part, inputs: own, request };
  }

  /** Adds the outputs of a node to the values. */
  *#compute(
    node: GraphNode,
    values: Map<string, Feed>,
    request: RunArguments,
  ): Generator<Call, void, Outputs> {
    const { constants } = this.#graph;
    const valueOf = (name: string) => constants.get(name) ?? tensorOf(values.get(name)!);
    const inputs = node.inputs.map((name) => (name === '' ? undefined : valueOf(name)));
    const made = hostedOf(node)!(node, inputs, this.#graph.opset);
    let outputs: readonly ConstantTensor[];
    if (Array.isArray(made)) outputs = made;
    else {
      let next = made.next();
      while (!next.done) next = made.next(yield* this.#runBody(next.value, values, request));
      outputs = next.value;
    }
    node.outputs.forEach((name, i) => {
      if (name === '') return;
      const output = outputs[i];
      if (output === undefined)
        throw invalidNode(node, `has ${node.outputs.length} outputs; it makes ${outputs.length}`);
      values.set(name, feedOf(name, output));
    });
  }

  *#runBody(
    { body, inputs }: BodyRun,
    values: ReadonlyMap<string, Feed>,
    request: RunArguments,
  ): Generator<Call, ConstantTensor[], Outputs> {
    const { constants } = this.#graph;
    const brought = inputs.map((tensor, i) => feedOf(body.inputs[i]!, tensor));
    const captured = body.captures.filter((name) => !constants.has(name)).map((name) => values.get(name)!);
    const own = [...brought, ...captured];
    let known = this.#bodies.get(body);
    if (known === undefined) {
      const graph: Graph = {
        opset: this.#graph.opset,
        inputs: own.map(infoOf),
        outputs: body.outputs.map((name) => ({ name, type: 'float32', shape: undefined })),
        nodes: body.nodes,
        constants: new Map([...constants, ...body.constants]),
      };
      known = { part: this.#make(graph, `body ${this.#bodies.size}`), inputs: graph.inputs };
      this.#bodies.set(body, known);
    }
    const made = yield { part: known.part, inputs: own, request };
    return body.outputs.map((name) => made[name]! as unknown as ConstantTensor);
  }
}

/** The node of which a branch makes the value, if it is none of the graph's own. */
function holderOf(graph: Graph, value: string): GraphNode | undefined {
  const makes = (node: GraphNode): boolean => {
    const inner = [...(node.bodies?.values() ?? [])].flatMap(({ nodes }) => nodes);
    return inner.some((one) => one.outputs.includes(value) || makes(one));
  };
  return graph.nodes.find(makes);
}

function note(values: Map<string, Feed>, made: Outputs): void {
  for (const [name, tensor] of Object.entries(made)) {
    values.set(name, feedOf(name, tensor as unknown as ConstantTensor));
  }
}

function feedOf(name: string, { type, dims, data }: ConstantTensor): Feed {
  return { name, type, dims, elements: data };
}

function tensorOf(feed: Feed): ConstantTensor {
  return { type: feed.type, dims: feed.dims, data: arrayOf(feed) } as ConstantTensor;
}

function infoOf({ name, type }: Feed): ValueInfo {
  return { name, type, shape: undefined };
}
