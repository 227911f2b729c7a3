import { access, constants } from 'node:fs/promises';
import path from 'node:path';

/** Firmware code (read-only flash) and the template of its variables. */
export interface EfiPair {
  readonly code: string;
  readonly vars: string;
}

/** What is installed for guests of this machine's architecture; what is absent is not there. */
export interface EfiFirmware {
  readonly secureBoot?: EfiPair;
  readonly plain?: EfiPair;
  /** For guests whose memory is encrypted by SEV. */
  readonly sev?: EfiPair;
  /** Without variables: the processor measures the whole file. */
  readonly snp?: string;
  readonly tdx?: string;
  readonly tdxSecureBoot?: string;
  /** Where it was looked for; for error texts. */
  readonly searched: readonly string[];
}

type Names = readonly (readonly [code: string, vars: string])[];

/** Of the distributions; the last one has what Debian's packages ovmf-amdsev and ovmf-inteltdx bring. */
const defaultDirs: Readonly<Record<string, readonly string[]>> = {
  amd64: ['/usr/share/OVMF', '/usr/share/edk2/ovmf', '/usr/share/ovmf'],
  arm64: ['/usr/share/AAVMF', '/usr/share/edk2/aarch64'],
};

/** Names of Fedora and Debian, in order of preference: variables with the vendor's keys enrolled first. */
const secureBootNames: Names = [
  ['OVMF_CODE.secboot.fd', 'OVMF_VARS.secboot.fd'],
  ['OVMF_CODE_4M.secboot.fd', 'OVMF_VARS_4M.ms.fd'],
  ['OVMF_CODE.secboot.fd', 'OVMF_VARS.ms.fd'],
];

/** A secure-boot build without enrolled keys also starts anything, but insists on SMM: only the last choice. */
const plainNames: Names = [
  ['OVMF_CODE_4M.fd', 'OVMF_VARS_4M.fd'],
  ['OVMF_CODE.fd', 'OVMF_VARS.fd'],
  ['OVMF_CODE.secboot.fd', 'OVMF_VARS.fd'],
];

/** Fedora builds one for it; Debian says of its plain one that it can do it. */
const sevNames: Names = [
  ['OVMF_CODE.cc.fd', 'OVMF_VARS.fd'],
  ['OVMF_CODE_4M.fd', 'OVMF_VARS_4M.fd'],
];

const romNames = { snp: 'OVMF.amdsev.fd', tdx: 'OVMF.inteltdx.fd', tdxSecureBoot: 'OVMF.inteltdx.secboot.fd' } as const;

const pairNames: Readonly<Record<string, Readonly<Record<string, Names>>>> = {
  amd64: { secureBoot: secureBootNames, plain: plainNames, sev: sevNames },
  arm64: { plain: [['AAVMF_CODE.fd', 'AAVMF_VARS.fd']] },
};

/** Looks for EFI in `dirs`, or in the distributions' usual places, `first` among them. `architecture`: in Kubernetes spelling. */
export async function findEfiFirmware(
  options: { readonly architecture?: string; readonly first?: string; readonly dirs?: readonly string[] } = {},
): Promise<EfiFirmware> {
  const { architecture = 'amd64', first, dirs = defaultDirs[architecture] ?? [] } = options;
  const searched = [...new Set(first === undefined ? dirs : [first, ...dirs])];
  const pairs = Object.entries(pairNames[architecture] ?? {}).map(
    async ([kind, names]) => [kind, await firstPair(searched, names)] as const,
  );
  const roms = Object.entries(architecture === 'amd64' ? romNames : {}).map(
    async ([kind, name]) => [kind, await firstFile(searched, name)] as const,
  );
  const found = (await Promise.all([...pairs, ...roms])).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(found), searched };
}

async function firstPair(dirs: readonly string[], names: Names): Promise<EfiPair | undefined> {
  for (const dir of dirs) {
    for (const [codeName, varsName] of names) {
      const pair = { code: path.join(dir, codeName), vars: path.join(dir, varsName) };
      if ((await isReadable(pair.code)) && (await isReadable(pair.vars))) return pair;
    }
  }
  return undefined;
}

async function firstFile(dirs: readonly string[], name: string): Promise<string | undefined> {
  for (const dir of dirs) {
    const file = path.join(dir, name);
    if (await isReadable(file)) return file;
  }
  return undefined;
}

async function isReadable(file: string): Promise<boolean> {
  return access(file, constants.R_OK).then(
    () => true,
    () => false,
  );
}
