import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

export function filesBelow(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => path.join(entry.parentPath, entry.name));
}

const titlePattern =
  /\b(?:test|it|describe|fuzz)\(\s*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/g;

/** Titles as they stand in the source. */
export const titles = filesBelow('test').flatMap((file) =>
  [...readFileSync(file, 'utf8').matchAll(titlePattern)].map(([, single, double, template]) =>
    (single ?? double ?? template ?? '').replaceAll("\\'", "'"),
  ),
);

/** A title with parts that are computed is cited by its beginning. */
export const isTitle = (cited: string) =>
  titles.some((title) => title === cited || title.startsWith(`${cited} \${`) || title.startsWith(`${cited}\${`));
