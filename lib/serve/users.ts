/** The requests that use one version of a model: it may end when there are none. */
export class Users {
  #count = 0;
  #onGone: (() => void)[] = [];

  enter(): void {
    this.#count++;
  }

  leave(): void {
    if (--this.#count > 0) return;
    for (const resolve of this.#onGone.splice(0)) resolve();
  }

  /** Resolves once there are none, which is for good where the model is not served any more. */
  async gone(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((resolve) => this.#onGone.push(resolve));
  }
}
