// Hosts of files: web servers, blobs and memory. Each has a size, and reads ranges of bytes.

import { HyperchunkError } from './error.js';

/** Number of bytes of the first request for a file. */
const FIRST_BYTES = 64 * 1024;
/** Maximum size of a file that is fetched whole, from a server without range requests. */
const MAX_WHOLE_BYTES = 512 * 1024 * 1024;
/** Number of attempts of a request, and the pause before the second one in milliseconds. */
const ATTEMPTS = 4;
const PAUSE = 200;

/** Opens a URL, a blob, or bytes. Returns the host, and the first bytes if they were fetched with it. */
export async function openHost(input, options, statistics) {
  if (typeof input === 'string' || input instanceof URL) {
    let url;
    try {
      url = new URL(input, globalThis.location?.href);
    } catch (cause) {
      throw new HyperchunkError('Invalid', `cannot open ${input}: expected a URL, a Blob, a File or bytes`, { cause });
    }
    return HttpHost.open(url, options, statistics);
  }
  if (typeof Blob !== 'undefined' && input instanceof Blob) return { host: new BlobHost(input, options) };
  if (input instanceof ArrayBuffer || (typeof SharedArrayBuffer !== 'undefined' && input instanceof SharedArrayBuffer)) {
    return { host: new MemoryHost(new Uint8Array(input), options) };
  }
  if (ArrayBuffer.isView(input)) {
    return { host: new MemoryHost(new Uint8Array(input.buffer, input.byteOffset, input.byteLength), options) };
  }
  throw new HyperchunkError('Invalid', `cannot open a ${typeof input}: expected a URL, a Blob, a File or bytes`);
}

class MemoryHost {
  constructor(bytes, options) {
    this.bytes = bytes;
    this.size = bytes.length;
    this.name = options.name ?? null;
  }

  async read(start, end) {
    return this.bytes.subarray(start, end);
  }

  sibling() {
    return null;
  }
}

class BlobHost {
  constructor(blob, options) {
    this.blob = blob;
    this.size = blob.size;
    this.name = options.name ?? blob.name ?? null;
  }

  async read(start, end) {
    try {
      return new Uint8Array(await this.blob.slice(start, end).arrayBuffer());
    } catch (cause) {
      // Browsers refuse to read a file that was changed after the user chose it.
      const message = `cannot read bytes ${start} to ${end} of the file: ${cause.message}; choose it again`;
      throw new HyperchunkError('Io', message, { file: this.name, offset: start, cause });
    }
  }

  sibling() {
    return null;
  }
}

class HttpHost {
  /** Makes the first request, which returns size, version and the first bytes. */
  static async open(url, options, statistics) {
    const host = new HttpHost(url, options, statistics);
    const response = await host.#request(0, FIRST_BYTES);
    host.version = versionOf(response.headers);
    if (response.status === 416) {
      host.size = Number(/\/(\d+)$/.exec(response.headers.get('Content-Range') ?? '')?.[1] ?? 0);
      return { host, first: new Uint8Array(0) };
    }
    if (response.status === 200) return host.#whole(response);
    const first = await host.#body(response, 0);
    const said = /\/(\d+)$/.exec(response.headers.get('Content-Range') ?? '')?.[1];
    if (said !== undefined) {
      host.size = Number(said);
    } else if (first.length < FIRST_BYTES) {
      host.size = first.length;
    } else {
      // The server does not expose that header to pages of other origins.
      host.size = await host.#sizeByHead();
    }
    return { host, first };
  }

  constructor(url, options, statistics) {
    this.url = url;
    this.options = options;
    this.statistics = statistics;
    this.name = shown(url);
    this.size = 0;
    this.version = null;
  }

  async read(start, end) {
    const response = await this.#request(start, end);
    if (response.status !== 206) {
      await response.body?.cancel();
      throw this.#error('Io', `expected part of the file, got status ${response.status}`, start);
    }
    const version = versionOf(response.headers);
    if (version !== this.version) {
      throw this.#error('Changed', `expected the version ${this.version}, got ${version}; open the file again`, start);
    }
    const bytes = await this.#body(response, start);
    if (bytes.length !== end - start) {
      throw this.#error('Io', `expected ${end - start} bytes, got ${bytes.length}`, start);
    }
    return bytes;
  }

