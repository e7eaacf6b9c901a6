declare module 'node-gyp-build' {
  /** The package publishes no types. Finds the binary for this platform below a package's root, or throws. */
  const nodeGypBuild: { path(root: string): string };
  export default nodeGypBuild;
}
