import { readFile } from 'node:fs/promises';

export interface QemuUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Upstream's user first, then Debian's. */
const names = ['qemu', 'libvirt-qemu'] as const;

/** The user that QEMU runs as under a root daemon; undefined when none is known here: libvirt's own default is used. */
export async function findQemuUser(
  files: { readonly passwd?: string; readonly group?: string } = {},
): Promise<QemuUser | undefined> {
  const users = await readTable(files.passwd ?? '/etc/passwd');
  const groups = await readTable(files.group ?? '/etc/group');
  for (const name of names) {
    const user = users.get(name);
    if (!user) continue;
    const gid = groups.get(name)?.[2] ?? user[3];
    return { name, uid: Number(user[2]), gid: Number(gid) };
  }
  return undefined;
}

async function readTable(file: string): Promise<Map<string, string[]>> {
  const text = await readFile(file, 'utf8').catch(() => '');
  const rows = text.split('\n').map((line) => line.split(':'));
  return new Map(rows.filter((row) => row.length >= 3).map((row) => [row[0] ?? '', row]));
}
