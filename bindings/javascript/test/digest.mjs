// Prints digests of all objects of files, one JSON object a line, in the form of `hyperchunk dump --digest`. They are
// computed from the values that the package returns, not from the stored bytes.
//
//     node digest.mjs < LIST_OF_PATHS

import { createHash } from 'node:crypto';
import { existsSync, openAsBlob } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { HyperchunkError, open } from '../src/index.js';

/** Converts a number to the bits of a half. All halves are exact in `value`. */
function half(value) {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size === Infinity) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | Math.round(size / 2 ** -24);
  const exponent = Math.floor(Math.log2(size));
  return sign | ((exponent + 15) << 10) | Math.round((size / 2 ** exponent - 1) * 1024);
}

/** Collects the canonical bytes of elements. */
class Canonical {
  constructor(encoding) {
    this.hash = createHash('sha256');
    this.encoding = encoding;
  }

  integer(value, size) {
    let left = BigInt(value);
    const bytes = new Uint8Array(size);
    for (let at = 0; at < size; at += 1, left >>= 8n) bytes[at] = Number(left & 255n);
    this.hash.update(bytes);
  }

  float(value, size) {
    const view = new DataView(new ArrayBuffer(size));
    if (size === 2) view.setUint16(0, half(value), true);
    else if (size === 4) view.setFloat32(0, value, true);
    else if (size === 8) view.setFloat64(0, value, true);
    else throw new HyperchunkError('Untested', `numbers of ${size} bytes`);
    this.hash.update(new Uint8Array(view.buffer));
  }

  element(dtype, all, at) {
    switch (dtype.class) {
      case 'integer':
      case 'bitfield':
      case 'time':
        return this.integer(all[at], dtype.size);
      case 'enum':
        return this.element(dtype.base, all, at);
      case 'float':
        return this.float(all[at], dtype.size);
      case 'reference':
        return this.integer(all[at], 8);
      case 'opaque':
        return this.hash.update(all[at]);
      case 'string': {
        const bytes = Buffer.from(all[at], this.encoding);
        if (dtype.variable) {
          this.integer(bytes.length, 8);
          return this.hash.update(bytes);
        }
        this.hash.update(bytes);
        return this.hash.update(Buffer.alloc(Math.max(0, dtype.size - bytes.length)));
      }
      case 'compound': {
        const members = [...dtype.members];
        if (inHeap(dtype)) members.sort((one, other) => one.offset - other.offset);
        for (const member of members) this.element(member.dtype, all[member.name], at);
        return undefined;
      }
      case 'array': {
        const each = dtype.shape.reduce((product, length) => product * length, 1);
        for (let item = 0; item < each; item += 1) this.element(dtype.base, all, at * each + item);
        return undefined;
      }
      case 'complex':
        this.element(dtype.base, all, 2 * at);
        return this.element(dtype.base, all, 2 * at + 1);
      case 'sequence': {
        const count = lengthOf(dtype.base, all[at]);
        this.integer(count, 8);
        for (let item = 0; item < count; item += 1) this.element(dtype.base, all[at], item);
        return undefined;
      }
      default:
        throw new Error(`no digest of ${dtype.class}`);
    }
  }
}

function inHeap(dtype) {
  if (dtype.class === 'reference' || dtype.class === 'sequence' || (dtype.class === 'string' && dtype.variable)) return true;
  if (dtype.members && dtype.class === 'compound') return dtype.members.some((member) => inHeap(member.dtype));
  return dtype.base ? inHeap(dtype.base) : false;
}

/** Returns the number of elements in a list of values. */
function lengthOf(dtype, all) {
  if (dtype.class === 'array') return lengthOf(dtype.base, all) / dtype.shape.reduce((product, length) => product * length, 1);
  if (dtype.class === 'complex') return all.length / 2;
  if (dtype.class === 'compound') return lengthOf(dtype.members[0].dtype, all[dtype.members[0].name]);
  return all.length;
}

/** Returns digests of values, with texts as UTF-8 and as Latin-1: which of them it was is not in a string. */
function digest(dtype, all) {
  if (all === null) return { digest: 'null' };
  const [utf8, latin1] = ['utf8', 'latin1'].map((encoding) => {
    const sum = new Canonical(encoding);
    const count = lengthOf(dtype, all);
    for (let at = 0; at < count; at += 1) sum.element(dtype, all, at);
    return sum.hash.digest('hex');
  });
  return { digest: utf8, latin1 };
}

/** Wraps the value of a scalar into lists again. */
function listed(dtype, value) {
  if (value === null || ArrayBuffer.isView(value) || Array.isArray(value)) return dtype.class === 'opaque' || dtype.class === 'sequence' ? [value] : value;
  if (dtype.class !== 'compound') return [value];
  return Object.fromEntries(dtype.members.map((member) => [member.name, listed(member.dtype, value[member.name])]));
}

async function describe(object) {
  const found = { kind: object.kind === 'datatype' ? 'type' : object.kind, attrs: {} };
  try {
    for (const { name, dtype, shape, value, error } of await object.attributeList()) {
      try {
        if (error) throw error;
        found.attrs[name] = digest(dtype, shape !== null && shape.length === 0 ? listed(dtype, value) : value);
      } catch (problem) {
        found.attrs[name] = { error: `${problem.kind}: ${problem.message}` };
      }
    }
    if (object.kind === 'dataset') {
      const { data } = await object.read();
      Object.assign(found, digest(object.dtype, data));
    }
  } catch (problem) {
    found.error = `${problem.kind}: ${problem.message}`;
  }
  return found;
}

async function walk(file, object, path, seen, objects) {
  if (seen.has(object.address)) return;
  seen.add(object.address);
  objects[path] = await describe(object);
  if (object.kind !== 'group') return;
  const links = await object.links();
  links.sort((one, other) => Buffer.compare(Buffer.from(one.name), Buffer.from(other.name)));
  for (const link of links) {
    if (link.link !== 'hard') continue;
    const below = `${path === '/' ? '' : path}/${link.name}`;
    try {
      await walk(file, await file.get(below), below, seen, objects);
    } catch (problem) {
      objects[below] = { error: `${problem.kind}: ${problem.message}` };
    }
  }
}

async function dump(path) {
  const external = (name) => {
    const beside = join(dirname(path), name);
    return existsSync(beside) ? openAsBlob(beside) : null;
  };
  const objects = {};
  try {
    const file = await open(await openAsBlob(path), { name: path, external });
    await walk(file, file.root, '/', new Set(), objects);
    file.close();
    return { path, objects };
  } catch (problem) {
    return { path, objects, error: `${problem.kind}: ${problem.message}` };
  }
}

for await (const path of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await dump(path))}\n`);
}
