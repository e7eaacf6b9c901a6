/** The chains of a session, which its compilations find and use. */
import { inSlices } from '../slices';
import { Chain } from './chain';
import type { Constants } from './constants';
import { findChains, type Compilation } from './find_chains';
import type { GraphNode } from './graph';

export class Chains {
  readonly #chains = new Map<GraphNode, Chain>();
  /** A compilation that may have chains that are not known */
  #noted: Compilation | undefined;
  #isComplete = false;
  #learning: Promise<void> = Promise.resolve();
  #units: readonly (GraphNode | Chain)[] = [];
  /** Whose nodes the units are; none where chains have changed since */
  #nodes: readonly GraphNode[] | undefined;

  /** @param constants - the session's */
  constructor(private readonly constants: Constants) {}

  /** Brings a compilation to learn from, should there be others. */
  note(compilation: Compilation): void {
    if (!this.#isComplete) this.#noted = compilation;
  }

  /** Looks for chains in what was noted last, in slices. */
  learn(): Promise<void> {
    const noted = this.#noted;
    if (noted === undefined) return this.#learning;
    this.#noted = undefined;
    this.#isComplete = true;
    this.#learning = inSlices(findChains(noted, this.constants)).then(
      (found) => this.#add(found),
      // Without them nodes are lowered one by one, which tells what is wrong, if it still is.
      () => {},
    );
    return this.#learning;
  }

  /** Gives up a chain whose nodes had to be lowered one by one: others may be found in these dims. */
  drop(chain: Chain): void {
    for (const node of chain.nodes) if (this.#chains.get(node) === chain) this.#chains.delete(node);
    this.#isComplete = false;
    this.#nodes = undefined;
  }

  /** Nodes with chains in their place, each where its last node is: all that it reads is there by then. */
  async unitsOf(nodes: readonly GraphNode[]): Promise<readonly (GraphNode | Chain)[]> {
    await this.learn();
    if (this.#nodes !== nodes) {
      this.#nodes = nodes;
      this.#units = nodes
        .map((node) => this.#chains.get(node) ?? node)
        .filter((unit, i) => !(unit instanceof Chain) || unit.last === nodes[i]);
    }
    return this.#units;
  }

  #add(found: readonly Chain[]): void {
    for (const chain of found) {
      if (chain.nodes.some((node) => this.#chains.has(node))) continue;
      for (const node of chain.nodes) this.#chains.set(node, chain);
    }
    this.#nodes = undefined;
  }
}
