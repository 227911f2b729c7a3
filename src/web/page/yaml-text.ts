import { type Document, isNode, LineCounter, parseDocument, stringify } from 'yaml';

export type ParsedYaml =
  | { readonly kind: 'object'; readonly value: Readonly<Record<string, unknown>> }
  | { readonly kind: 'problem'; readonly message: string; readonly line: number | undefined };

/** Texts that are this long are left to the API. */
const maxAliases = 100;

export function yamlText(value: unknown): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}

export function parseYaml(text: string): ParsedYaml {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'silent' });
  const [error] = document.errors;
  if (error) return { kind: 'problem', message: error.message, line: lines.linePos(error.pos[0]).line };
  const value = madeOf(document);
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return { kind: 'object', value: { ...value } };
  const message = typeof value === 'string' ? value : 'this is no object';
  return { kind: 'problem', message, line: 1 };
}

/** A text of a few lines can stand for a gigabyte: why it is not made, then. */
function madeOf(document: Pick<Document, 'toJS'>): unknown {
  try {
    const value: unknown = document.toJS({ maxAliasCount: maxAliases });
    return typeof value === 'string' ? undefined : value;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Line of a field that the API names, or of what it would be in; undefined: nowhere. */
export function lineOf(text: string, field: string): number | undefined {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, logLevel: 'silent' });
  const path = pathOf(field);
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true);
    const start = isNode(node) ? node.range?.[0] : undefined;
    if (start !== undefined) return lines.linePos(start).line;
  }
  return undefined;
}

/** `a.b[0].c` */
function pathOf(field: string): (string | number)[] {
  return field
    .split(/[.[\]]+/)
    .filter(Boolean)
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}
