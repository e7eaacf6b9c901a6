/** Compares the answers to one request with the one that is expected. */
export class AnswerCheck {
  #expected;
  #tolerance;
  #largest;
  /** The answer that was right last: most are the same, byte by byte @type {Buffer | undefined} */
  #accepted;

  /**
   * @param {object} request
   * @param {Float32Array} request.expected
   * @param {number} request.tolerance - relative to the largest magnitude that is expected
   */
  constructor({ expected, tolerance }) {
    this.#expected = expected;
    this.#tolerance = tolerance;
    this.#largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  }

  /**
   * @param {Buffer} bytes - float32
   * @returns {number | undefined} the worst difference, relative as the tolerance is; none where the answer is right
   */
  wrongBy(bytes) {
    if (this.#accepted?.equals(bytes)) return undefined;
    const { buffer } = new Uint8Array(bytes);
    const worst = this.#worst(buffer);
    if (!(worst <= this.#tolerance)) return worst;
    this.#accepted = Buffer.from(buffer);
    return undefined;
  }

  #worst(buffer) {
    const expected = this.#expected;
    if (buffer.byteLength !== expected.byteLength) return Infinity;
    const values = new Float32Array(buffer);
    let worst = 0;
    for (let index = 0; index < values.length; index++) {
      worst = Math.max(worst, Math.abs(values[index] - expected[index]));
    }
    return worst / this.#largest;
  }
}
