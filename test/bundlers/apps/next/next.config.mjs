export default {
  output: 'standalone',
  outputFileTracingRoot: import.meta.dirname,
  ...JSON.parse(process.env.NEXT_SETTINGS ?? '{}'),
};
