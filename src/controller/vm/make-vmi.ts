import { createHash } from 'node:crypto';
import { finalizers, type VirtualMachine, type VirtualMachineInstance } from '../../api/index.ts';
import { withoutDumpVolume } from './memory-dump.ts';

/** Namespace of the name-based UUIDs that upstream gives to firmware. */
const firmwareNamespace = '6a1a24a1-4061-4607-8bf4-a3963d0c5895';

/** The VMI a VM starts (upstream: SetupVMIFromVM in pkg/virt-controller/watch/vm/vm.go). */
export function makeVmi(
  vm: VirtualMachine,
  paused: boolean,
  names: Readonly<Record<string, string>> = {},
  tracking?: string,
): VirtualMachineInstance {
  const { name, namespace, uid = '', generation = 1 } = vm.metadata;
  const { metadata = {}, spec } = structuredClone(vm.spec.template);
  const firmware = spec.domain?.firmware;
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: {
      name,
      ...(namespace ? { namespace } : {}),
      ...(metadata.labels ? { labels: metadata.labels } : {}),
      annotations: { ...metadata.annotations, ...names, 'kubevirt.io/vm-generation': String(generation) },
      finalizers: [finalizers.vm],
      ownerReferences: [ownerReference(name, uid)],
    },
    spec: {
      ...spec,
      ...(spec.volumes && { volumes: withoutDumpVolume(spec.volumes, vm) }),
      domain: { ...spec.domain, firmware: { ...firmware, uuid: firmware?.uuid ?? uuidV5(name, firmwareNamespace) } },
      ...(paused ? { startStrategy: 'Paused' } : {}),
    },
    status: {
      virtualMachineRevisionName: revisionName(vm),
      ...(tracking !== undefined && { changedBlockTracking: { state: tracking } }),
    },
  };
}

export const revisionPrefix = (vmUid: string) => `revision-start-vm-${vmUid}-`;

/** Where the spec is kept that a VMI was started from (createVMRevision in pkg/virt-controller/watch/vm/vm.go). */
export function revisionName({ metadata }: VirtualMachine): string {
  return `${revisionPrefix(metadata.uid ?? '')}${metadata.generation ?? 1}`;
}

export function ownerReference(name: string, uid: string) {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** RFC 4122 version 5: the same name gives the same UUID. */
export function uuidV5(name: string, namespace: string): string {
  const space = Buffer.from(namespace.replaceAll('-', ''), 'hex');
  const bytes = createHash('sha1').update(space).update(name).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
