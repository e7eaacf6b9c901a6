/**
 * The elements of a tensor. A `Float16Array`, which newer runtimes have, becomes the bits of its numbers, so that tests find
 * the same in every runtime.
 */
export function bitsIn<Elements extends ArrayLike<unknown>>(elements: Elements): Elements {
  if (Object.prototype.toString.call(elements) !== '[object Float16Array]') return elements;
  const { buffer, byteOffset, length } = elements as unknown as Uint16Array;
  return new Uint16Array(buffer, byteOffset, length) as unknown as Elements;
}
