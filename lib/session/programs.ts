/** The compiled networks of a session: one for each set of input dims that was used last, and what they share. */
import { LRUCache } from 'lru-cache';

import type { NativeStore } from '../addon';
import { callNativeAsync } from '../calls';
import { callNative } from '../errors';
import { addon } from '../load';
import type { Compiled } from '../model/compile';
import { indexOf, type Place } from '../placement';
import { footprintOf, SessionMemory, sumOf, type Footprint } from './session_memory';
import { makeProgram } from './native_program';
import type { NativeProgram } from '../model/steps';
import { SharedProgram, type Prepared } from './shared_program';

/** Milliseconds without a run after which the memory for tensors between steps is given back. */
const IDLE_MILLISECONDS = 30_000;

/** What a session may keep. */
export interface ProgramLimits {
  readonly cachedShapes: number;
  /** Bytes, of programs and runs together */
  readonly memoryLimit: number;
}

export class Programs {
  readonly #place: Place;
  readonly #cache: LRUCache<string, SharedProgram>;
  readonly #memory: SessionMemory;
  readonly #store: NativeStore;
  /** Constants of which the store has, or is about to have, what programs share */
  #known = new Set<ArrayBufferView>();
  /** Those that native code has, in the cache or held by runs alone */
  readonly #live = new Set<Prepared>();
  /** The most scratch memory of a live program's run */
  #scratch = 0;
  /** Runs under way, and the most at once since memory was last given back */
  #running = 0;
  #overlapping = 0;
  /** Runs that have begun, ever */
  #begun = 0;
  #idleTimer: NodeJS.Timeout | undefined;

  /** @param resident - the names of the outputs that are made on a GPU */
  constructor(
    place: Place,
    { cachedShapes, memoryLimit }: ProgramLimits,
    private readonly resident: ReadonlySet<string>,
  ) {
    this.#place = place;
    this.#memory = new SessionMemory(memoryLimit, () => this.#held());
    this.#store = callNative(() => new (addon().Store)(indexOf(place)));
    this.#cache = new LRUCache({ max: cachedShapes, dispose: (program) => program.letGo() });
  }

  /** That of the key, if it has been prepared. */
  get(key: string): Prepared | undefined {
    return this.#cache.get(key)?.now;
  }

