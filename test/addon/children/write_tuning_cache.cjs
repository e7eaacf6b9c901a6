// Writes as many entries of the tuning cache as its argument says over and over, until it is killed. Says when it has begun.
const { TuningCache } = require('../../../dist/conv2d/tuning_cache.js');

const count = Number(process.argv[2]);
const cache = new TuningCache();

for (let round = 0; ; round++) {
  for (let number = 0; number < count; number++) {
    const measurements = Array.from({ length: 1 + (round % 40) }, () => ({
      algorithm: 'direct',
      variant: '',
      milliseconds: 1 + round,
    }));
    cache.remember(JSON.stringify({ number }), { measuredAt: new Date().toISOString(), measurements });
  }
  if (round === 0) process.stdout.write('begun\n');
}
