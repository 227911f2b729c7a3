import {
  type KubeObject,
  type PersistentVolumeClaim,
  resources,
  type VirtualMachine,
  type VirtualMachineExport,
} from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';
import { controllerReference } from '../owned/index.ts';
import { volumesOf } from '../snapshot-source/index.ts';
import type { Access } from './access.ts';
import { externalPath } from './links.ts';
import { namesOf } from './names.ts';
import type { SourceVolume } from './observation.ts';

export interface ManifestConfigMap extends KubeObject {
  data: Record<string, string>;
}

type WholeVm = Pick<VirtualMachine, 'metadata' | 'spec'>;

/** What the exporter makes manifests of, in upstream's form (createManifestConfigMap in export.go). `vm` says all itself. Pure. */
export function renderManifest(
  vmExport: VirtualMachineExport,
  vm: WholeVm,
  volumes: readonly SourceVolume[],
  { bundle = '', external }: Access,
): ManifestConfigMap {
  const { namespace, name } = vmExport.metadata;
  const authority = (cert: string) =>
    JSON.stringify({ metadata: { name: `export-ca-cm-${name}` }, data: { 'ca.pem': cert } });
  const names = namesOf(vmExport);
  const claimsOfVm = new Set(volumesOf(vm.spec).flatMap(({ claimName }) => claimName ?? []));
  return {
    apiVersion: 'v1',
    kind: resources.configMaps.kind,
    metadata: {
      name: names.manifest,
      ...(namespace && { namespace }),
      ownerReferences: [controllerReference(resources.virtualMachineExports, vmExport)],
    },
    data: {
      internal_host: `${names.service}.${namespace}.svc`,
      internal_ca_cm: authority(bundle),
      ...(external && {
        external_host: `${external.host}${externalPath(namespace, name)}`,
        external_ca_cm: authority(external.cert),
      }),
      'export-name': name,
      'virtualmachine-manifest': JSON.stringify(sanitized(vm, claimsOfVm)),
      ...Object.fromEntries(dataVolumesOf(vmExport, vm, volumes).map(([key, object]) => [key, JSON.stringify(object)])),
    },
  };
}

/** Without what belongs to this cluster; templates of its disks have a place for where they come from. */
function sanitized({ metadata, spec }: WholeVm, claims: ReadonlySet<string>): object {
  const { name, namespace, labels, annotations } = metadata;
  const { instancetype: _instancetype, preference: _preference, dataVolumeTemplates, ...own } = spec;
  const templates = listOf(dataVolumeTemplates).map((template) => emptied(template, claims));
  return {
    metadata: { name, ...(namespace && { namespace }), ...(labels && { labels }), ...(annotations && { annotations }) },
    spec: { ...own, ...(templates.length > 0 && { dataVolumeTemplates: templates }) },
  };
}

function emptied(template: unknown, claims: ReadonlySet<string>): unknown {
  const name = memberAt(template, 'metadata', 'name');
  if (!isRecord(template) || !isRecord(template.spec) || typeof name !== 'string' || !claims.has(name)) return template;
  const { sourceRef: _reference, ...spec } = template.spec;
  return { ...template, spec: { ...spec, source: { http: { url: '' } } } };
}

/** Of disks that the VM has no template of. */
function dataVolumesOf(
  vmExport: VirtualMachineExport,
  { spec }: WholeVm,
  volumes: readonly SourceVolume[],
): [key: string, dataVolume: object][] {
  const templates = new Set(listOf(spec.dataVolumeTemplates).map((each) => memberAt(each, 'metadata', 'name')));
  const names = volumesOf(spec).flatMap(({ claimName, isMemoryDump }) => (isMemoryDump ? [] : (claimName ?? [])));
  return [...new Set(names)].flatMap((name) => {
    const found = volumes.find(({ claim }) =>
      [name, `${vmExport.metadata.name}-${name}`].includes(claim.metadata.name),
    );
    if (templates.has(name) || !found?.isDisk) return [];
    return [[`dv-${name}`, dataVolumeOf(name, vmExport.metadata.namespace, found.claim)]];
  });
}

function dataVolumeOf(name: string, namespace: string | undefined, { spec }: PersistentVolumeClaim): object {
  const { accessModes, volumeMode, resources: amounts } = spec;
  return {
    metadata: { name, ...(namespace && { namespace }) },
    spec: {
      source: { http: { url: '' } },
      storage: {
        ...(accessModes && { accessModes }),
        ...(volumeMode !== undefined && { volumeMode }),
        ...(amounts && { resources: amounts }),
      },
    },
  };
}
