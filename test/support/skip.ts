/** Tests that are skipped, saying why, where something is missing. What is missing is `undefined` where nothing is. */
export function describeUnless(missing: string | undefined, name: string, body: () => void): void {
  if (missing === undefined) return describe(name, body);
  describe.skip(`${name} (skipped: ${missing})`, body);
}
