import tseslint from 'typescript-eslint';

export default tseslint.config(
  {
    ignores: [
      ...['build/', 'build-*/', 'dist/', 'prebuilds/', 'docs/api/', 'coverage/', 'third_party/'],
      'lib/model/onnx/onnx_pb.ts',
    ],
  },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    extends: [tseslint.configs.recommended],
    rules: {
      eqeqeq: 'error',
      '@typescript-eslint/no-unused-vars': ['error', { ignoreRestSiblings: true }],
    },
  },
  {
    files: ['**/*.{ts,mts,cts}'],
    extends: [tseslint.configs.recommendedTypeCheckedOnly],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/consistent-type-imports': 'error',
      // It takes a widening that the type checker needs for an unnecessary one.
      '@typescript-eslint/no-unnecessary-type-assertion': 'off',
      // A function is async so that whatever it throws becomes a rejection.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowArray: true, allowNumber: true }],
    },
  },
  {
    // Tests pass wrong values on purpose, and Jest's asymmetric matchers are of type any.
    files: ['test/**'],
    rules: {
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/only-throw-error': 'off',
    },
  },
  {
    files: ['**/*.cjs'],
    rules: { '@typescript-eslint/no-require-imports': 'off' },
  },
);
