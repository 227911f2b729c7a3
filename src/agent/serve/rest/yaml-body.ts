import { badRequest, RestError } from './errors.ts';

/** The parser is slow with some texts of that size already (half a second), and every VM of the node waits for it. */
const maxTextLength = 32 * 1024;
/** The lexer's mark before the text of a scalar. */
const scalarMark = '\u001f';

/**
 * The value of one YAML document. Its nesting is watched while it is read and before anything is composed of it: the library composes
 * recursively, and half a megabyte of `- ` ends the process, not only the call. Rejects with RestError or the library's error.
 */
export async function parseYaml(text: string, maxDepth: number): Promise<unknown> {
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
