import path from 'node:path';
import { isRecord } from '../../base/index.ts';
import { readIfThere } from '../files.ts';

/** Whose API and wire it speaks. */
const kubevirtVersion = 'v1.9.0';

/** For `--version`. `packageDir` has package.json, and in `dist/commit` what `npm run build` was run on. */
export async function versionText(packageDir: string, nodeVersion: string): Promise<string> {
  const [manifest, commit] = await Promise.all([
    readIfThere(path.join(packageDir, 'package.json')),
    readIfThere(path.join(packageDir, 'dist', 'commit')),
  ]);
  const parsed: unknown = JSON.parse(manifest ?? '{}');
  const version = isRecord(parsed) && typeof parsed.version === 'string' ? parsed.version : 'of unknown version';
  const made = /^[0-9a-f]{12}(?:-changed)?$/.exec(commit?.trim() ?? '')?.[0] ?? 'unknown';
  return `virt-node ${version} (commit ${made}, Node.js ${nodeVersion}, KubeVirt ${kubevirtVersion} API)`;
}
