import * as warpconv from 'warpconv';
import check from '../../check.cjs';

export const dynamic = 'force-dynamic';

export async function GET() {
  return new Response(await check(warpconv));
}
