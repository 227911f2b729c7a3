import { errorMessage, isRecord, whyUnsafe } from '../../../base/index.ts';
import { badRequest, RestError } from './errors.ts';

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

/** The parser is slow with some texts of that size already (half a second), and every VM of the node waits for it. */
const maxTextLength = 32 * 1024;
/** The lexer's mark before the text of a scalar. */
const scalarMark = '\u001f';

/**
 * The value of one YAML document. Its nesting is watched while it is read and before anything is composed of it: the library composes
 * recursively, and half a megabyte of `- ` ends the process, not only the call. Rejects with RestError or the library's error.
 */
async function parseYaml(text: string, maxDepth: number): Promise<unknown> {
  if (text.length > maxTextLength) {
    throw new RestError('TOO_LARGE', `a body in YAML has up to ${maxTextLength} characters: send JSON`);
  }
  // virt-api sends JSON: most agents never load this.
  const { Lexer, Parser, Composer } = await import('yaml');
  const parser = new Parser();
  const tokens = [];
  let previous = '';
  for (const lexeme of new Lexer().lex(text)) {
    // A list of aliases of itself is a value without end: the next who walks through it ends the process.
    if (lexeme.startsWith('*') && previous !== scalarMark)
      throw badRequest('the body has an alias: write the value out');
    previous = lexeme;
    tokens.push(...parser.next(lexeme));
    // What is being built: a document, and the collections in it.
    if (parser.stack.length > maxDepth + 1) throw badRequest(`the body is nested deeper than ${maxDepth} levels`);
  }
  tokens.push(...parser.end());
  const [document, ...more] = new Composer({ prettyErrors: false, strict: true }).compose(tokens);
  if (more.length > 0) throw badRequest('the body has more than one YAML document');
  if (!document) return undefined;
  const [error] = document.errors;
  if (error) throw error;
  return document.toJS();
}