  /** Opens a file to which this one refers, in its folder or below; `null` for others. */
  async sibling(name) {
    const folder = new URL('.', this.url);
    const url = new URL(name.split('/').map(encodeURIComponent).join('/'), folder);
    if (url.origin !== folder.origin || !url.pathname.startsWith(folder.pathname)) return null;
    url.search = this.url.search;
    try {
      return await HttpHost.open(url, this.options, this.statistics);
    } catch (error) {
      if (error.kind === 'NotFound') return null;
      throw error;
    }
  }

  /** Reads the whole file from a server that ignores ranges. */
  async #whole(response) {
    const length = Number(response.headers.get('Content-Length') ?? 0);
    if (length > MAX_WHOLE_BYTES) {
      await response.body?.cancel();
      const message = `the server answers no range requests, and the file has ${length} bytes; download it, and open it as a File`;
      throw this.#error('Unsupported', message, 0);
    }
    const bytes = await this.#body(response, 0);
    return { host: new MemoryHost(bytes, { name: this.name }), first: bytes };
  }

  async #sizeByHead() {
    const response = await this.#attempts(0, { method: 'HEAD' });
    const length = response.headers.get('Content-Length');
    if (!response.ok || length === null) {
      const message = 'cannot determine the size: the server must expose the header Content-Range, or answer HEAD';
      throw this.#error('Unsupported', message, 0);
    }
    return Number(length);
  }

  async #request(start, end) {
    const response = await this.#attempts(start, { headers: { Range: `bytes=${start}-${end - 1}` } });
    if (response.ok || (response.status === 416 && start === 0)) return response;
    await response.body?.cancel();
    const kind = response.status === 404 || response.status === 410 ? 'NotFound' : 'Io';
    throw this.#error(kind, `the server answered ${response.status} ${response.statusText}`.trim(), start);
  }

  async #attempts(start, { headers = {}, ...init }) {
    // Browsers send requests for one URL one after another if the answers may be cached.
    const { fetch: fetcher = globalThis.fetch, headers: given = {}, credentials, signal, cache = 'no-store' } = this.options;
    for (let attempt = 1; ; attempt += 1) {
      let failure;
      try {
        this.statistics.requests += 1;
        const all = { ...Object.fromEntries(new Headers(given)), ...headers };
        const response = await fetcher(this.url.href, { ...init, headers: all, credentials, signal, cache });
        if ((response.status < 500 && response.status !== 429) || attempt === ATTEMPTS) return response;
        await response.body?.cancel();
      } catch (cause) {
        if (signal?.aborted) throw cause;
        failure = cause;
      }
      if (attempt === ATTEMPTS) {
        const reason = failure.cause?.message ?? failure.message;
        throw this.#error('Io', `${reason}; the server may be out of reach, or may not allow this page (CORS)`, start, failure);
      }
      this.statistics.retries += 1;
      await new Promise((resolve) => setTimeout(resolve, PAUSE * 2 ** (attempt - 1)));
    }
  }

  async #body(response, start) {
    try {
      const bytes = new Uint8Array(await response.arrayBuffer());
      this.statistics.bytes += bytes.length;
      return bytes;
    } catch (cause) {
      throw this.#error('Io', `the answer was cut off: ${cause.message}`, start, cause);
    }
  }

  #error(kind, message, offset, cause) {
    return new HyperchunkError(kind, `cannot read ${this.name}: ${message}`, { file: this.name, offset, cause });
  }
}

function versionOf(headers) {
  return headers.get('ETag') ?? headers.get('Last-Modified');
}

/** Returns a URL without user, password and query, which may be secret. */
function shown(url) {
  return `${url.origin}${url.pathname}${url.search ? '?…' : ''}`;
}
