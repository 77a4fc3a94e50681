// HDF5 files, read by the WebAssembly module: it plans which bytes it needs, and this side fetches them.

import { loadCore } from './core.js';
import { HyperchunkError } from './error.js';
import { openHost } from './host.js';
import { fullShape, single, values } from './values.js';

export { HyperchunkError };

/** Maximum number of requests in flight, and of round trips of one operation. */
const CONNECTIONS = 6;
const MAX_ROUNDS = 10_000;
/** Ranges that are at most this many bytes apart are fetched together. */
const GAP = 4096;

/** Loads the WebAssembly module from another location: a URL, bytes, or a compiled module. */
export async function init(wasm) {
  await loadCore(wasm);
}

/** Opens a file by its URL, or a Blob, a File, or bytes. */
export async function open(input, options = {}) {
  const statistics = { requests: 0, bytes: 0, retries: 0, rounds: 1 };
  const [core, opened] = await Promise.all([loadCore(), openHost(input, options, statistics)]);
  const file = new File(core, opened, options, statistics);
  try {
    await file._start(opened.first);
  } catch (error) {
    file.close();
    throw error;
  }
  return file;
}

/** An open file. */
class File {
  #core;
  #hosts = new Map();
  #id;
  #external;
  #options;
  #operations = 0;
  #closed = false;

  constructor(core, { host }, options, statistics) {
    this.#core = core;
    this.#options = options;
    this.#external = options.external ?? (host.sibling === undefined ? 'never' : 'beside');
    this.#id = this.#answer({ op: 'source', size: host.size, name: host.name }).value;
    this.#hosts.set(this.#id, host);
    /** Requests made, bytes received, requests repeated, and round trips in sequence. */
    this.statistics = statistics;
    /** Name of the file in messages; `null` for bytes. */
    this.name = host.name;
    /** Size in bytes. */
    this.size = host.size;
    this.root = null;
  }

  async _start(first) {
    const external = typeof this.#external === 'function' ? 'anywhere' : this.#external;
    if (!['anywhere', 'beside', 'never'].includes(external)) {
      throw new HyperchunkError('Invalid', `expected external as 'beside', 'never' or a function, got ${external}`);
    }
    await this._run({ op: 'open', external }, first);
    this.root = await this.get('/');
  }

  /** Returns the object at a path, or at the address that a reference holds. */
  async get(path) {
    const target = typeof path === 'string' ? { path: path.startsWith('/') ? path : `/${path}` } : { address: Number(path) };
    const { value } = await this._run({ op: 'object', ...target });
    const kinds = { group: Group, dataset: Dataset, datatype: Datatype };
    return new kinds[value.kind](this, target, value);
  }

