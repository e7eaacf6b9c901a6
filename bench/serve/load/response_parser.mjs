/** As much of HTTP/1.1 as a client needs that has one request on the way: heads, and bodies of a Content-Length. */

const HEAD_END = '\r\n\r\n';
const MOST_HEAD_BYTES = 2 ** 14;
const STATUS = /^HTTP\/1\.[01] (\d{3})/;
const LENGTH = /\r\nContent-Length: *(\d+)/i;
const ENCODED = /\r\nTransfer-Encoding: *([^\r]+)/i;
const CLOSES = /\r\nConnection: *close/i;
const SKIPPED = /\r\nInference-Header-Content-Length: *(\d+)/i;

/**
 * @typedef {object} Answer
 * @property {number} status
 * @property {number} length - bytes of the body
 * @property {number} skipped - bytes of JSON before the tensors
 * @property {boolean} closes - whether the server closes the connection
 * @property {Buffer | undefined} body - none until it is complete
 */

/**
 * @param {string} text - without the empty line
 * @returns {Answer}
 */
function readHead(text) {
  const status = STATUS.exec(text)?.[1];
  if (status === undefined) throw new Error(`'${text.slice(0, 40)}' begins no answer of HTTP/1.1`);
  const encoding = ENCODED.exec(text)?.[1];
  if (encoding !== undefined) throw new Error(`a ${encoding} answer; only a Content-Length is read`);
  const length = LENGTH.exec(text)?.[1];
  if (length === undefined) throw new Error(`an answer of status ${status} without Content-Length`);
  return {
    status: Number(status),
    length: Number(length),
    skipped: Number(SKIPPED.exec(text)?.[1] ?? 0),
    closes: CLOSES.test(text),
    body: undefined,
  };
}

/** The answers of one connection. */
export class ResponseParser {
  /** What came of a head that is not complete @type {Buffer | undefined} */
  #begun;
  /** The one whose body is being read @type {Answer | undefined} */
  #answer;
  /** Bodies that come in several chunks; it is used again */
  #body = Buffer.alloc(0);
  #filled = 0;

  /**
   * @param {Buffer} chunk - the caller may overwrite it afterwards
   * @returns {Answer | undefined} what the chunk completed; its body is valid until the next call, or the chunk changes
   * @throws Error for an answer that is no valid HTTP, and for bytes behind its end
   */
  push(chunk) {
    if (this.#answer !== undefined) return this.#read(this.#answer, chunk);
    const bytes = this.#begun === undefined ? chunk : Buffer.concat([this.#begun, chunk]);
    const end = bytes.indexOf(HEAD_END);
    if (end < 0) {
      if (bytes.length > MOST_HEAD_BYTES) throw new Error(`a head of over ${MOST_HEAD_BYTES} bytes`);
      this.#begun = Buffer.from(bytes);
      return undefined;
    }
    this.#begun = undefined;
    this.#answer = readHead(bytes.toString('latin1', 0, end));
    return this.#read(this.#answer, bytes.subarray(end + HEAD_END.length));
  }

  #read(answer, bytes) {
    const { length } = answer;
    const left = length - this.#filled;
    if (bytes.length > left) throw new Error(`${bytes.length - left} bytes behind an answer`);
    if (bytes.length === length) return this.#complete(answer, bytes);
    if (this.#body.length < length) this.#body = Buffer.allocUnsafe(length);
    bytes.copy(this.#body, this.#filled);
    this.#filled += bytes.length;
    return this.#filled === length ? this.#complete(answer, this.#body.subarray(0, length)) : undefined;
  }

  #complete(answer, body) {
    this.#answer = undefined;
    this.#filled = 0;
    answer.body = body;
    return answer;
  }
}
