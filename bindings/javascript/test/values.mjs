// Runs requests and prints their results as JSON, one a line: what the tests compare with h5py.
//
//     node values.mjs < REQUESTS    each line: {"open": URL or path, "path": "/a", "read": {…}} or {…, "call": "keys"}

import { existsSync, openAsBlob } from 'node:fs';
import { createInterface } from 'node:readline';
import { open } from '../src/index.js';

/** Returns values as JSON has them: typed arrays with their names, large integers and odd numbers as texts. */
function plain(value) {
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (ArrayBuffer.isView(value)) return { array: value.constructor.name, items: Array.from(value, plain) };
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}

const files = new Map();

async function opened(input) {
  if (!files.has(input)) files.set(input, await open(existsSync(input) ? await openAsBlob(input) : input));
  return files.get(input);
}

async function run(request) {
  const file = await opened(request.open);
  const before = { ...file.statistics };
  const object = await file.get(request.path ?? '/');
  const value = request.call ? await object[request.call](...(request.arguments ?? [])) : await object.read(request.read);
  const statistics = Object.fromEntries(Object.entries(file.statistics).map(([name, now]) => [name, now - before[name]]));
  return { value: plain(value), statistics, all: file.statistics };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = await run(JSON.parse(line));
  } catch (error) {
    answer = { error: { name: error.name, kind: error.kind, message: error.message, object: error.object, offset: error.offset } };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
