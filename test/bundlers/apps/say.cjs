'use strict';
// Preloaded: of an error the message alone, since the line of a bundle may be the whole of it.
process.once('uncaughtException', ({ message }) => {
  console.error(message);
  process.exit(1);
});
