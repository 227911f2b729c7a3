import {
  type KubeObject,
  keyOf,
  type Pod,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from '../../../src/api/index.ts';
import type { ControllerConfig, ControllerConfigBase } from '../../../src/cluster-config/index.ts';
import type { VmiFacts } from '../../../src/controller/vmi/observation.ts';
import { ReadYourWrites } from '../../../src/reconcile/index.ts';
import { readControllerConfig } from '../../fixtures/cluster-config.ts';

export const base: ControllerConfigBase = { launcherImage: 'virt-launcher', runtimeUser: 0, architecture: 'amd64' };

export function buildConfig(configuration: Record<string, unknown> = {}): ControllerConfig {
  const cr: KubeObject & { spec: object; status: object } = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'KubeVirt',
    metadata: { name: 'kubevirt', namespace: 'kubevirt' },
    spec: { configuration },
    status: { phase: 'Deployed' },
  };
  return readControllerConfig(cr, base);
}

export function buildVmi(
  spec: Partial<VmiSpec> = {},
  status?: VirtualMachineInstance['status'],
  metadata: Partial<VirtualMachineInstance['metadata']> = {},
): VirtualMachineInstance {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name: 'vm1', namespace: 'default', uid: 'uid-vmi', resourceVersion: '10', ...metadata },
    spec: { domain: { memory: { guest: '128Mi' } }, ...spec },
    ...(status ? { status } : {}),
  };
}

export function buildPod(status: Pod['status'] = { phase: 'Pending' }, metadata: Partial<Pod['metadata']> = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'virt-launcher-vm1-abcde',
      namespace: 'default',
      uid: 'uid-pod',
      resourceVersion: '20',
      creationTimestamp: '2026-01-01T00:00:00Z',
      ownerReferences: [
        { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', name: 'vm1', uid: 'uid-vmi', controller: true },
      ],
      ...metadata,
    },
    spec: { nodeName: 'node1', containers: [{ name: 'compute', image: 'virt-launcher' }] },
    status,
  };
}

/** A pod whose launcher runs. */
export function buildRunningPod(status: Pod['status'] = {}): Pod {
  return buildPod({
    phase: 'Running',
    qosClass: 'Burstable',
    containerStatuses: [
      {
        name: 'compute',
        state: { running: { startedAt: '2026-01-01T00:00:01Z' } },
        ready: true,
        restartCount: 0,
        image: 'virt-launcher',
        imageID: 'virt-launcher',
      },
    ],
    ...status,
  });
}

export function buildVm(spec: Partial<VirtualMachine['spec']> = {}, status?: VirtualMachine['status']): VirtualMachine {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm1', namespace: 'default', uid: 'uid-vm', resourceVersion: '5', generation: 1 },
    spec: { runStrategy: 'Always', template: { spec: { domain: {} } }, ...spec },
    ...(status ? { status } : {}),
  };
}

/** What is observed of a VMI that has nothing but, where given, the one launcher pod. */
export function buildVmiFacts(facts: Partial<VmiFacts> = {}): VmiFacts {
  return {
    vmi: buildVmi(),
    pod: undefined,
    pods: facts.pod ? [facts.pod] : [],
    foreignPods: [],
    temporaryPod: undefined,
    fillings: [],
    triggers: [],
    pluggedFillings: [],
    attachments: [],
    claims: new Map(),
    keptState: { kind: 'none' },
    hasOwnerVm: false,
    tscFrequency: undefined,
    config: buildConfig(),
    now: new Date(0),
    ...facts,
  };
}

/** A cache of these objects that is synced and never changes. */
export function cacheOf<T extends KubeObject>(objects: readonly T[]): ReadYourWrites<T> {
  const byKey = new Map(objects.map((object) => [keyOf(object), object]));
  const get = (key: string) => byKey.get(key);
  return new ReadYourWrites<T>({ synced: true, get, keys: () => byKey.keys(), onChange: () => () => undefined });
}
