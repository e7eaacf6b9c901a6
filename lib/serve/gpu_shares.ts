/**
 * Divides a GPU's time between models: of those that have requests waiting, the one that has had least begins the next run.
 * As long as only one has, it has the GPU to itself. A model that was idle begins with what the others have, as in
 * start-time fair queueing (Goyal, Vin and Cheng, 1996): it has saved nothing up.
 */

/** A GPU that models use. */
class SharedGpu {
  readonly shares: GpuShare[] = [];
  /** Whose runs are under way, the oldest first. */
  readonly #runs: GpuShare[] = [];
  #settled = 0;

  /**
   * Charges the time since the last call to the oldest run: the GPU takes kernels in the order in which they come. What a
   * younger one does in its gaps is not counted.
   */
  settle(): void {
    const now = performance.now();
    this.#runs[0]?.charge(now - this.#settled);
    this.#settled = now;
  }

  begin(share: GpuShare): void {
    this.settle();
    this.#runs.push(share);
  }

  end(share: GpuShare): void {
    this.settle();
    this.#runs.splice(this.#runs.indexOf(share), 1);
  }

  isRunning(share: GpuShare): boolean {
    return this.#runs.includes(share);
  }

  /** Two keep it busy. */
  get isFull(): boolean {
    return this.#runs.length >= 2;
  }
}

/** A model's part of a GPU. */
export class GpuShare {
  /** Whether there are requests that could not begin */
  isWaiting = false;
  /** Milliseconds that its runs have had, over its weight */
  #used = 0;

  /** @param resume - called when runs may begin that might not before */
  constructor(
    readonly gpu: SharedGpu,
    readonly weight: number,
    readonly resume: () => void,
  ) {
    gpu.shares.push(this);
  }

  /**
   * False while another waits that has had less; of those that wait, one may always run. False, too, for a second run on a
   * GPU that has two: the more of them share it, the less is known of what each took.
   */
  mayBegin(): boolean {
    if (this.#others.length === 0) return true;
    if (this.gpu.isFull && this.gpu.isRunning(this)) return false;
    this.gpu.settle();
    if (!this.#isActive) this.#catchUp();
    return this.#others.every((other) => !other.isWaiting || other.#used >= this.#used);
  }

  begin(): void {
    this.gpu.begin(this);
  }

  end(): void {
    this.gpu.end(this);
  }

  /** Lets others begin, the one that has had least first. */
  yield(): void {
    const waiting = this.#others.filter((other) => other.isWaiting);
    for (const other of waiting.sort((a, b) => a.#used - b.#used)) other.resume();
  }

  /** Leaves the GPU to the others: its model has no requests any more. */
  leave(): void {
    this.gpu.shares.splice(this.gpu.shares.indexOf(this), 1);
  }

  charge(milliseconds: number): void {
    this.#used += milliseconds / this.weight;
  }

  /** Forgets what the model did not use while it was idle. */
  #catchUp(): void {
    const active = this.#others.filter((other) => other.#isActive).map((other) => other.#used);
    const others = this.#others.map((other) => other.#used);
    this.#used = Math.max(this.#used, active.length > 0 ? Math.min(...active) : Math.max(...others));
  }

  get #isActive(): boolean {
    return this.isWaiting || this.gpu.isRunning(this);
  }

  get #others(): GpuShare[] {
    return this.gpu.shares.filter((share) => share !== this);
  }
}

/** The GPUs of a server's models. */
export class GpuShares {
  readonly #gpus = new Map<string, SharedGpu>();

  /** A model's part of the GPU, of which it asks for one. Without other models it has the GPU to itself. */
  of(name: string, weight: number, resume: () => void): GpuShare {
    let gpu = this.#gpus.get(name);
    if (gpu === undefined) this.#gpus.set(name, (gpu = new SharedGpu()));
    return new GpuShare(gpu, weight, resume);
  }
}
