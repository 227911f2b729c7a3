import { isUtf8 } from 'node:buffer';
import { errorMessage, whyUnsafe } from '../../base/index.ts';
import { ApiError, badRequest } from '../errors.ts';
import { decodeProtobuf, protobufType } from './protobuf/decode.ts';
import { parseYamlText } from './yaml-body.ts';

export const maxBodyBytes = 3 * 1024 * 1024;

const maxDepth = 256;

/** `application/json` out of `application/json; charset=utf-8`. */
export function mediaType(header: string | undefined): string {
  return (header ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** Bodies of these types are JSON texts: objects and patches. */
export function isJson(contentType: string | undefined): boolean {
  const type = mediaType(contentType);
  return type === '' || type === 'application/json' || type.endsWith('+json');
}

/** Value of a request body of a write. Throws ApiError: BAD_REQUEST with the position, UNSUPPORTED_MEDIA_TYPE. */
export function parseBody(body: Buffer, contentType: string | undefined): unknown {
  const type = mediaType(contentType);
  if (type === 'application/yaml') return parseYaml(textOf(body));
  if (type === 'application/json' || type === '') return parseJson(textOf(body));
  if (type === protobufType) return decodeProtobuf(body);
  throw unsupported(type, ['application/json', 'application/yaml']);
}

/** Other bytes would be stored as signs that nobody wrote. Throws ApiError BAD_REQUEST. */
export function textOf(body: Buffer): string {
  if (!isUtf8(body)) throw badRequest('the body is no UTF-8 text');
  return body.toString('utf8');
}

export function unsupported(type: string, accepted: readonly string[], hint = ''): ApiError {
  const text = `the body of the request was in an unknown format "${type}" - accepted media types include: `;
  return new ApiError('UNSUPPORTED_MEDIA_TYPE', `${text}${accepted.join(', ')}${hint}`);
}

export function parseJson(text: string): unknown {
  if (text.trim() === '') throw badRequest('the body is empty: an object is needed');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw badRequest(`the body is no JSON: ${describeJsonError(text, errorMessage(error))}`, error);
  }
  refuseUnsafe(value);
  return value;
}

/** Adds line and column to the offset that V8 names; an unfinished text ends at its end. */
function describeJsonError(text: string, message: string): string {
  const found = /at position (\d+)/.exec(message);
  const offset = found ? Number(found[1]) : text.length;
  const before = text.slice(0, offset).split('\n');
  const plain = message.replace(/ in JSON at position \d+.*$/s, '').slice(0, 200);
  return `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}: ${plain}`;
}

export function parseYaml(text: string): unknown {
  const value = parseYamlText(text, maxDepth);
  if (value === null || value === undefined) throw badRequest('the body is empty: an object is needed');
  refuseUnsafe(value);
  return value;
}

function refuseUnsafe(value: unknown): void {
  const problem = whyUnsafe(value, maxDepth);
  if (problem !== undefined) throw badRequest(problem);
}
