/** The example's network must make the very mistakes that PyTorch makes, and no other. */
import { classify, loadDigits, loadNetwork, logitsOf, someImages } from '../../examples/digits/network';
import { TEST_DEVICE } from '../support/gpu';

const digits = loadDigits();
const { images, pytorch } = digits.heldOut;
const pytorchPredictions = classify(digits.pytorchLogits, images);

function countCorrect(predictions: readonly number[]): number {
  return predictions.filter((digit, index) => digit === digits.labels[index]).length;
}

test("the shipped logits give PyTorch's accuracy", () => {
  expect(pytorchPredictions).toHaveLength(images);
  expect(countCorrect(pytorchPredictions)).toBe(pytorch.correct);
});

test.each([images, 8, 1])('in batches of %i every image is recognised as PyTorch does', async (batch) => {
  const network = await loadNetwork(TEST_DEVICE);
  const predictions: number[] = [];
  for (let first = 0; first < images; first += batch) {
    const logits = await logitsOf(network, someImages(digits, first, batch));
    predictions.push(...classify(logits, batch));
  }
  await network.release();
  expect(predictions).toEqual(pytorchPredictions);
  expect(countCorrect(predictions)).toBe(pytorch.correct);
});
