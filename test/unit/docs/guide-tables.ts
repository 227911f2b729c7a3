import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const guide = 'docs/operators-guide';

/** The rows below `| <head> | …`, of all tables with that head, cell by cell and without code marks. */
export function rows(file: string, head: string): string[][] {
  const lines = readFileSync(path.join(guide, file), 'utf8').split('\n');
  const found: string[][] = [];
  let isInTable = false;
  for (const line of lines) {
    const isHead = line.startsWith(`| ${head} |`);
    if (isInTable && line.startsWith('| ') && !isHead) found.push(cells(line));
    isInTable = isHead || (isInTable && line.startsWith('|'));
  }
  return found;
}

function cells(line: string): string[] {
  return line
    .slice(2, -2)
    .split(' | ')
    .map((cell) => cell.trim().replaceAll('`', ''));
}

/** Words of a cell: `A`, `B` → A, B. */
export const words = (cell: string): string[] => cell.split(',').map((word) => word.trim());

/** Sources below folders, by their paths. */
export function sources(folders: readonly string[]): ReadonlyMap<string, string> {
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
      .map((entry) => path.join(entry.parentPath, entry.name)),
  );
  return new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
}
