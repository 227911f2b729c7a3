import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Volume } from '../../api/index.ts';
import { errorCode } from '../../base/index.ts';
import type { ResolvedDisk } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { resolveFileInRoot } from './image-path.ts';
import { ensureIso, type IsoContent } from './iso.ts';

interface ConfigSource {
  readonly sourceDir: string;
  readonly iso: string;
  readonly label: string;
  readonly optional: boolean;
}

const defaultLabel = 'cfgdata';
const maxTotalBytes = 16 << 20;

/** Directories and image of a config map, secret, downward API, service account or sysprep volume (`pkg/config`). */
function configSource(volume: Volume, env: DiskEnv): ConfigSource | undefined {
  const at = (...parts: string[]) => path.join(env.paths.privateDir, ...parts);
  const iso = `${volume.name}.iso`;
  const labelled = (kind: string, source: { volumeLabel?: string; optional?: boolean }) => ({
    sourceDir: at(kind, volume.name),
    iso: at(kind === 'downwardapi' ? 'downwardapi-disks' : `${kind}-disks`, iso),
    label: source.volumeLabel || defaultLabel,
    optional: source.optional === true,
  });
  if (volume.configMap) return labelled('config-map', volume.configMap);
  if (volume.secret) return labelled('secret', volume.secret);
  if (volume.downwardAPI) return labelled('downwardapi', volume.downwardAPI);
  if (volume.sysprep) return { ...labelled('sysprep', {}), label: 'unattendCD' };
  if (volume.serviceAccount) {
    const file = at('service-account-disk', 'service-account.iso');
    return { sourceDir: env.paths.serviceAccountDir, iso: file, label: defaultLabel, optional: false };
  }
  return undefined;
}

/** A CD image with the volume's files, or undefined when the volume is of another kind. Throws `MISSING_SOURCE`. */
export async function prepareConfigDisk(volume: Volume, env: DiskEnv): Promise<ResolvedDisk | undefined> {
  const source = configSource(volume, env);
  if (!source) return undefined;
  await ensureIso(source.iso, env, () => readContent(volume, source));
  return { path: source.iso, format: 'raw', isBlock: false };
}

async function readContent(volume: Volume, source: ConfigSource): Promise<IsoContent> {
  const files = new Map<string, Buffer>();
  let totalBytes = 0;
  for (const name of await listFiles(volume, source)) {
    // The kubelet's links stay inside the directory; others do not pass.
    const file = await resolveFileInRoot(source.sourceDir, name);
    totalBytes += (await stat(file)).size;
    if (totalBytes > maxTotalBytes) {
      throw new DiskError(
        'INVALID_FIELD',
        `spec.volumes[${volume.name}]: more than ${maxTotalBytes} bytes for a CD image`,
      );
    }
    files.set(name, await readFile(file));
  }
  if (volume.sysprep && ![...files.keys()].some((name) => /^(auto)?unattend\.xml$/i.test(name))) {
    throw new DiskError(
      'MISSING_SOURCE',
      `spec.volumes[${volume.name}].sysprep: needs autounattend.xml or unattend.xml`,
    );
  }
  return { volumeId: source.label, files, fileMode: 0o644 };
}

async function listFiles(volume: Volume, source: ConfigSource): Promise<string[]> {
  try {
    return (await readdir(source.sourceDir)).filter((name) => !name.startsWith('..')).sort();
  } catch (error) {
    if (errorCode(error) === 'ENOENT' && source.optional) return [];
    const message = `spec.volumes[${volume.name}]: is not mounted in the pod at ${source.sourceDir}`;
    throw new DiskError('MISSING_SOURCE', message, { cause: error });
  }
}
