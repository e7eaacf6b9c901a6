import * as warpconv from 'warpconv';
import check from './check.cjs';

void check(warpconv).then((result) => console.log(result));
