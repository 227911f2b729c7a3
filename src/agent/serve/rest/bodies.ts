import { errorMessage, isRecord, whyUnsafe } from '../../../base/index.ts';
import { badRequest, RestError } from './errors.ts';
import { parseYaml } from './yaml-body.ts';

export const maxBodyBytes = 1024 * 1024;

const maxDepth = 32;
/** As much is looked at to tell JSON from YAML, as upstream does. */
const sniffedBytes = 1024;

/** A request's body: JSON or YAML, told apart by its first character. Undefined: it is empty. Rejects with RestError BAD_REQUEST. */
export async function parseBody(body: Buffer): Promise<Record<string, unknown> | undefined> {
  const text = decode(body);
  if (text.trim() === '') return undefined;
  const value = text.slice(0, sniffedBytes).trimStart().startsWith('{') ? parseJson(text) : await fromYaml(text);
  if (value === null || value === undefined) return undefined;
  if (!isRecord(value)) throw badRequest('the body is no object');
  refuseUnsafe(value);
  return value;
}

function decode(body: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch (error) {
    throw badRequest('the body is no UTF-8 text', error);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw unreadable('JSON', error);
  }
}

async function fromYaml(text: string): Promise<unknown> {
  try {
    return await parseYaml(text, maxDepth);
  } catch (error) {
    throw error instanceof RestError ? error : unreadable('YAML', error);
  }
}

/** V8's message quotes the text, which may be a secret: only the position in it is reported. */
function unreadable(format: string, error: unknown): RestError {
  const at = /position \d+/.exec(errorMessage(error))?.[0];
  return badRequest(`the body is no ${format}${at ? ` (at ${at})` : ''}`, error);
}

function refuseUnsafe(value: unknown): void {
  const problem = whyUnsafe(value, maxDepth);
  if (problem !== undefined) throw badRequest(problem);
}
