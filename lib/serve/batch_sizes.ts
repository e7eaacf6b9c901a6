/**
 * How many waiting requests the next run joins: 1, 2, 4, 8 …, whichever was measured to be best. On a GPU a batch of eight
 * often takes hardly longer than one request; on a CPU it mostly takes eight times as long, and joining only adds latency.
 * There is no clock in here: the caller says how long its runs took.
 */

/** A joined run has to take at most this share of what its requests take one by one. Less than 1, because times are noisy. */
const PAYS = 0.9;

/** A larger batch is preferred to a smaller one if it takes at most this share of the time for each request. */
const BETTER = 0.95;

/** The time of one request is the median of so many runs. */
const ALONE = 7;

/** When it is measured again, so many new runs decide the median. */
const ALONE_ANEW = 4;

/** It is measured again after 1 joined run, then after 2, 4, 8 …, and never later than this. */
const LONGEST_WITHOUT_ALONE = 1024;

/** After so many joined runs the session may have dropped what it compiled for one request. */
const RESTED = 8;

/**
 * The median of so many joined runs decides whether their size still pays: 11 slow ones turn it. The time of one request is
 * measured again after 2 slow ones, so a device that becomes slower for all sizes turns nothing.
 */
const JOINED = 21;

/** A trial ends early when so many of its runs were slow, and at least half of them. */
const MOST_SLOW = 3;

/** A size that pays is tried again if a smaller one was preferred for so many requests. It may have been measured badly. */
const STALE = 16_384;

/**
 * Requests for each one that a trial held up. Those held up are then too few to move the 99th percentile. On a GPU a batch
 * that does not pay costs little, and one that pays more the longer it is not tried: with trials as seldom as on a CPU, a
 * ResNet-50 on an H100 went on with single images for seconds after its clients had become many, at two fifths of what it
 * gives in batches.
 */
const REQUESTS_PER_TRIED = { cpu: 256, gpu: 16 } as const;

/** Kinds of requests that are remembered. Clients choose the shapes, so there may be any number of them. */
const KINDS = 64;

/** What all kinds of a model share. */
interface Budget {
  readonly requestsPerTried: number;
  requests: number;
  /** Those that trials held up. */
  tried: number;
}

/** The sizes of a model's batches. */
export class BatchSizes {
  readonly #kinds = new Map<string, KindSizes>();
  readonly #budget: Budget;

  constructor(device: keyof typeof REQUESTS_PER_TRIED) {
    this.#budget = { requestsPerTried: REQUESTS_PER_TRIED[device], requests: 0, tried: 0 };
  }

  /**
   * @param kind - the same for requests that take the same time
   * @param most - how many of them a run may join
   */
  of(kind: string, most: number): KindSizes {
    const sizes = this.#kinds.get(kind) ?? new KindSizes(most, this.#budget);
    // A map is in the order of insertion: the kind that was not asked for longest comes first.
    this.#kinds.delete(kind);
    this.#kinds.set(kind, sizes);
    if (this.#kinds.size > KINDS) this.#kinds.delete(this.#kinds.keys().next().value!);
    return sizes;
  }
}

/** What is known of the batches of one size. */
interface Joined {
  readonly size: number;
  /** Times of runs, each over that of its requests one by one. */
  readonly ratios: Recent;
  pays: boolean;
  /** Requests that its trials held up. */
  tried: number;
  /** The model's requests when it ran last. */
  seen: number;
}

/** Runs of one size that show whether it pays. */
interface Trial {
  readonly joined: Joined;
  /** Whether it was thought not to pay. */
  readonly isNew: boolean;
  /** Requests that waited when its latest run was chosen. */
  waiting: number;
  /** Requests that it held up. */
  heldUp: number;
  /** Slow runs. */
  slow: number;
}

/** The sizes for one kind of requests. */
export class KindSizes {
  readonly #most: number;
  readonly #budget: Budget;
  /** Milliseconds of a run of one request. */
  readonly #alone = new Recent(ALONE);
  /** Runs of one request to be measured before the next joined run. */
  #aloneDue = ALONE;
  /** Joined runs since the last run of one request. The very first run compiles, as one after many joined runs may. */
  #sinceAlone = Infinity;
  /** How many there may be. */
  #mostSinceAlone = 1;
  /** Of 2, 4, 8 … requests, as far as any were tried. */
  readonly #joined: Joined[] = [];
  #trial: Trial | undefined;

  constructor(most: number, budget: Budget) {
    this.#most = most;
    this.#budget = budget;
  }

