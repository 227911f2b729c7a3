import { Transform, type TransformCallback } from 'node:stream';
import { NodeError } from '../errors.ts';

const fieldName = 'file';
const maxHeadBytes = 8 * 1024;
/** RFC 2046, 5.1.1. */
const maxBoundary = 70;
const headEnd = Buffer.from('\r\n\r\n');

/**
 * Takes the bytes of a form (multipart/form-data, RFC 7578) and gives those of its file `file`, as it comes; other fields are passed over. Fails with NodeError
 * DISK_REFUSED: what is no form, one without that file or with two, one that ends too early.
 */
export class FormFile extends Transform {
  readonly #delimiter: Buffer;
  /** The first boundary has no line before it. */
  #bytes = Buffer.from('\r\n');
  #at: 'between' | 'boundary' | 'head' | 'file' | 'end' = 'between';
  #hasFile = false;

  /** Of the header Content-Type. Throws NodeError DISK_REFUSED. */
  constructor(contentType: string | undefined) {
    super();
    const [type = '', ...parameters] = (contentType ?? '').split(';').map((part) => part.trim());
    const boundary = parameters.map((each) => textAfter(each, 'boundary')).find((value) => value !== undefined);
    if (type.toLowerCase() !== 'multipart/form-data' || !boundary || boundary.length > maxBoundary) {
      throw refused('is no form: Content-Type: multipart/form-data; boundary=…');
    }
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    try {
      while (this.#step());
      done();
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)));
    }
  }

  override _flush(done: TransformCallback): void {
    if (this.#at !== 'end') done(refused('ends before its last boundary'));
    else done(this.#hasFile ? null : refused(`has no field ${fieldName}`));
  }

  /** Whether there may be another one in what has come. */
  #step(): boolean {
    switch (this.#at) {
      case 'between':
      case 'file':
        return this.#untilDelimiter(this.#at === 'file');
      case 'boundary':
        return this.#boundary();
      case 'head':
        return this.#head();
      case 'end':
        this.#bytes = Buffer.alloc(0);
        return false;
    }
  }

  #untilDelimiter(isFile: boolean): boolean {
    const found = this.#bytes.indexOf(this.#delimiter);
    // Its begin may have come already.
    const length = found >= 0 ? found : Math.max(0, this.#bytes.length - this.#delimiter.length + 1);
    if (isFile && length > 0) this.push(this.#bytes.subarray(0, length));
    this.#bytes = this.#bytes.subarray(found >= 0 ? found + this.#delimiter.length : length);
    if (found >= 0) this.#at = 'boundary';
    return found >= 0;
  }

  #boundary(): boolean {
    if (this.#bytes.length < 2) return false;
    const next = this.#bytes.toString('latin1', 0, 2);
    if (next === '--') this.#at = 'end';
    else if (next === '\r\n') this.#at = 'head';
    else throw refused('has something behind a boundary');
    return true;
  }

  /** It begins with the end of the boundary's line, and may have no line of its own. */
  #head(): boolean {
    const end = this.#bytes.indexOf(headEnd);
    if (end > maxHeadBytes || (end < 0 && this.#bytes.length > maxHeadBytes))
      throw refused('has a field with a long head');
    if (end < 0) return false;
    const isFile = namesFile(this.#bytes.toString('utf8', 0, end));
    if (isFile && this.#hasFile) throw refused(`has two fields ${fieldName}`);
    this.#hasFile ||= isFile;
    this.#bytes = this.#bytes.subarray(end + headEnd.length);
    this.#at = isFile ? 'file' : 'between';
    return true;
  }
}

function namesFile(head: string): boolean {
  const line = head.split('\r\n').find((each) => each.toLowerCase().startsWith('content-disposition:'));
  const [kind = '', ...parameters] = (line ?? '').split(';').map((part) => part.trim());
  const isField = kind.toLowerCase().endsWith('form-data');
  return isField && parameters.some((each) => textAfter(each, 'name') === fieldName);
}

/** `name=value` or `name="value"`; undefined: it is another one. */
function textAfter(parameter: string, name: string): string | undefined {
  const at = parameter.indexOf('=');
  if (at < 0 || parameter.slice(0, at).toLowerCase() !== name) return undefined;
  const value = parameter.slice(at + 1);
  return value.startsWith('"') && value.endsWith('"') && value.length > 1 ? value.slice(1, -1) : value;
}

function refused(why: string): NodeError {
  return new NodeError('DISK_REFUSED', `the upload ${why}`);
}
