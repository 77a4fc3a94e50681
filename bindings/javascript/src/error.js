/** Error of the reader, with its kind, and the object, file and offset that it concerns. */
export class HyperchunkError extends Error {
  constructor(kind, message, { object = null, file = null, offset = null, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'HyperchunkError';
    this.kind = kind;
    this.object = object;
    this.file = file;
    this.offset = offset;
  }

  /** Returns the error that an answer of the core describes. */
  static from(found) {
    return new HyperchunkError(found.kind, found.message, found);
  }
}
