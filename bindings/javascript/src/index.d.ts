/** Reads HDF5 files by URL, in browsers and Node. */

/** Category of an error. */
export type ErrorKind =
  | 'NotHdf5'
  | 'Truncated'
  | 'Corrupt'
  | 'Unsupported'
  | 'MissingFilter'
  | 'Filter'
  | 'Locked'
  | 'Limit'
  | 'NotFound'
  | 'Invalid'
  | 'Conversion'
  | 'Io'
  | 'Changed'
  | 'Internal';

/** Error of the reader, with the object, file and offset that it concerns. */
export class HyperchunkError extends Error {
  readonly name: 'HyperchunkError';
  readonly kind: ErrorKind;
  /** Path of the object. */
  readonly object: string | null;
  /** Name of the file. */
  readonly file: string | null;
  /** Offset in bytes from the start of the file. */
  readonly offset: number | null;
}

export interface OpenOptions {
  /** Headers of all requests, for example `Authorization`. */
  headers?: HeadersInit;
  /** Cookies and passwords of requests, as for `fetch`. */
  credentials?: RequestCredentials;
  /** Use of the browser's cache, as for `fetch`; `'no-store'` by default, so that requests run side by side. */
  cache?: RequestCache;
  /** Ends all requests when it is aborted. */
  signal?: AbortSignal;
  /** A function in place of `fetch`. */
  fetch?: typeof fetch;
  /** Name of the file in messages. */
  name?: string;
  /**
   * Other files to which the file refers: targets of external links, sources of virtual datasets. `'beside'` opens those in the
   * file's folder and below it, by URL; `'never'` none. A function returns the file of a name, or `null`.
   */
  external?: 'beside' | 'never' | ((name: string) => Input | null | undefined | Promise<Input | null | undefined>);
}

/** What can be opened: a URL, a file that a user chose, or the bytes of a file. */
export type Input = string | URL | Blob | ArrayBufferLike | ArrayBufferView;

/** Opens a file. Throws a {@link HyperchunkError} if it cannot be read. */
export function open(input: Input, options?: OpenOptions): Promise<HyperchunkFile>;

/** Loads the WebAssembly module from another location than this package's folder. */
export function init(wasm?: string | URL | BufferSource | WebAssembly.Module): Promise<void>;

export interface Statistics {
  /** Requests made, repeated ones included. */
  requests: number;
  /** Bytes received. */
  bytes: number;
  /** Requests that were repeated. */
  retries: number;
  /** Round trips in sequence. */
  rounds: number;
}

export class HyperchunkFile {
  private constructor();
  readonly root: Group;
  readonly name: string | null;
  /** Size in bytes. */
  readonly size: number;
  readonly statistics: Statistics;
  /** Returns the object at a path, or at the address that a reference holds. */
  get(path: string | bigint): Promise<Group | Dataset | Datatype>;
  /** Frees the memory of the file. */
  close(): void;
}

/** Type of elements. `size` is the number of bytes in the file. */
export type DType =
  | { class: 'integer'; size: number; signed: boolean; order: ByteOrder; precision: number; offset: number }
  | { class: 'float'; size: number; order: ByteOrder; precision: number; exponent: number; mantissa: number }
  | { class: 'bitfield'; size: number; order: ByteOrder; precision: number; offset: number }
  | { class: 'time'; size: number; order: ByteOrder; precision: number }
  | { class: 'string'; size: number; variable: boolean; charset: 'ascii' | 'utf-8'; padding: string }
  | { class: 'opaque'; size: number; tag: string }
  | { class: 'compound'; size: number; members: { name: string; offset: number; dtype: DType }[] }
  | { class: 'reference'; size: number; target: 'object' | 'region' | 'attribute' }
  /** Values beyond 2^53 are texts. */
  | { class: 'enum'; size: number; base: DType; members: { name: string; value: number | string }[] }
  | { class: 'sequence'; size: number; base: DType }
  | { class: 'array'; size: number; shape: number[]; base: DType }
  | { class: 'complex'; size: number; base: DType };

