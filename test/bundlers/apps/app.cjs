'use strict';
const warpconv = require('warpconv');
const check = require('./check.cjs');

void check(warpconv).then((result) => console.log(result));
