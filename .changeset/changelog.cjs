/** Lines of CHANGELOG.md, which speak to people who upgrade: without hashes of commits. */
'use strict';

module.exports = {
  getReleaseLine: async ({ summary }) => `- ${summary.trim().replaceAll('\n', '\n  ')}`,
  // The packages with binaries have no changes of their own.
  getDependencyReleaseLine: async () => '',
};
