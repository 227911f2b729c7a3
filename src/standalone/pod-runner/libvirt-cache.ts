import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../base/index.ts';
import { PlainFileError, readPlainFile } from '../../host/index.ts';

/** Where libvirt keeps what it learnt about each QEMU: `qemu/capabilities/<SHA-256 of the program's path>.xml`. */
const learntDir = path.join('qemu', 'capabilities');
const learntName = /^[0-9a-f]{1,64}\.xml$/;
const maxFiles = 32;
/** About 180 KB each, with libvirt 9.0 and QEMU 7.2. */
const maxBytes = 4 * 2 ** 20;

/**
 * A pod's own copy of what the node's libvirt learnt about QEMU. Root of a pod could write anything into what it shares with others:
 * a pipe on which their libvirt would wait, or a link along which the node's libvirt would write on the host.
 */
export async function copyLibvirtCache(from: string, to: string): Promise<void> {
  await rm(to, { recursive: true, force: true });
  for (const dir of [to, path.join(to, 'qemu'), path.join(to, learntDir)]) {
    await mkdir(dir);
    await chmod(dir, 0o755);
  }
  const names = await readdir(path.join(from, learntDir)).catch(() => []);
  for (const name of names.filter((one) => learntName.test(one)).slice(0, maxFiles)) {
    const text = await readLearnt(path.join(from, learntDir, name));
    if (text !== undefined) await writeFile(path.join(to, learntDir, name), text, { mode: 0o600, flag: 'wx' });
  }
}

/** Undefined for what is no plain file, or was replaced just now: libvirt then asks QEMU itself. */
async function readLearnt(file: string): Promise<string | undefined> {
  return readPlainFile(file, maxBytes).catch((error: unknown) => {
    if (error instanceof PlainFileError || errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
}
