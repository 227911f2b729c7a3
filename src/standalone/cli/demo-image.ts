import { cp, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { NodeError } from '../errors.ts';
import type { ImageStore } from '../pod-runner/index.ts';

export const demoImage = 'virt-node/demo';
const files = ['vmlinuz', 'initramfs.gz'];

/** Puts the guest that scripts/guest built on the node, as `/boot/vmlinuz` and `/boot/initramfs.gz` of the image. */
export async function installDemoImage(images: ImageStore, guestDir: string): Promise<void> {
  // Also what an older version put under another name.
  const dir = await images.resolve(demoImage).catch(() => images.directoryOf(demoImage));
  const installed = path.join(dir, 'boot');
  const same = await Promise.all(files.map((file) => sameFile(path.join(guestDir, file), path.join(installed, file))));
  if (same.every(Boolean)) return;
  const draft = await mkdtemp(path.join(tmpdir(), 'virt-demo-'));
  try {
    for (const file of files) {
      await cp(path.join(guestDir, file), path.join(draft, 'boot', file), { preserveTimestamps: true });
    }
    await images.add(demoImage, draft);
  } catch (cause) {
    throw new NodeError('IMAGE_MISSING', `the demo guest is not in ${guestDir}: run \`node scripts/setup.mjs up\``, {
      cause,
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

async function sameFile(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map((file) => stat(file).catch(() => undefined)));
  return a !== undefined && b !== undefined && a.size === b.size && Math.abs(a.mtimeMs - b.mtimeMs) < 2;
}
