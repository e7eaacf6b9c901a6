/** Sessions on the device under test, which end with the test. */
import { InferenceSession } from '../../lib';
import { TEST_DEVICE } from './gpu';

const open: InferenceSession[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((session) => session.release()));
});

/** As `InferenceSession.create`. */
export async function create(
  ...[model, options]: Parameters<typeof InferenceSession.create>
): Promise<InferenceSession> {
  const session = await InferenceSession.create(model, { device: TEST_DEVICE, ...options });
  open.push(session);
  return session;
}
