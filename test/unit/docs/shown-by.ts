import { existsSync } from 'node:fs';
import { isTitle } from './test-titles.ts';

/** Cells of each row of the tables of a page whose last column names tests, or their files. */
export function shownByRows(page: string): string[][] {
  return page.split('\n\n').flatMap((block) => {
    const lines = block.split('\n').filter((line) => line.startsWith('|'));
    if (!lines[0]?.endsWith('| Shown by |')) return [];
    return lines.slice(2).map((line) => line.slice(2, -2).split(' | '));
  });
}

export const citedIn = (cells: readonly string[]) =>
  [...(cells.at(-1) ?? '').matchAll(/`([^`]+)`/g)].map(([, cited = '']) => cited);

export const isTestThere = (cited: string) => (cited.startsWith('test/') ? existsSync(cited) : isTitle(cited));
