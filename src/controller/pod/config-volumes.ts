import type { CloudInitSource, PodVolume, VirtualMachineInstance, Volume } from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import { PodRenderError } from './errors.ts';
import { privateDir } from './standard-volumes.ts';
import { addMounted, type PodStorage } from './storage.ts';

/** Volumes whose files the launcher makes a disk or a CD of. False: it is of another kind. Throws PodRenderError. */
export function addConfigVolume(storage: PodStorage, volume: Volume, vmi: VirtualMachineInstance): boolean {
  const { name } = volume;
  const add = (source: Partial<PodVolume>, directory: string) => {
    // A side container that shares it has a mount of its own.
    if (isReadByLauncher(name, vmi)) addMounted(storage, name, source, `${privateDir}/${directory}/${name}`, true);
    else storage.volumes.push({ name, ...source });
  };
  if (volume.configMap) add({ configMap: referenceOf(volume.configMap, 'name') }, 'config-map');
  else if (volume.secret) add({ secret: referenceOf(volume.secret, 'secretName') }, 'secret');
  else if (volume.downwardAPI) add({ downwardAPI: { items: memberAt(volume.downwardAPI, 'fields') } }, 'downwardapi');
  else if (volume.sysprep) add(sysprepSource(volume), 'sysprep');
  else if (volume.downwardMetrics) {
    const memory = { emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } };
    addMounted(storage, name, memory, `${privateDir}/downwardmetric-disk`);
  } else return addCloudInit(storage, volume);
  return true;
}

/** A disk of its name, or a table that firmware takes from it. */
function isReadByLauncher(name: string, { spec }: VirtualMachineInstance): boolean {
  const { devices, firmware } = spec.domain;
  const tables = isRecord(firmware?.acpi) ? Object.values(firmware.acpi) : [];
  return (devices?.disks ?? []).some((disk) => disk.name === name) || tables.includes(name);
}

function referenceOf<Name extends 'name' | 'secretName'>(source: Partial<Record<Name, string>> & Optional, name: Name) {
  return { [name]: source[name] ?? '', ...(source.optional !== undefined && { optional: source.optional }) };
}

interface Optional {
  readonly optional?: boolean;
}

function sysprepSource({ name, sysprep }: Volume): Partial<PodVolume> {
  const secretName = memberAt(sysprep, 'secret', 'name');
  if (typeof secretName === 'string') return { secret: { secretName } };
  const mapName = memberAt(sysprep, 'configMap', 'name');
  if (typeof mapName === 'string') return { configMap: { name: mapName } };
  throw new PodRenderError('UNSUPPORTED', `volume ${name}: sysprep needs a secret or a configMap with a name`);
}

function addCloudInit(storage: PodStorage, { name, cloudInitNoCloud, cloudInitConfigDrive }: Volume): boolean {
  const source: CloudInitSource | undefined = cloudInitNoCloud ?? cloudInitConfigDrive;
  if (!source) return false;
  const secrets = [
    { ref: source.secretRef, suffix: 'udata', files: ['userdata', 'userData'] },
    { ref: source.networkDataSecretRef, suffix: 'ndata', files: ['networkdata', 'networkData'] },
  ];
  for (const { ref, suffix, files } of secrets) {
    if (!ref) continue;
    const volume = `${name}-${suffix}`;
    storage.volumes.push({ name: volume, secret: { secretName: ref.name } });
    for (const file of files) {
      const mountPath = `${privateDir}/secret/${name}/${file}`;
      storage.mounts.push({ name: volume, mountPath, subPath: file, readOnly: true });
    }
  }
  return true;
}

/** Keys and passwords that the launcher brings into the guest. Two that are of one secret share its volume. */
export function addAccessCredentials(storage: PodStorage, { spec }: VirtualMachineInstance): void {
  const names = (spec.accessCredentials ?? []).map((credential) =>
    ['sshPublicKey', 'userPassword']
      .map((kind) => memberAt(credential, kind, 'source', 'secret', 'secretName'))
      .find((name) => typeof name === 'string'),
  );
  for (const secretName of new Set(names)) {
    if (typeof secretName !== 'string') {
      const problem =
        'spec.accessCredentials: each needs an sshPublicKey or a userPassword with source.secret.secretName';
      throw new PodRenderError('UNSUPPORTED', problem);
    }
    const name = `${secretName}-access-cred`;
    addMounted(storage, name, { secret: { secretName } }, `${privateDir}/secret/${name}`, true);
  }
}
