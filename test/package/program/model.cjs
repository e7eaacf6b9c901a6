'use strict';
// x float32 [N, 2], multiplied by the matrix [[10], [1]], is y [N, 1].
const text =
  'CAgSADpXChEKAXgKAXcSAXkiBk1hdE11bBIBZyoTCAIIARABIggAACBBAACAP0IBd1oUCgF4Eg8KDQgBEgkKAxIBTgoCCAJi' +
  'FAoBeRIPCg0IARIJCgMSAU4KAggBQgQKABAR';
module.exports = Buffer.from(text, 'base64');
