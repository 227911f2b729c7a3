import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import type { Volume } from '../../../../src/api/index.ts';
import type { DiskEnv } from '../../../../src/launcher/disks/index.ts';
import { launcherPaths } from '../../../../src/launcher/domain/index.ts';

export interface Sandbox {
  readonly root: string;
  readonly env: DiskEnv;
  /** Writes a file below the sandbox's root, with its directories. */
  put(file: string, content?: string | Buffer): string;
}

/** The directories of a launcher pod below a temporary one, removed after the test. */
export function sandbox(t: TestContext, overrides: Partial<DiskEnv> = {}): Sandbox {
  const root = mkdtempSync(path.join(tmpdir(), 'disks-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  return {
    root,
    env: { paths: launcherPaths({ nonRoot: false, root }), imageVolume: true, ...overrides },
    put(file, content = '') {
      const target = path.join(root, file);
      mkdirSync(path.dirname(target), { recursive: true });
      writeFileSync(target, content);
      return target;
    },
  };
}

export const imageDir = (index: number) => `var/run/kubevirt-image-volume/disk_${index}`;

export const noCloud = (name: string, source: NonNullable<Volume['cloudInitNoCloud']>): Volume => ({
  name,
  cloudInitNoCloud: source,
});