  /**
   * That of the key, known or new. It is held at once: an eviction may come before it is awaited.
   *
   * @param compile - called where it is new
   */
  hold(key: string, compile: () => Promise<Compiled>): SharedProgram {
    return (this.#cache.get(key) ?? this.#add(key, compile)).hold();
  }

  /**
   * Takes the memory of a run, until {@link end}.
   *
   * @throws {@link WarpconvError} `ERR_WARPCONV_OUT_OF_MEMORY`
   */
  begin(prepared: Prepared): void {
    const { scratch, outputs, hostOutputs } = prepared.footprint;
    // On a GPU, where runs follow each other, it came with the program.
    const isNew = this.#place === 'cpu' && this.#running >= this.#overlapping;
    const unallocated = hostOutputs + (isNew ? scratch : 0);
    if (!this.#memory.isAmple(unallocated)) {
      const alone = outputs + (this.#place === 'cpu' ? this.#running + 1 : 1) * scratch;
      // The first run's was counted with the program.
      const more = outputs + (isNew && this.#overlapping > 0 ? this.#scratch : 0);
      this.#memory.require({ what: 'a run', alone, more, unallocated }, () => this.#evict(prepared));
    }
    this.#memory.take(outputs);
    this.#begun++;
    this.#running++;
    this.#overlapping = Math.max(this.#overlapping, this.#running);
  }

  end(prepared: Prepared): void {
    this.#running--;
    this.#memory.giveBack(prepared.footprint.outputs);
    this.#idleTimer ??= this.#watchIdleness();
  }

  /** Lets go of them all. Runs under way keep theirs until they end. */
  clear(): void {
    clearTimeout(this.#idleTimer);
    this.#cache.clear();
    this.#store.dispose();
  }

  #add(key: string, compile: () => Promise<Compiled>): SharedProgram {
    const program = new SharedProgram(this.#prepare(compile), (prepared) => this.#dispose(prepared));
    this.#cache.set(key, program.hold());
    program.prepared.catch(() => {
      // Another may have taken its place.
      if (this.#cache.peek(key) === program) this.#cache.delete(key);
    });
    return program;
  }

  async #prepare(compile: () => Promise<Compiled>): Promise<Prepared> {
    const compiled = await compile();
    const footprint = footprintOf(compiled, this.#place, this.resident);
    const native = await this.#reserving(footprint, () => this.#build(compiled));
    const prepared = { compiled, native, footprint, lastRun: Infinity };
    this.#live.add(prepared);
    this.#scratch = Math.max(this.#scratch, footprint.scratch);
    try {
      // Only now is it known what packed weights take.
      this.#require(footprint, 0);
    } catch (error) {
      this.#dispose(prepared);
      throw error;
    }
    return prepared;
  }

  /** What `build` makes, with the memory for it taken in the meantime. */
  async #reserving<T>(footprint: Footprint, build: () => Promise<T>): Promise<T> {
    const { shared, own, scratch } = footprint;
    const unknown = [...shared].filter(([constant]) => !this.#known.has(constant));
    const more = own + sumOf(unknown.map(([, bytes]) => bytes)) + Math.max(scratch - this.#scratch, 0);
    this.#require(footprint, more);
    this.#memory.take(more);
    unknown.forEach(([constant]) => this.#known.add(constant));
    try {
      return await build();
    } finally {
      this.#memory.giveBack(more);
    }
  }

  /** Memory for a program, and then for its first run's outputs. */
  #require({ shared, own, scratch, outputs, hostOutputs }: Footprint, more: number): void {
    const alone = sumOf([...shared.values()]) + own + scratch + outputs;
    const unallocated = hostOutputs + (this.#place === 'cpu' ? more : 0);
    const demand = { what: 'a run with inputs of these dims', alone, more: more + outputs, unallocated };
    this.#memory.require(demand, () => this.#evict());
  }

  async #build({ program }: Compiled): Promise<NativeProgram> {
    const native = await makeProgram({ ...program, store: this.#store });
    await callNativeAsync((done) => native.prepare(done));
    return native;
  }

  #dispose(prepared: Prepared): void {
    this.#live.delete(prepared);
    prepared.native.dispose();
  }

  /** Bytes that programs hold and that runs, as many as have overlapped, take between their steps. */
  #held(): number {
    const { bytes, scratchBytes } = this.#store;
    const planned = this.#place === 'cpu' ? Math.max(this.#overlapping, 1) * this.#scratch : 0;
    const own = sumOf([...this.#live].map(({ native }) => native.bytes));
    return own + bytes - scratchBytes + Math.max(scratchBytes, planned);
  }

  /** Lets go of the program that was used longest ago, or of what none needs. False where there is nothing. */
  #evict(kept?: Prepared): boolean {
    const before = this.#held();
    const oldest = [...this.#cache.rkeys()].find((key) => {
      const program = this.#cache.peek(key)?.now;
      // Of what is being compiled nothing can be had back.
      return program !== undefined && program !== kept;
    });
    if (oldest !== undefined) this.#cache.delete(oldest);
    this.#trim();
    return oldest !== undefined || this.#held() < before;
  }

  /** Gives back what no run and no program needs. */
  #trim(): void {
    this.#store.trim();
    const footprints = [...this.#live].map(({ footprint }) => footprint);
    this.#known = new Set(footprints.flatMap(({ shared }) => [...shared.keys()]));
    this.#scratch = Math.max(0, ...footprints.map(({ scratch }) => scratch));
    this.#overlapping = this.#running;
  }

  /** Gives memory back when a while has passed without a run. Keeps no process. */
  #watchIdleness(): NodeJS.Timeout {
    const begun = this.#begun;
    const timer = setTimeout(() => {
      this.#idleTimer = undefined;
      if (this.#begun === begun && this.#running === 0) this.#trim();
      else this.#idleTimer = this.#watchIdleness();
    }, IDLE_MILLISECONDS);
    return timer.unref();
  }
}
