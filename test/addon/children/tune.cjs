// Tunes the problems whose numbers are its arguments, all asked for at once, and prints a line of JSON on them.
const { tuneOne } = require('./tuning.cjs');

async function main() {
  console.log(
    JSON.stringify(await Promise.all(process.argv.slice(2).map((number) => tuneOne(Number(number))))),
  );
}

main();
