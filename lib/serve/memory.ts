import { unavailable } from './refusal';

/** How many bytes requests and answers may take up at once, all models together. */
export class MemoryBudget {
  held = 0;

  constructor(readonly limit: number) {}
}

/** What one request takes of a budget: nothing at first. */
export class Holding {
  #bytes = 0;

  constructor(readonly budget: MemoryBudget) {}

  /** Holds more, for what is still to come. */
  take(bytes: number): void {
    if (this.budget.held + bytes > this.budget.limit) {
      throw unavailable('the server holds as many bytes of requests as it may; try again later');
    }
    this.keep(bytes);
  }

  /** Holds more, for what is there already and cannot be refused: only those that come later can. */
  keep(bytes: number): void {
    this.#bytes += bytes;
    this.budget.held += bytes;
  }

  release(): void {
    this.keep(-this.#bytes);
  }
}