export type ByteOrder = 'little' | 'big' | 'vax';

export type NumberArray =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/**
 * Elements in row-major order: a typed array of numbers, strings, one `Uint8Array` for each opaque element, one list
 * for each sequence, or for compounds an object with the elements of each member.
 */
export type Values = NumberArray | string[] | Uint8Array[] | Values[] | { [member: string]: Values };

/** Value of an attribute: as elements of datasets, or a single value by itself. */
export type AttributeValue = Values | number | bigint | string | Uint8Array | { [member: string]: AttributeValue } | null;

export interface Attribute {
  name: string;
  /** `null` if the attribute cannot be read. */
  dtype: DType | null;
  /** `null` for an attribute without a value. */
  shape: number[] | null;
  value: AttributeValue | undefined;
  /** Reason for which the attribute cannot be read. */
  error: HyperchunkError | null;
}

declare class HdfObject {
  readonly file: HyperchunkFile;
  /** Path by which the object was opened; `null` if it was opened by its address. */
  readonly path: string | null;
  /** Address of the object header, which identifies the object in its file. */
  readonly address: number;
  /** Returns the values of all attributes by name. Access to one that cannot be read throws its error. */
  attributes(): Promise<{ readonly [name: string]: AttributeValue }>;
  /** Returns all attributes, each with its type, shape and value, or an error. */
  attributeList(): Promise<Attribute[]>;
}

export type Link = { name: string } & (
  | { link: 'hard'; address: number }
  | { link: 'soft'; path: string }
  | { link: 'external'; file: string; path: string }
  | { link: 'user'; class: number }
);

export type Member = Link & {
  /** Kind of the object to which the link leads; missing if there is an error. */
  kind?: 'group' | 'dataset' | 'datatype';
  error: HyperchunkError | null;
} & Partial<DatasetProperties>;

export class Group extends HdfObject {
  private constructor();
  readonly kind: 'group';
  /** Returns the names of its links. */
  keys(): Promise<string[]>;
  /** Returns its links with their targets. */
  links(): Promise<Link[]>;
  /** Returns its links with the objects to which they lead. */
  members(): Promise<Member[]>;
  /** Returns the object at a path below this group, or from the root if it starts with `/`. */
  get(path: string): Promise<Group | Dataset | Datatype>;
  /** Fetches all structure below this group in few round trips, so that later calls need none. */
  prefetch(): Promise<void>;
}

export interface Filter {
  /** Number of the filter in HDF5's registry. */
  id: number;
  name: string | null;
  optional: boolean;
  parameters: number[];
}

export interface DatasetProperties {
  dtype: DType;
  /** Extent, slowest dimension first; `null` for a dataset without a value. */
  shape: number[] | null;
  /** Maximum extent; `null` in place of an unlimited dimension. */
  maxShape: (number | null)[] | null;
  layout: 'compact' | 'contiguous' | 'chunked' | 'virtual' | 'external' | 'store';
  /** Extent of a chunk; `null` for other layouts. */
  chunks: number[] | null;
  filters: Filter[];
}

export interface Selection {
  /** First index of each dimension; zeros by default. */
  start?: ArrayLike<number | bigint>;
  /** Number of elements along each dimension; all that follow by default. */
  count?: ArrayLike<number | bigint>;
  /** Distance between elements along each dimension; ones by default. */
  step?: ArrayLike<number | bigint>;
}

export interface Result {
  /** `null` for a dataset without a value. */
  data: Values | null;
  /** Shape of the result: `count`, then the extents of an array datatype. */
  shape: number[] | null;
  dtype: DType;
}

export interface Dataset extends DatasetProperties {}

export class Dataset extends HdfObject {
  private constructor();
  readonly kind: 'dataset';
  /** Reads elements: a box, or all of them. One read returns at most 1 GiB as stored. */
  read(selection?: Selection): Promise<Result>;
}

export class Datatype extends HdfObject {
  private constructor();
  readonly kind: 'datatype';
  readonly dtype: DType;
}
