import { stringify } from 'yaml';
import { escapedJson, plainText } from '../../base/index.ts';
import { table } from './explain-text.ts';
import type { Paint } from './style.ts';

/** Forms that an answer can have, as kubectl's. `table` is for people, and may change; the others are for programs. */
export const outputFormats = ['table', 'wide', 'json', 'yaml', 'name'] as const;
export type OutputFormat = (typeof outputFormats)[number];

export interface Printable {
  readonly head: readonly string[];
  /** A cell per column of `head`. */
  readonly rows: readonly (readonly string[])[];
  /** Further columns, for `wide`. */
  readonly wide?: { readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] };
  /** One per line for `name`. */
  readonly names: readonly string[];
  /** For `json` and `yaml`. */
  readonly document: unknown;
  /** Said in place of a table without rows. */
  readonly empty: string;
}

/** The text for standard output, without a newline at its end. What came from guests and users moves no cursor. */
export function printed(format: OutputFormat, shown: Printable, paint?: Paint): string {
  switch (format) {
    case 'json':
    case 'yaml':
      return documentText(format, shown.document);
    case 'name':
      return shown.names.map((name) => plainText(name)).join('\n');
    case 'table':
    case 'wide': {
      if (shown.rows.length === 0) return shown.empty;
      const wide = format === 'wide' ? shown.wide : undefined;
      const rows = shown.rows.map((row, at) => [...row, ...(wide?.rows[at] ?? [])].map((cell) => plainText(cell)));
      return table([...shown.head, ...(wide?.head ?? [])], rows, paint).join('\n');
    }
  }
}

export function documentText(format: 'json' | 'yaml', document: unknown): string {
  const json = escapedJson(JSON.stringify(document, undefined, 2));
  return format === 'json' ? json : stringify(JSON.parse(json)).trimEnd();
}
