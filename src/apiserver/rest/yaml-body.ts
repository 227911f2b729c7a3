import { type Document, isScalar, Lexer, LineCounter, Parser, parseDocument, visit } from 'yaml';
import { ApiError, badRequest } from '../errors.ts';

/** An object as large as the database takes it, well spread, has fewer; a hostile text of commas has three million. */
const maxLexemes = 200_000;
/** The lexer's mark before the text of a scalar. */
const scalarMark = '\u001f';

/**
 * Value of a YAML text, in time proportional to its length. Throws ApiError: BAD_REQUEST with the position for what is no YAML, for
 * a key that occurs twice, for one that is no plain value, and for an alias; TOO_LARGE for more than 200,000 words and signs.
 */
export function parseYamlText(text: string, maxDepth: number): unknown {
  checkLexemes(text, maxDepth);
  const lineCounter = new LineCounter();
  // The library's own check of keys compares each with each.
  const document = parseDocument(text, { lineCounter, prettyErrors: false, uniqueKeys: false, logLevel: 'error' });
  const [error] = document.errors;
  if (error) throw noYaml(lineCounter, error.pos[0], error.message);
  checkKeys(document, lineCounter);
  return document.toJS();
}

function noYaml(lineCounter: LineCounter, offset: number, why: string): ApiError {
  const { line, col } = lineCounter.linePos(offset);
  return badRequest(`the body is no YAML: line ${line}, column ${col}: ${why}`);
}

/**
 * Before anything is made of them. yaml composes recursively: at the end of the stack V8 may lack the memory for a regular
 * expression, which is fatal.
 */
function checkLexemes(text: string, maxDepth: number): void {
  const parser = new Parser();
  let lexemes = 0;
  let previous = '';
  for (const lexeme of new Lexer().lex(text)) {
    if (++lexemes > maxLexemes) throw tooLarge();
    if (lexeme.startsWith('*') && previous !== scalarMark) throw badRequest(aliasMessage);
    previous = lexeme;
    for (const _ of parser.next(lexeme));
    if (parser.stack.length > maxDepth) throw badRequest(`the body is nested deeper than ${maxDepth} levels`);
  }
}

/** A list of aliases of itself is a value without end; a text of a few lines can stand for a gigabyte. */
const aliasMessage = 'the body is a YAML with an alias: write the value out, or send JSON';

function tooLarge(): ApiError {
  return new ApiError('TOO_LARGE', `a YAML body may have at most ${maxLexemes} words and signs: send JSON`);
}

function checkKeys(document: Document, lineCounter: LineCounter): void {
  visit(document, {
    Map(_position, map) {
      const seen = new Set<string>();
      for (const { key } of map.items) {
        const offset = map.range?.[0] ?? 0;
        if (!isScalar(key)) throw noYaml(lineCounter, offset, 'the keys of a map must be plain values');
        const name = String(key.value);
        if (seen.has(name)) throw noYaml(lineCounter, key.range?.[0] ?? offset, 'Map keys must be unique');
        seen.add(name);
      }
    },
  });
}