  /** Frees the memory of the file. */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#hosts.clear();
    try {
      this.#core.call({ op: 'close', file: this.#id, operation: 0 });
    } catch (error) {
      // A reader that stopped holds nothing.
      if (error.kind !== 'Internal') throw error;
    }
  }

  #answer(request) {
    const { answer, buffers } = this.#core.call(request);
    if (answer.error) throw HyperchunkError.from(answer.error);
    return { value: answer.ok, buffers, need: answer.need, files: answer.files };
  }

  /** Runs a request of the core until it has a result, and fetches what it needs in between. */
  async _run(request, first) {
    if (this.#closed) throw new HyperchunkError('Invalid', 'the file is closed', { file: this.name });
    this.#operations = (this.#operations % 0xffff_ffff) + 1;
    const operation = this.#operations;
    if (first?.length) this.#core.provide(this.#id, operation, 0, first);
    let done = false;
    try {
      for (let round = 0; round < MAX_ROUNDS; round += 1) {
        const answer = this.#answer({ ...request, file: this.#id, operation });
        if (answer.need === undefined) {
          done = true;
          return answer;
        }
        this.statistics.rounds += 1;
        await Promise.all([this.#fetch(answer.need, operation), this.#open(answer.files)]);
        if (this.#closed) throw new HyperchunkError('Invalid', 'the file was closed', { file: this.name });
      }
      throw new HyperchunkError('Limit', `more than ${MAX_ROUNDS} round trips`, { file: this.name });
    } finally {
      if (!done && !this.#closed) this.#end(operation);
    }
  }

  #end(operation) {
    try {
      this.#core.call({ op: 'end', file: this.#id, operation });
    } catch (error) {
      if (error.kind !== 'Internal') throw error;
    }
  }

  async #fetch(need, operation) {
    const left = joined(need);
    let failed = false;
    const work = async () => {
      while (left.length > 0 && !failed) {
        const { file, start, end } = left.shift();
        try {
          const bytes = await this.#hosts.get(file).read(start, end);
          if (bytes.length !== end - start) {
            throw new HyperchunkError('Truncated', `expected ${end - start} bytes, got ${bytes.length}`, { offset: start });
          }
          if (!this.#closed) this.#core.provide(file, operation, start, bytes);
        } catch (error) {
          failed = true;
          throw error;
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(CONNECTIONS, left.length) }, work));
  }

  /** Opens the files to which files refer. */
  async #open(names) {
    const seen = new Set();
    const unique = names.filter(([parent, name]) => !seen.has(`${parent} ${name}`) && seen.add(`${parent} ${name}`));
    await Promise.all(
      unique.map(async ([parent, link]) => {
        const opened = await this.#sibling(this.#hosts.get(parent), link);
        if (!opened) {
          this.#answer({ op: 'source', parent, link, missing: true });
          return;
        }
        const { host } = opened;
        const { value } = this.#answer({ op: 'source', parent, link, size: host.size, name: host.name });
        this.#hosts.set(value, host);
      }),
    );
  }

  async #sibling(host, link) {
    if (typeof this.#external !== 'function') return host.sibling(link);
    const found = await this.#external(link);
    return found === null || found === undefined ? null : openHost(found, this.#options, this.statistics);
  }
}

/** Joins ranges of files that overlap or are close. */
function joined(need) {
  const sorted = [...need].sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  const ranges = [];
  for (const [file, start, end] of sorted) {
    const last = ranges.at(-1);
    if (last !== undefined && last.file === file && start <= last.end + GAP) {
      last.end = Math.max(last.end, end);
    } else {
      ranges.push({ file, start, end });
    }
  }
  return ranges;
}

/** Base of groups, datasets and committed datatypes. */
class HdfObject {
  constructor(file, target, { kind, address }) {
    this.file = file;
    this._target = target;
    /** Path by which the object was opened; `null` if it was opened by its address. */
    this.path = target.path ?? null;
    this.kind = kind;
    /** Address of the object header, which identifies the object in its file. */
    this.address = address;
  }

  _run(op, more = {}) {
    return this.file._run({ op, ...this._target, ...more });
  }

  /** Returns all attributes, each with name, dtype, shape and value, or an error. */
  async attributeList() {
    const { value, buffers } = await this._run('attributes');
    return value.map(({ name, dtype, shape, column, error }) => {
      if (error) return { name, dtype: null, shape: null, value: undefined, error: HyperchunkError.from(error) };
      if (shape === null) return { name, dtype, shape, value: null, error: null };
      const whole = fullShape(shape, column);
      const all = values(column, buffers);
      return { name, dtype, shape: whole, value: whole.length === 0 ? single(all) : all, error: null };
    });
  }

  /** Returns the values of all attributes by name. Access to one that cannot be read throws its error. */
  async attributes() {
    const found = Object.create(null);
    for (const { name, value, error } of await this.attributeList()) {
      const get = () => {
        throw error;
      };
      Object.defineProperty(found, name, error ? { get, enumerable: true } : { value, enumerable: true });
    }
    return found;
  }
}

/** A group. */
class Group extends HdfObject {
  /** Returns the names of its links. */
  async keys() {
    return (await this.links()).map(({ name }) => name);
  }

  /** Returns its links with their targets. */
  async links() {
    return (await this._run('links')).value;
  }

  /** Returns its links with the objects to which they lead: kind, and for datasets shape, dtype and so on, or an error. */
  async members() {
    const { value } = await this._run('members');
    return value.map((member) => ({ ...member, error: member.error ? HyperchunkError.from(member.error) : null }));
  }

  /** Returns the object at a path below this group, or from the root if it starts with `/`. */
  async get(path) {
    if (path.startsWith('/')) return this.file.get(path);
    if (this.path === null) {
      const link = (await this.links()).find(({ name }) => name === path);
      if (link?.link === 'hard') return this.file.get(BigInt(link.address));
      throw new HyperchunkError('NotFound', `cannot find ${path} in a group that was opened by its address`);
    }
    return this.file.get(`${this.path.replace(/\/+$/, '')}/${path}`);
  }

  /** Fetches all structure below this group in few round trips, so that later calls need none. */
  async prefetch() {
    await this._run('prefetch');
  }
}

/** A dataset. */
class Dataset extends HdfObject {
  constructor(file, target, described) {
    super(file, target, described);
    const { dtype, shape, maxShape, layout, chunks, filters } = described;
    Object.assign(this, { dtype, shape, maxShape, layout, chunks, filters });
  }

  /** Reads elements: a box with `start` and `count`, every `step`-th; all of them by default. */
  async read({ start, count, step } = {}) {
    const { value, buffers } = await this._run('read', { start: whole(start), count: whole(count), step: whole(step) });
    if (value.shape === null) return { data: null, shape: null, dtype: this.dtype };
    return { data: values(value.column, buffers), shape: fullShape(value.shape, value.column), dtype: this.dtype };
  }
}

/** Converts a list to JSON numbers; `null` if there is none. */
function whole(list) {
  return list === undefined || list === null ? null : Array.from(list, Number);
}

/** A committed datatype. */
class Datatype extends HdfObject {
  constructor(file, target, described) {
    super(file, target, described);
    this.dtype = described.dtype;
  }
}

export { Dataset, Datatype, File as HyperchunkFile, Group };
