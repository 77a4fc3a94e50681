// The WebAssembly module: requests and answers are bytes in its memory.

import { HyperchunkError } from './error.js';

let current = null;

/** Returns the module that new files use, after loading it if needed. */
export function loadCore(wasm) {
  if (current === null || wasm !== undefined) {
    const loading = instantiate(wasm).then((exports) => new Core(exports));
    current = loading;
    // A failed load is tried again.
    loading.catch(() => {
      if (current === loading) current = null;
    });
  }
  return current;
}

async function instantiate(wasm) {
  const source = wasm ?? new URL('../hyperchunk.wasm', import.meta.url);
  try {
    if (source instanceof WebAssembly.Module) return (await WebAssembly.instantiate(source, {})).exports;
    return (await WebAssembly.instantiate(await moduleBytes(source), {})).instance.exports;
  } catch (cause) {
    throw new HyperchunkError('Io', `cannot load the WebAssembly module ${describe(source)}: ${cause.message}`, { cause });
  }
}

async function moduleBytes(source) {
  if (ArrayBuffer.isView(source) || source instanceof ArrayBuffer) return source;
  const url = new URL(source, globalThis.location?.href);
  if (url.protocol === 'file:') {
    // Only Node has such URLs; bundlers for browsers leave a name in a variable alone.
    const name = 'node:fs/promises';
    return (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)).readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return response.arrayBuffer();
}

function describe(source) {
  return typeof source === 'string' || source instanceof URL ? String(source) : '(given as bytes)';
}

class Core {
  #exports;
  #broken = null;
  #encoder = new TextEncoder();
  #decoder = new TextDecoder();

  constructor(exports) {
    this.#exports = exports;
  }

  /** Sends a request; returns the answer's JSON, with its buffers of values. */
  call(request) {
    this.#input(this.#encoder.encode(JSON.stringify(request)));
    return this.#guarded(() => {
      this.#exports.hc_call();
      const answer = JSON.parse(this.#decoder.decode(this.#output(0)));
      const buffers = [];
      if (answer.ok !== undefined) {
        for (let number = 1; this.#exports.hc_output(number) !== 0; number += 1) {
          buffers.push(this.#output(number).slice().buffer);
        }
      }
      this.#exports.hc_clear();
      return { answer, buffers };
    });
  }

  /** Passes fetched bytes of a file to the module. */
  provide(file, operation, offset, bytes) {
    this.#input(bytes);
    this.#guarded(() => this.#exports.hc_provide(file, operation, offset));
  }

  #output(number) {
    const start = this.#exports.hc_output(number) >>> 0;
    const length = this.#exports.hc_output_length(number) >>> 0;
    return new Uint8Array(this.#exports.memory.buffer, start, length);
  }

  #input(bytes) {
    this.#guarded(() => {
      const place = this.#exports.hc_input(bytes.length) >>> 0;
      if (place === 0) {
        throw new HyperchunkError('Limit', `no memory for ${bytes.length} bytes; read a smaller part`);
      }
      new Uint8Array(this.#exports.memory.buffer, place, bytes.length).set(bytes);
    });
  }

  /** Calls the module. After a trap its state is undefined, so it is not called again, and new files load another one. */
  #guarded(run) {
    if (this.#broken !== null) {
      throw new HyperchunkError('Internal', `the reader stopped before (${this.#broken}); open the file again`);
    }
    try {
      return run();
    } catch (cause) {
      if (cause instanceof HyperchunkError) throw cause;
      this.#broken = this.#reason(cause);
      current = null;
      throw new HyperchunkError('Internal', `the reader stopped: ${this.#broken}; open the file again`, { cause });
    }
  }

  #reason(cause) {
    try {
      const text = this.#decoder.decode(this.#output(0));
      return text.startsWith('panicked') ? text : cause.message;
    } catch {
      return cause.message;
    }
  }
}
