import type { DomainReason, DomainStatus, MigrationState, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { domainOf, key, node, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import type { FakeLauncher } from '../../../fixtures/agent/fake-launchers.ts';
import type { FakeWorld } from '../../../fixtures/agent/fake-world.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { type Loop, startLoop } from './agent-loop.ts';

export type Arriving = { loop: Loop; launcher: FakeLauncher };
export type TestContext = Parameters<typeof startLoop>[0];

export const targetLabel = 'kubevirt.io/migrationTargetNodeName';
export const nodeLabel = 'kubevirt.io/nodeName';
export const handedOff: MigrationState = {
  migrationUid: 'm1',
  sourceNode: 'node2',
  targetNode: node,
  sourcePod: 'pod-2',
  targetPod: 'pod-1',
};

/** A VMI of node2 that its migration controller has handed to this node. */
export function incoming(state: MigrationState = handedOff): VirtualMachineInstance {
  const vmi = vmiOf('Running', {
    status: { nodeName: 'node2', activePods: { 'pod-1': node, 'pod-2': 'node2' }, launcherContainerImageVersion: 'v1' },
  });
  vmi.metadata.labels = { [nodeLabel]: 'node2', [targetLabel]: node, 'kubevirt.io/outdatedLauncherImage': '' };
  vmi.metadata.annotations = { 'kubevirt.io/eviction-source': 'descheduler', kept: 'yes' };
  vmi.status = { ...vmi.status, migrationState: structuredClone(state), evacuationNodeName: 'node2' };
  return vmi;
}

interface Scene {
  /** Before the agent starts. */
  readonly world?: (world: FakeWorld) => void;
  /** Before the VMI is handed over. */
  readonly launcher?: (launcher: FakeLauncher) => void;
  readonly vmi?: VirtualMachineInstance;
}

/** A VMI is handed to this node and its launcher waits; as a rule up to the point where the source may begin. */
export async function prepared(t: TestContext, { world, launcher: change, vmi }: Scene = {}): Promise<Arriving> {
  const loop = await startLoop(t, world);
  const launcher = loop.launchers.run(key, uid);
  change?.(launcher);
  loop.api.apply(vmi ?? incoming());
  await settle();
  return { loop, launcher };
}

/** The launcher here says that the migration is over, and shows the domain like this. */
export async function endAs(arriving: Arriving, status: DomainStatus, reason: DomainReason): Promise<void> {
  const { loop, launcher } = arriving;
  await begin(arriving);
  launcher.domain = domainOf(status, reason, { UID: uid });
  loop.launchers.migration.note(launcher, { UID: 'm1', EndTimestamp: loop.launchers.migration.now() });
  await settle();
}

export function withOwnCpus(): VirtualMachineInstance {
  const vmi = incoming();
  vmi.spec.domain = { ...vmi.spec.domain, cpu: { dedicatedCpuPlacement: true } };
  return vmi;
}

export async function change({ loop }: { loop: Loop }, more: MigrationState): Promise<void> {
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, migrationState: { ...vmi.status?.migrationState, ...more } };
  });
  await settle();
}

/** The source's agent says that it has begun. */
export const begin = (arriving: Arriving) =>
  change(arriving, { startTimestamp: arriving.loop.launchers.migration.now(), mode: 'PreCopy' });

export async function arrive(arriving: Arriving): Promise<void> {
  const { loop, launcher } = arriving;
  await begin(arriving);
  loop.launchers.migration.arrives(launcher, 'm1');
  await settle();
  loop.launchers.migration.resumes(launcher);
  await settle();
}

/** As the source and the migration controller report a failure. */
export const fail = (arriving: { loop: Loop }, failureReason = 'Target pod is down') => {
  const now = arriving.loop.launchers.migration.now();
  return change(arriving, { startTimestamp: now, endTimestamp: now, failed: true, completed: true, failureReason });
};

export const stored = (loop: Loop) => loop.api.stored(key);
export const stateOf = (loop: Loop): MigrationState => stored(loop)?.status?.migrationState ?? {};
export const labelsOf = (loop: Loop): Record<string, string> => stored(loop)?.metadata.labels ?? {};
export const messages = (loop: Loop, reason: string) =>
  loop.events.filter((event) => event.reason === reason).map(({ message }) => message);
export const countOf = ({ calls }: FakeLauncher, name: string) => calls.filter((call) => call === name).length;