  /** How many of the waiting requests the next run joins. */
  choose(waiting: number): number {
    const largest = Math.min(waiting, this.#most);
    if (largest < 2 || this.#aloneDue > 0) return 1;
    const best = this.#bestSize(waiting, largest);
    return this.#sizeToTry(waiting, largest, best) ?? best;
  }

  /**
   * Tells of a run that went well.
   *
   * @param milliseconds - from its beginning until the next one could begin
   */
  ran(size: number, milliseconds: number): void {
    this.#budget.requests += size;
    if (size === 1) this.#ranAlone(milliseconds);
    else this.#ranJoined(this.#get(size), milliseconds);
  }

  /** Tells that the session does not run batches of this size. */
  refused(size: number): void {
    const joined = this.#get(size);
    this.#charge(joined, size);
    joined.pays = false;
    if (this.#trial?.joined === joined) this.#trial = undefined;
  }

  #get(size: number): Joined {
    return this.#joined[Math.log2(size) - 1]!;
  }

  #ranAlone(milliseconds: number): void {
    const mayHaveCompiled = this.#sinceAlone >= RESTED;
    this.#sinceAlone = 0;
    if (mayHaveCompiled) return;
    this.#alone.add(milliseconds);
    if (this.#aloneDue === 0 || --this.#aloneDue > 0) return;
    this.#mostSinceAlone = Math.min(2 * this.#mostSinceAlone, LONGEST_WITHOUT_ALONE);
  }

  #ranJoined(joined: Joined, milliseconds: number): void {
    if (++this.#sinceAlone >= this.#mostSinceAlone) this.#aloneDue = ALONE_ANEW;
    joined.seen = this.#budget.requests;
    const { size, ratios } = joined;
    const trial = this.#trial?.joined === joined ? this.#trial : undefined;
    if (trial !== undefined) {
      const isFirst = trial.heldUp === 0;
      // The first run may compile the network for this size. All that wait are held up by that.
      this.#holdUp(trial, isFirst ? trial.waiting : size);
      if (isFirst) return;
    }
    const ratio = milliseconds / (size * this.#alone.median);
    const isSlow = ratio > PAYS;
    if (isSlow && ratios.latest > PAYS) this.#aloneDue = ALONE_ANEW;
    ratios.add(ratio);
    if (trial !== undefined) return this.#judge(trial, isSlow);
    joined.pays = ratios.median <= PAYS;
    if (!joined.pays) this.#charge(joined, size * JOINED);
  }

  #judge(trial: Trial, isSlow: boolean): void {
    const { joined, isNew, heldUp } = trial;
    const { ratios } = joined;
    if (isSlow) trial.slow++;
    const isLost = trial.slow >= MOST_SLOW && 2 * trial.slow >= ratios.length;
    if (!isLost && !ratios.isFull) return;
    this.#trial = undefined;
    joined.pays = !isLost && ratios.median <= PAYS;
    if (joined.pays && isNew) this.#charge(joined, -heldUp);
  }

  #holdUp(trial: Trial, requests: number): void {
    trial.heldUp += requests;
    this.#charge(trial.joined, requests);
  }

  #charge(joined: Joined, requests: number): void {
    joined.tried += requests;
    this.#budget.tried += requests;
  }

  /** The size on trial, or the one whose trial may begin. */
  #sizeToTry(waiting: number, largest: number, best: number): number | undefined {
    const { requests, requestsPerTried } = this.#budget;
    const trial = (this.#trial ??= this.#beginTrial(largest, best));
    if (trial === undefined) return undefined;
    const { size, seen } = trial.joined;
    if (size <= largest) {
      trial.waiting = waiting;
      return size;
    }
    // Fewer requests come than when it began: it must not keep smaller sizes from being tried.
    if (requests - seen > requestsPerTried) this.#trial = undefined;
    return undefined;
  }

  #beginTrial(largest: number, best: number): Trial | undefined {
    const { requests, requestsPerTried, tried } = this.#budget;
    if (tried * requestsPerTried > requests) return undefined;
    const joined = this.#leastTried(largest, best);
    if (joined === undefined) return undefined;
    const isNew = !joined.pays;
    if (isNew) this.#mostSinceAlone = 1;
    joined.pays = false;
    joined.ratios.clear();
    return { joined, isNew, waiting: 0, heldUp: 0, slow: 0 };
  }

  /**
   * The least tried of the sizes that are not known to pay, or not from recent runs. Smaller ones come first, because a large
   * batch holds up more requests. Larger ones have their turn even so: eight may pay where two do not.
   */
  #leastTried(largest: number, best: number): Joined | undefined {
    let least: Joined | undefined;
    for (let size = 2; size <= largest; size *= 2) {
      const joined = (this.#joined[Math.log2(size) - 1] ??= untried(size));
      const isCurrent = size <= best || this.#budget.requests - joined.seen < STALE;
      if (joined.pays && isCurrent) continue;
      if (least === undefined || joined.tried < least.tried) least = joined;
      if (joined.tried === 0) break;
    }
    return least;
  }

  #bestSize(waiting: number, largest: number): number {
    let [best, least] = [1, 1];
    for (const { size, pays, ratios } of this.#joined) {
      if (size > largest) break;
      const ratio = ratios.median;
      if (!pays || ratio > BETTER * least || !isNoSlower(ratio, size, waiting)) continue;
      [best, least] = [size, ratio];
    }
    return best;
  }
}

/**
 * Whether the last of the waiting requests gets its answer no later than one by one. Whoever comes just after the run has
 * begun waits for all of it, and for as many requests as wait now: `waiting + size` at `ratio`, against `waiting + 1`.
 */
function isNoSlower(ratio: number, size: number, waiting: number): boolean {
  return ratio * (waiting + size) <= waiting + 1;
}

function untried(size: number): Joined {
  return { size, ratios: new Recent(JOINED), pays: false, tried: 0, seen: 0 };
}

/** The latest of a series of numbers. */
class Recent {
  readonly #numbers: number[] = [];
  readonly #most: number;
  #median = NaN;

  constructor(most: number) {
    this.#most = most;
  }

  get length(): number {
    return this.#numbers.length;
  }

  get isFull(): boolean {
    return this.#numbers.length === this.#most;
  }

  /** `NaN` where there is none. */
  get latest(): number {
    return this.#numbers.at(-1) ?? NaN;
  }

  /** `NaN` where there is none; the larger one of two. */
  get median(): number {
    return this.#median;
  }

  add(number: number): void {
    if (this.isFull) this.#numbers.shift();
    this.#numbers.push(number);
    const { length } = this.#numbers;
    this.#median = this.#numbers.toSorted((a, b) => a - b)[length >> 1]!;
  }

  clear(): void {
    this.#numbers.length = 0;
    this.#median = NaN;
  }
}
