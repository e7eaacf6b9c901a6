'use strict';

// x float32 [N, 2], multiplied by the matrix [[10], [1]], is y [N, 1].
const MODEL =
  'CAgSADpXChEKAXgKAXcSAXkiBk1hdE11bBIBZyoTCAIIARABIggAACBBAACAP0IBd1oUCgF4Eg8KDQgBEgkKAxIBTgoCCAJi' +
  'FAoBeRIPCg0IARIJCgMSAU4KAggBQgQKABAR';

/** A convolution's output and a network's, as text. */
module.exports = async function check({ conv2d, InferenceSession, Tensor }) {
  const ones = new Tensor('float32', new Float32Array(9).fill(1), [1, 1, 3, 3]);
  const convolved = await conv2d(ones, ones, { padding: 1 });
  const session = await InferenceSession.create(Buffer.from(MODEL, 'base64'));
  const { y } = await session.run({ x: new Tensor('float32', Float32Array.from([1, 2]), [1, 2]) });
  await session.release();
  return [...convolved.data, ...y.data].join();
};
