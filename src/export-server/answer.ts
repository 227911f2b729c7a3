import type { IncomingMessage, ServerResponse } from 'node:http';
import { CodedError } from '../base/index.ts';

/** What a client asked for, already let in. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Below the address that it was routed by, decoded; empty for exact addresses. */
  readonly below: string;
  /** The client or the server gives up. */
  readonly signal: AbortSignal;
}

export type Handler = (exchange: Exchange) => Promise<void>;

export type ExportErrorCode =
  | 'NOT_FOUND'
  | 'FORBIDDEN'
  | 'UNAUTHORIZED'
  | 'UNAVAILABLE'
  | 'BAD_REQUEST'
  | 'CHANGED'
  | 'NOT_SERVED';

/** Why a client does not get what it asked for, in words for it. */
export class ExportError extends CodedError<ExportErrorCode> {}

const statuses: Readonly<Record<ExportErrorCode, number>> = {
  NOT_FOUND: 404,
  FORBIDDEN: 403,
  UNAUTHORIZED: 401,
  UNAVAILABLE: 503,
  BAD_REQUEST: 400,
  CHANGED: 500,
  NOT_SERVED: 502,
};

export function statusOf(error: unknown): number {
  return error instanceof ExportError ? statuses[error.code] : 500;
}

export function answerText(response: ServerResponse, status: number, text: string, headers: object = {}): void {
  const body = Buffer.from(`${text}\n`);
  const plain = { 'content-type': 'text/plain; charset=utf-8', 'content-length': body.length };
  response.writeHead(status, { ...plain, 'x-content-type-options': 'nosniff', ...headers });
  response.end(body);
}
