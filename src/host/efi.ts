import { access, constants } from 'node:fs/promises';
import path from 'node:path';

/** Firmware code (read-only flash) and the template of its variables. */
export interface EfiPair {
  readonly code: string;
  readonly vars: string;
}

/** What is installed for x86 guests; an absent pair is not there. */
export interface EfiFirmware {
  readonly secureBoot?: EfiPair;
  readonly plain?: EfiPair;
  /** Where it was looked for; for error texts. */
  readonly searched: readonly string[];
}

const defaultDirs = ['/usr/share/OVMF', '/usr/share/edk2/ovmf'];

/** Names of Fedora and Debian, in order of preference: variables with the vendor's keys enrolled first. */
const secureBootNames = [
  ['OVMF_CODE.secboot.fd', 'OVMF_VARS.secboot.fd'],
  ['OVMF_CODE_4M.secboot.fd', 'OVMF_VARS_4M.ms.fd'],
  ['OVMF_CODE.secboot.fd', 'OVMF_VARS.ms.fd'],
] as const;

/** A secure-boot build without enrolled keys also starts anything, but insists on SMM: only the last choice. */
const plainNames = [
  ['OVMF_CODE_4M.fd', 'OVMF_VARS_4M.fd'],
  ['OVMF_CODE.fd', 'OVMF_VARS.fd'],
  ['OVMF_CODE.secboot.fd', 'OVMF_VARS.fd'],
] as const;

/** Looks for OVMF in `dirs` (or in the distributions' usual places). */
export async function findEfiFirmware(options: { readonly dirs?: readonly string[] } = {}): Promise<EfiFirmware> {
  const searched = options.dirs ?? defaultDirs;
  const secureBoot = await firstPair(searched, secureBootNames);
  const plain = await firstPair(searched, plainNames);
  return { ...(secureBoot && { secureBoot }), ...(plain && { plain }), searched };
}

async function firstPair(
  dirs: readonly string[],
  names: readonly (readonly [string, string])[],
): Promise<EfiPair | undefined> {
  for (const dir of dirs) {
    for (const [codeName, varsName] of names) {
      const pair = { code: path.join(dir, codeName), vars: path.join(dir, varsName) };
      if ((await isReadable(pair.code)) && (await isReadable(pair.vars))) return pair;
    }
  }
  return undefined;
}

async function isReadable(file: string): Promise<boolean> {
  return access(file, constants.R_OK).then(
    () => true,
    () => false,
  );
}
