import { readPlainFile } from './plain-file.ts';

const maxBytes = 1024 * 1024;

/** By name; undefined for one that the kernel does not give, or gives as something else. */
export type KernelFigures = (name: string) => number | undefined;

/** Of proc_meminfo(5), in KiB, or proc_vmstat(5): lines of a name and a number, with or without a colon and a unit. Rejects as `readPlainFile`. */
export async function readKernelFigures(file: string): Promise<KernelFigures> {
  const rows = (await readPlainFile(file, maxBytes)).split('\n').map((line) => line.split(/[: ]+/));
  const values = new Map(rows.map(([name = '', value = '']) => [name, value]));
  return (name) => {
    const value = values.get(name) ?? '';
    const figure = value === '' ? Number.NaN : Number(value);
    return Number.isFinite(figure) && figure >= 0 ? figure : undefined;
  };
}
