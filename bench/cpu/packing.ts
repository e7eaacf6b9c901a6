/**
 * How much of a layer's time goes into rearranging its input, in sconv and in im2col: Figure 10 of the SConv paper. One
 * thread; the time is taken inside the native code, in a build of its own (packing_timer.h of native/cpu), because leaving the
 * multiplication out would leave its effects on the caches out, too. What was measured quickly is printed only.
 *
 *     npx ts-node bench/cpu/packing.ts [--quick]
 */
import { run } from '../command';
import { buildNativePrograms, LAYER_RUNS, lineOf } from '../native_programs';
import { loadLayers, type Layer } from '../layers';
import { PACKING_ALGORITHMS, type PackingResult } from './engine_results';
import { renderPacking } from './report_engine';
import { circumstances, nameOf, scriptArguments, writeJson } from '../results';

function measure(layers: readonly Layer[], quick: boolean): PackingResult['layers'] {
  const output = run(LAYER_RUNS, ['time', quick ? '3' : '9', ...PACKING_ALGORITHMS], {
    input: layers.map(lineOf).join(''),
  });
  const lines = output.trimEnd().split('\n');
  return layers.map((layer, index) => {
    const [sconv, sconvPacking, im2col, im2colPacking] = lines[index]!.trim().split(' ').map(Number);
    const ms = {
      sconv: { total: sconv!, packing: sconvPacking! },
      im2col: { total: im2col!, packing: im2colPacking! },
    };
    return { ...layer, ms };
  });
}

function main(): void {
  const { quick, name, out } = scriptArguments();
  process.stderr.write('packing …');
  buildNativePrograms();
  const result = { ...circumstances(quick), layers: measure(loadLayers('sconv-393'), quick) };
  process.stderr.write(' measured\n');
  if (!quick) writeJson(`${name ?? nameOf(result)}-packing`, result, out);
  console.log(renderPacking(result));
}

if (require.main === module) main();
