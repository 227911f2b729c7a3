import { isRecord, listOf } from '../../base/index.ts';
import { badRequest, RestError } from './errors.ts';

/** The parser is slow with some texts of that size already (half a second), and every VM of the node waits for it. */
const maxTextLength = 32 * 1024;
const maxAliases = 100;

/**
 * The value of one YAML document. Its nesting is measured before anything is composed of it: the library composes recursively, and
 * half a megabyte of `- ` ends the process, not only the call. Rejects with RestError or the library's error.
 */
export async function parseYaml(text: string, maxDepth: number): Promise<unknown> {
  if (text.length > maxTextLength) {
    throw new RestError('TOO_LARGE', `a body in YAML has up to ${maxTextLength} characters: send JSON`);
  }
  // virt-api sends JSON: most agents never load this.
  const { Parser, Composer } = await import('yaml');
  const tokens = [...new Parser().parse(text)];
  if (isDeeperThan(tokens, maxDepth)) throw badRequest(`the body is nested deeper than ${maxDepth} levels`);
  const [document, ...more] = new Composer({ prettyErrors: false, strict: true }).compose(tokens);
  if (more.length > 0) throw badRequest('the body has more than one YAML document');
  if (!document) return undefined;
  const [error] = document.errors;
  if (error) throw error;
  return document.toJS({ maxAliasCount: maxAliases });
}

/** By the parser's tokens: a document holds a value, a collection holds items. */
function isDeeperThan(tokens: readonly unknown[], maxDepth: number): boolean {
  let level = tokens;
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth + 1) return true;
    level = level.flatMap(partsOf);
  }
  return false;
}

function partsOf(token: unknown): unknown[] {
  if (!isRecord(token)) return [];
  const { value, items } = token;
  const inItems = listOf(items).flatMap((item) => (isRecord(item) ? [item.key, item.value] : []));
  return [value, ...inItems].filter(isRecord);
}
