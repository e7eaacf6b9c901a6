const path = require('node:path');

// Tests leave the user's own cache alone. Processes that they start inherit this.
process.env.WARPCONV_CACHE_DIR = path.join(__dirname, 'build-tests', 'cache');

/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  transform: { '^.+\\.ts$': ['ts-jest', { tsconfig: '<rootDir>/tsconfig.json' }] },
  // Packages that were made there have the name of this one.
  modulePathIgnorePatterns: ['<rootDir>/build-packages/', '<rootDir>/build-platforms/'],
  testTimeout: 120_000,
  // By default one core is left out, and the longest suites wait for processes that they start.
  maxWorkers: '100%',
};
