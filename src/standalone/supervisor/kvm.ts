import { stat } from 'node:fs/promises';
import path from 'node:path';
import { jsonRecord } from '../../base/index.ts';
import type { KvmProbeResult } from '../../host/index.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import type { NodePaths } from '../paths.ts';
import { currentBootId } from '../process-identity.ts';

export interface KvmSupport {
  readonly kvm: 'works' | 'fails';
  readonly reason: string;
}

/**
 * Do guests run on KVM? A probe whose guest hangs costs its whole time limit, so that answer is kept until the machine or
 * the device changes; the cheap answers (works, no device) are asked for each time.
 */
export async function findKvmSupport(paths: NodePaths, probe: () => Promise<KvmProbeResult>): Promise<KvmSupport> {
  const file = path.join(paths.runDir, 'kvm-probe.json');
  const device = await stat('/dev/kvm').then(
    ({ rdev, ctimeMs }) => `${rdev} ${ctimeMs}`,
    () => 'none',
  );
  const key = `${await currentBootId()} ${device}`;
  const kept = parseKept(await readIfThere(file));
  if (kept?.key === key) return { kvm: 'fails', reason: kept.reason };
  const { usable, reason } = await probe();
  if (!usable && device !== 'none') await writeFileAtomic(file, JSON.stringify({ key, reason }));
  return { kvm: usable ? 'works' : 'fails', reason };
}

function parseKept(text: string | undefined): { key: string; reason: string } | undefined {
  const { key, reason } = jsonRecord(text ?? '') ?? {};
  return typeof key === 'string' && typeof reason === 'string' ? { key, reason } : undefined;
}
