import type { Response } from 'express';
import { errorMessage } from '../../../base/index.ts';
import type { StreamRequest } from '../../../console/index.ts';
import { RestError } from './errors.ts';

/** What a route answers when all went well. */
export type Answer =
  | { readonly kind: 'empty'; readonly httpStatus: 200 | 202 }
  | { readonly kind: 'json'; readonly value: unknown }
  | { readonly kind: 'picture'; readonly mime: string; readonly data: Buffer }
  | { readonly kind: 'stream'; readonly stream: StreamRequest };

export const accepted: Answer = { kind: 'empty', httpStatus: 202 };

/** Pictures that no browser runs as a page; what a launcher names otherwise is sent as bytes. */
const pictureTypes = /^image\/(png|jpeg|gif|bmp|webp|x-portable-pixmap)$/;
const plainText = 'text/plain; charset=utf-8';

/** Callers decode JSON and show it to people: indented as upstream's. */
export function sendAnswer(answer: Exclude<Answer, { kind: 'stream' }>, response: Response): void {
  response.setHeader('X-Content-Type-Options', 'nosniff').setHeader('Cache-Control', 'no-store');
  switch (answer.kind) {
    case 'empty':
      response.status(answer.httpStatus).end();
      return;
    case 'json': {
      const body = Buffer.from(JSON.stringify(answer.value, undefined, 1));
      // Not by `set`, which adds a charset: JSON has none.
      response.status(200).setHeader('Content-Type', 'application/json').end(body);
      return;
    }
    case 'picture': {
      const type = pictureTypes.test(answer.mime) ? answer.mime : 'application/octet-stream';
      response.status(200).setHeader('Content-Type', type).end(answer.data);
      return;
    }
  }
}

/** The body is the text itself: virt-api passes only text/plain on. */
export function sendError(error: RestError, response: Response): void {
  response.set({ 'X-Content-Type-Options': 'nosniff', 'Content-Type': plainText, ...error.headers });
  response.status(error.httpStatus).end(printable(error.message));
}

/** Express and its body reader throw errors with an HTTP status. */
export function toRestError(error: unknown): RestError {
  if (error instanceof RestError) return error;
  const status = typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined;
  const options = { cause: error };
  if (status === 413) return new RestError('TOO_LARGE', 'the body is larger than 1 MiB', options);
  if (status === 415) return new RestError('UNSUPPORTED_ENCODING', 'the body must not be compressed', options);
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new RestError('BAD_REQUEST', errorMessage(error), options);
  }
  return new RestError('INTERNAL', `Internal error: ${errorMessage(error)}`, options);
}

const longestText = 4096;

/** Names and launchers' words go into it: no line or terminal code of theirs. */
function printable(text: string): string {
  const clean = text.replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, ' ');
  return clean.length <= longestText ? clean : `${clean.slice(0, longestText)}…`;
}
